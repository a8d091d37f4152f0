#pragma once
// RDMA without a device: both sides of every connection in one process, on one thread, by a clock and a random source
// that tests own. What the seam leaves open (engine/rdma/verbs.hpp) is chosen at random, at its worst: data moves in
// pieces at any moment between the post and the completion, events come in every order that is allowed, memory that is
// posted is overwritten until it is the poster's again.
//
// What a user does against the rules is kept in faults(), in sentences; a test asserts that there are none.
#include <array>
#include <functional>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "engine/rdma/registration_count.hpp"
#include "engine/rdma/verbs.hpp"
#include "engine/seams/clock.hpp"
#include "engine/seams/random.hpp"

namespace lockstep::test {

namespace fabric {
class Network;
struct Machine;
}  // namespace fabric

/// What the machine's device can do. Connections that stand already keep what they were granted.
struct FakeDevice {
  std::uint32_t sends = 4096, receives = 4096;  ///< of one connection
  std::uint32_t reads = 16;                     ///< of its own, under way on one connection
  std::uint32_t serves_reads = 16;              ///< of a peer's
  std::uint32_t max_inline = 220;
  std::uint32_t max_message = 1u << 30;
  bool invalidates = true;
  std::uint32_t windows = 1024;  ///< open at once on one connection; 0: it has none
  /// With zeros, up to so many bytes, as librdmacm shows private data of a call and of an answer.
  std::size_t request_padding = 56, answer_padding = 196;
};

/// At most; each is drawn anew. How late `told` may be says how many events may change places.
struct FakeDelays {
  engine::Duration wire = std::chrono::microseconds(50);      ///< between two pieces
  engine::Duration told = std::chrono::microseconds(50);      ///< from an event to its user
  engine::Duration unawaited = std::chrono::milliseconds(5);  ///< more, for what was sent and nobody awaits
  engine::Duration calls = std::chrono::microseconds(200);    ///< a call, its answer, the news of an end
  engine::Duration closing = std::chrono::milliseconds(2);    ///< until close() calls back
  engine::Duration unanswered = std::chrono::seconds(2);      ///< until a call that nobody answered is over
};

struct FakeCounts {
  std::uint64_t sends = 0, writes = 0, reads = 0;  ///< carried out
  std::uint64_t invalidations = 0;
  std::uint64_t no_receive = 0;    ///< messages that found no receive posted (RNR)
  std::uint64_t late_writes = 0;   ///< into memory of connections that were lost or being closed
  std::uint32_t most_reads = 0;    ///< under way on one connection at once
  std::uint32_t windows = 0;       ///< exposed, and not told to be shut
  std::uint32_t most_windows = 0;  ///< of them, on one connection at once
};

/// What a completion may fail with, and what these errors mean here.
struct FakeStatus {
  static constexpr std::errc length = std::errc::message_size;              ///< a message longer than its receive
  static constexpr std::errc protection = std::errc::bad_address;           ///< the own memory is in no arena
  static constexpr std::errc flushed = std::errc::operation_canceled;       ///< the connection ended before
  static constexpr std::errc remote_access = std::errc::permission_denied;  ///< key, range or right
  static constexpr std::errc remote_request = std::errc::invalid_argument;  ///< the peer could not make sense of it
  static constexpr std::errc remote_operation = std::errc::io_error;        ///< the peer's side failed
  static constexpr std::errc unanswered = std::errc::timed_out;             ///< retries exceeded
  static constexpr std::errc no_receive = std::errc::no_buffer_space;       ///< RNR retries exceeded
  static constexpr std::errc fatal = std::errc::no_such_device;             ///< the device
  static constexpr std::errc not_open = std::errc::bad_file_descriptor;     ///< a window to be shut that is not open
  static constexpr std::array all = {length,           protection, flushed,    remote_access, remote_request,
                                     remote_operation, unanswered, no_receive, fatal,         not_open};
  /// Why a connection is lost whose device has no windows, or not as many as were wanted.
  static constexpr std::errc no_windows = std::errc::operation_not_supported;
};

/// One machine's. Two of them, made one from the other, are two machines on one network; one alone serves both sides
/// as well. Destroyed after everything that was made by it, as the seam wants; which of two first does not matter.
class FakeFabric final : public rdma::Fabric {
 public:
  FakeFabric(engine::Clock& clock, engine::Random& random, FakeDelays delays = {});
  /// Another machine on the network of `neighbour`.
  explicit FakeFabric(FakeFabric& neighbour);
  ~FakeFabric() override;

  void add_arena(std::span<std::byte> arena) override;
  void remove_arena(std::span<std::byte> arena) override;
  [[nodiscard]] rdma::Registrations registrations() const override { return registrations_.now(); }
  [[nodiscard]] std::unique_ptr<rdma::Completions> attach(engine::Reactor& reactor) override;
  /// The same for a clock that no reactor stands behind: users are called by its timers.
  [[nodiscard]] std::unique_ptr<rdma::Completions> attach(engine::Clock& clock);
  [[nodiscard]] engine::Result<std::unique_ptr<rdma::Listener>> listen(
      rdma::Completions& home, std::string_view address, engine::Callback<std::unique_ptr<rdma::Call>> called) override;
  [[nodiscard]] std::unique_ptr<rdma::QueuePair> connect(rdma::Completions& completions, rdma::Domain domain,
                                                         std::string_view from, std::string_view to,
                                                         const rdma::Wanted& wanted,
                                                         std::span<const std::byte> private_data,
                                                         rdma::QueuePairUser& user) override;

  // --- What users did against the rules, and what happened; of the whole network -------------------------------------
  [[nodiscard]] const std::vector<std::string>& faults() const;
  [[nodiscard]] std::vector<std::string> take_faults();
  [[nodiscard]] const FakeCounts& counts() const;
  /// Numbers of the connections of which one side at least is not closed, in the order of connect().
  [[nodiscard]] std::vector<std::uint32_t> connections() const;
  /// Looks at all posted memory now, instead of when it is next used.
  void look();

  // --- The test's side of memory -------------------------------------------------------------------------------------
  /// Lets peers of connections in `domain` read or write `memory`, until revoke(), or until a peer invalidates it.
  [[nodiscard]] rdma::Remote grant(rdma::Domain domain, std::span<std::byte> memory, bool readable, bool writable);
  void revoke(std::uint32_t key);
  /// By grant(), or by a window that is open on this machine.
  [[nodiscard]] bool is_granted(std::uint32_t key) const;

  // --- Switches
  // -------------------------------------------------------------------------------------------------------
  [[nodiscard]] FakeDevice& device();
  /// Both sides of a connection hear of its end, each at a moment of its own.
  void lose(std::uint32_t connection, std::error_code why = std::make_error_code(std::errc::connection_reset));
  /// Nothing gets to this machine or away from it, and nobody is told. What waited goes on when it is over.
  void lose_packets(bool lost);
  /// The same for one connection.
  void lose_packets(std::uint32_t connection, bool lost);
  /// Its users hear on_lost() and nothing else; what they post is taken and never carried out. Peers hear nothing.
  void remove_device();
  void restore_device();
  /// The `number`th call of the provider from now on fails, 1 the next: listen, connect, accept, or a post, which loses
  /// the connection. 0: none.
  void fail_call(std::uint64_t number);
  /// The next such work that is posted on this machine completes with `why`, which loses the connection. A receive:
  /// when a message would fill it.
  void fail_next(rdma::Work work, std::error_code why);
  /// The last byte that the next such work of at least so many bytes moves, after `passed` others, is another one when
  /// it has come; of the whole network. A hide: that of a window which the peer may write to, just before it is shut.
  void damage_next(rdma::Work work, std::size_t least, unsigned passed = 0);
  /// That are still to come.
  [[nodiscard]] std::size_t damages() const;
  /// Sees the bytes of each message, read and write of the whole network.
  void watch(std::function<void(std::span<const std::byte>)> watcher);
  /// The process that attached it died: its users are not called any more, and its memory is free. Peers hear of it.
  void abandon(rdma::Completions& completions);

 private:
  std::shared_ptr<fabric::Network> network_;
  fabric::Machine& machine_;
  rdma::RegistrationCount registrations_;
};

}  // namespace lockstep::test
