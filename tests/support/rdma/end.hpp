#pragma once
// One side of a connection: what is posted there, how it moves, and what its user is told.
#include <deque>
#include <set>

#include "tests/support/rdma/network.hpp"

namespace lockstep::test::fabric {

struct Posted {
  rdma::Work work{};
  std::uint64_t id = 0;
  Source source;
  Target target;
  rdma::Remote remote;
  std::optional<std::uint32_t> invalidates;
  std::size_t bytes = 0;        ///< of a send, write or read; what has come, of a receive
  std::vector<std::byte> data;  ///< as far as it was moved
  std::uint32_t key = 0;        ///< of the window that is opened or shut
  std::span<std::byte> window;  ///< that is opened; empty when it is shut
  rdma::Access access{};
  std::error_code fails;      ///< instead of being carried out
  bool is_refused = false;    ///< by the device: it never knew of it
  bool is_under_way = false;  ///< a read that was asked for, a receive that is being filled
  bool is_done = false;
  bool is_awaited = false;        ///< a send or a write whose completion is told at once
  engine::TimePoint told_from{};  ///< the others' not before
  bool is_reported = false;       ///< a fault was found in how its memory is used
  std::error_code error;
  std::optional<std::uint32_t> invalidated;

  [[nodiscard]] bool opens() const { return !window.empty(); }
};

class End {
 public:
  End(Network& network, Connection& connection, Host& host, rdma::Domain of, rdma::QueuePairUser& user)
      : machine(host.machine), domain(of), network_(network), connection_(connection), host_(&host), user_(&user) {}

  // --- Its user's
  // ------------------------------------------------------------------------------------------------------
  void receive(std::span<std::byte> first, std::span<std::byte> second, std::uint64_t id);
  void send(const rdma::Send& send);
  void write(std::span<const std::byte> from, const rdma::Remote& to, std::uint64_t id);
  void read(std::span<std::byte> into, const rdma::Remote& from, std::uint64_t id);
  [[nodiscard]] bool is_registered(std::span<const std::byte> memory) const;
  [[nodiscard]] rdma::Remote expose(std::span<std::byte> memory, rdma::Access access);
  void hide(std::uint32_t key, std::uint64_t id);
  void await_sends();
  void close(engine::Callback<> closed);
  /// The user let go of the queue pair.
  void dropped();

  // --- The network's
  // ---------------------------------------------------------------------------------------------------
  /// The connection stands, as far as this side knows.
  void stand(std::vector<std::byte> private_data);
  /// This side notices that it does not any more, by the failure of `cause` or otherwise.
  void lose(std::error_code why, Posted* cause = nullptr);
  void device_removed();
  void nobody_answered();
  /// Nobody is left to be told anything.
  void abandon();
  void start_wire();
  /// Finds what was changed by somebody who had no right to.
  void look();
  /// Finds what is posted or exposed there.
  void look_for_use_of(std::span<const std::byte> arena);
  /// What was wanted is not granted: why it is lost before it begins.
  [[nodiscard]] std::error_code why_refused();

  [[nodiscard]] bool is_closed() const { return is_closed_; }
  [[nodiscard]] bool is_closing() const { return is_closing_; }
  [[nodiscard]] bool is_lost() const { return static_cast<bool>(lost_); }
  [[nodiscard]] Host* host() const { return host_; }
  [[nodiscard]] Connection& connection() const { return connection_; }

  Machine& machine;
  const rdma::Domain domain;
  rdma::Limits limits;
  std::uint32_t windows = 0;  ///< open at once
  std::string local_address, peer_address;

 private:
  using Works = std::deque<std::unique_ptr<Posted>>;

  // Posting (end.cpp)
  /// False when it is not even kept.
  [[nodiscard]] bool may_post(const Posted& posted);
  /// All of it lies in arenas; otherwise it fails.
  [[nodiscard]] bool is_in_arenas(Posted& posted, std::span<const std::span<const std::byte>> pieces);
  void post(std::unique_ptr<Posted> posted);
  void fault(std::string_view sentence, const Posted* posted = nullptr);

  // The wire (end_wire.cpp)
  [[nodiscard]] End* peer() const;
  [[nodiscard]] bool is_deaf() const { return is_closed_ || is_halted_ || lost_ || machine.is_removed; }
  void step();
  [[nodiscard]] Posted* next_message() const;
  [[nodiscard]] Posted* next_read();
  void move_message(Posted& message);
  void move_send(Posted& message, End& to);
  void move_write(Posted& write, End& to);
  void move_read(Posted& read, End& to);
  void move_window(Posted& posted);
  void send_came(Posted& message, Posted& into, End& to);
  [[nodiscard]] Posted* take_receive();
  [[nodiscard]] std::size_t piece(const Posted& posted);
  void fail(Posted& posted, std::error_code why);

  // What the user is told (end_told.cpp)
  enum class Event : std::uint8_t { established, lost, message, read, receive };
  void start_telling();
  void tell_some();
  [[nodiscard]] std::vector<Event> events() const;
  void tell(Event event);
  void tell_completion(Works& queue, Posted* posted);
  [[nodiscard]] Posted* next_message_told() const;
  [[nodiscard]] Posted* next_read_told() const;
  [[nodiscard]] bool may_be_told(const Posted& posted) const;
  void may_be_late(Posted& posted);
  /// All that was posted before it, or, where there is none, all that was posted.
  void hurry(const Posted* before);
  [[nodiscard]] Posted* next_told(Event event) const;
  [[nodiscard]] std::unique_ptr<Posted> take(Works& queue, const Posted* posted);
  void hand_back(Posted& posted);
  void window_is_free(std::uint32_t key);
  void shut_windows();
  void spoil_windows();
  void lose_acknowledgements(Works& queue);
  void look_at(Posted& posted);
  void spoil_all();
  void peer_hears(std::error_code why);
  void write_late(int times);
  void finish();

  Network& network_;
  Connection& connection_;
  Host* host_;
  rdma::QueuePairUser* user_;
  Works sends_, receives_;  ///< in the order of their posts, until they are told
  struct Window {
    std::span<std::byte> memory;
    bool is_hiding = false;
  };
  std::map<std::uint32_t, Window> windows_;  ///< exposed, and not told to be shut
  std::set<std::uint32_t> hidden_;           ///< the keys of those that were
  std::vector<std::byte> private_data_;
  Posted* cause_ = nullptr;  ///< its completion is the first with an error
  std::error_code lost_;
  std::size_t flushes_ = 0;  ///< completions of what was not done that the device still makes
  bool stands_ = false;
  bool established_told_ = false;
  bool lost_told_ = false;
  bool is_closing_ = false;
  bool is_closed_ = false;
  bool is_halted_ = false;  ///< nothing moves any more
  bool is_gone_ = false;    ///< its device was removed
  bool stepping_ = false;
  bool telling_ = false;
};

}  // namespace lockstep::test::fabric
