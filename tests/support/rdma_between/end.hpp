#pragma once
// One side of a connection between two processes. What is posted leaves at the end of the turn as packets, and is over
// when the peer said that it carried it out. Only the process that memory belongs to touches it: so a peer that was
// killed or stopped in the midst of something holds nothing up, and close() ends it at once.
#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/rdma/real/errors.hpp"
#include "tests/support/rdma_between/host.hpp"
#include "tests/support/rdma_between/packet_socket.hpp"

namespace lockstep::test::between {

class End final : public rdma::QueuePair, private engine::TurnHook, private Plugged {
 public:
  struct Names {
    std::string local, peer;
  };
  End(Host& host, rdma::Domain domain, const rdma::Wanted& wanted, Names names, rdma::QueuePairUser& user);
  ~End() override;

  /// First of all, one of these.
  void call(std::span<const std::byte> private_data);
  void answer(Descriptor socket, std::uint32_t reads_served, std::span<const std::byte> private_data);
  void fail(std::error_code why);

  void receive(std::span<std::byte> first, std::span<std::byte> second, std::uint64_t id) override;
  void send(const rdma::Send& send) override;
  void write(std::span<const std::byte> from, const rdma::Remote& to, std::uint64_t id) override;
  void read(std::span<std::byte> into, const rdma::Remote& from, std::uint64_t id) override;
  [[nodiscard]] bool is_registered(std::span<const std::byte> memory) const override;
  [[nodiscard]] rdma::Remote expose(std::span<std::byte> memory, rdma::Access access) override;
  void hide(std::uint32_t key, std::uint64_t id) override;
  void await_sends() override {}  // none is told late
  void close(engine::Callback<> closed) override;
  [[nodiscard]] const rdma::Limits& limits() const override { return limits_; }
  [[nodiscard]] const std::string& local_address() const override { return names_.local; }
  [[nodiscard]] const std::string& peer_address() const override { return names_.peer; }

 private:
  enum class Phase : std::uint8_t { connecting, up, lost, closing };
  struct Receive {
    std::span<std::byte> first, second;
    std::uint64_t id = 0;
  };
  struct Request {
    rdma::Work work{};
    std::uint64_t id = 0;
    std::uint64_t order = 0;     ///< of all posts
    std::uint32_t sequence = 0;  ///< on the wire
    std::array<std::span<const std::byte>, rdma::kMaxPieces> pieces{};
    std::vector<std::byte> copy = {};  ///< of what is inline
    std::span<std::byte> into = {};    ///< of a read
    rdma::Remote remote = {};
    std::uint32_t invalidates = 0;
    std::uint32_t bytes = 0, moved = 0;
  };
  /// To a peer's read.
  struct Answer {
    std::uint32_t sequence = 0;
    rdma::Remote from;
    std::uint32_t bytes = 0, moved = 0;
  };
  struct Window {
    std::span<std::byte> memory;
    rdma::Access access{};
  };
  struct Incoming {
    Kind kind{};
    std::uint32_t length = 0, got = 0;
  };

  // Posting (end.cpp)
  [[nodiscard]] bool may_post(rdma::Work work);
  [[nodiscard]] bool is_in_arena(std::span<const std::byte> memory);
  void post(Request request);
  void fault(std::string_view sentence);
  /// A fault that ends the connection.
  void misused(std::string_view sentence);
  void lose_later(std::error_code why);

  // The connection (end_connecting.cpp)
  void dial();
  void dial_again();
  void be_patient();
  void begin(Descriptor socket);
  [[nodiscard]] bool answered(const Packet& packet);
  void stand(std::span<const std::byte> private_data);
  void lose(std::error_code why);
  void flush();
  void cable_changed(Cable now) override;

  // What goes out (end_sending.cpp)
  void end_of_turn() override;
  void pump();
  [[nodiscard]] bool transmit(const Header& header, Pieces bytes);
  [[nodiscard]] bool send_control();
  [[nodiscard]] bool send_answer();
  [[nodiscard]] bool send_read();
  [[nodiscard]] bool send_request();
  [[nodiscard]] bool send_piece(Request& request);
  void refuse(Kind kind, std::uint32_t sequence, Status status);

  // What comes in (end_receiving.cpp)
  void read_packets();
  void wait_for_packets();
  [[nodiscard]] bool handle(const Packet& packet);
  [[nodiscard]] bool is_next_piece(const Packet& packet);
  [[nodiscard]] bool take_send(const Packet& packet);
  [[nodiscard]] bool begin_receive(const Header& header);
  void received(const Header& header);
  [[nodiscard]] bool take_write(const Packet& packet);
  [[nodiscard]] bool take_read(const Packet& packet);
  [[nodiscard]] bool take_data(const Packet& packet);
  [[nodiscard]] bool take_done(const Header& header);
  [[nodiscard]] bool take_failure(const Header& header);
  void settle();
  void tell(const rdma::Completion& completion);

  // Windows (end_windows.cpp)
  [[nodiscard]] bool shut(Request& request);
  [[nodiscard]] std::span<std::byte> window_of(const rdma::Remote& remote, std::size_t bytes,
                                               rdma::Access access) const;

  Host& host_;
  rdma::Domain domain_;
  std::uint32_t most_windows_;
  rdma::Limits limits_;
  Names names_;
  rdma::QueuePairUser* user_;
  Phase phase_ = Phase::connecting;
  bool is_calling_ = false;
  bool is_dialling_ = false;
  std::error_code loss_;  ///< to be told at the end of this turn
  engine::TimerId patience_ = engine::TimerId::none;
  engine::TimerId retry_ = engine::TimerId::none;
  std::unique_ptr<PacketSocket> socket_;
  bool is_reading_ = false;  ///< a packet is waited for
  bool is_full_ = false;     ///< the socket, for now
  std::vector<std::byte> private_data_;
  bool owes_answer_ = false, owes_ready_ = false, owes_done_ = false;

  std::uint64_t last_order_ = 0;
  std::uint32_t posted_ = 0;               ///< of all but receives, that count
  std::uint32_t unsignalled_ = 0;          ///< of them, that are over and count until a later one is told
  std::deque<Receive> staged_, receives_;  ///< posted in this turn; before
  std::deque<Request> requests_;           ///< that have not left whole
  std::deque<Request> awaiting_;           ///< that the peer has, and was not heard to have carried out
  std::deque<Request> reads_, reading_;    ///< that have not left; that are being answered
  std::uint32_t last_sent_ = 0, last_done_ = 0, last_read_ = 0;

  std::map<std::uint32_t, Window> windows_;  ///< by their keys
  std::uint32_t exposed_ = 0;                ///< windows that were not told to be shut
  std::set<std::uint32_t> hidden_;           ///< keys of those that were, by hide()
  std::deque<Answer> answers_;
  Incoming incoming_;
  std::uint32_t heard_ = 0, reads_heard_ = 0;  ///< of the peer's, carried out; asked for
};

}  // namespace lockstep::test::between
