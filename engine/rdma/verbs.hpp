#pragma once
// What the data movers need of RDMA (InfiniBand Architecture volume 1, chapters 9 to 12), and no more: connections with
// sends, receives, reads and writes of registered memory, and windows through which the peer reads and writes ours. The
// real provider is on librdmacm and libibverbs (real/fabric.hpp); tests have one that moves data at the worst moment.
// Nothing here names a fabric or a driver.
//
// Memory: all that is sent, received, read, written or exposed lies in an arena that the fabric was told of. From the
// post on until its completion, or until close() has called back, the device may read or write it at any moment. So may
// the peer what is exposed, from expose() on until its window is shut.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "engine/base/result.hpp"

namespace lockstep::engine {
class Reactor;
}

namespace lockstep::rdma {

/// The protection domains of a device: a key of one is worth nothing on a connection of the other.
enum class Domain : std::uint8_t { initiators, link };

/// A place in the peer's memory, as the peer told it.
struct Remote {
  std::uint64_t address = 0;
  std::uint32_t key = 0;
  bool operator==(const Remote&) const = default;
};

enum class Work : std::uint8_t { send, receive, read, write, hide };

/// What a window lets the peer do.
enum class Access : std::uint8_t { read, write };

struct Completion {
  Work work{};
  std::uint64_t id = 0;  ///< the poster's
  /// The first one with an error is why the connection is lost; on_lost() follows. The memory is the poster's again.
  std::error_code error = {};
  std::uint32_t bytes = 0;                        ///< that were received
  std::optional<std::uint32_t> invalidated = {};  ///< our key, by the peer's send: its window is shut
};

/// What a connection is to bear. The fabric grants what the device has, and at most this.
struct Wanted {
  std::uint32_t sends = 0;       ///< sends, reads, writes, exposes and hides posted and not completed
  std::uint32_t receives = 0;    ///< posted and not completed
  std::uint32_t reads = 16;      ///< of those, reads under way; the peer may have granted fewer
  std::uint32_t max_inline = 0;  ///< bytes of a send that are copied when it is posted
  std::uint32_t windows = 0;     ///< open at once; of the link's domain only
};

/// What was granted. Sends, receives and windows are granted as wanted, or the connection is lost; the rest is known
/// from on_established() on. Nothing stands in for windows where a device has none: a key of a whole arena would.
struct Limits {
  std::uint32_t sends = 0, receives = 0;
  /// More are queued in the provider, so that no send waits behind a read too many.
  std::uint32_t reads = 0;
  std::uint32_t max_inline = 0;   ///< bytes
  std::uint32_t max_message = 0;  ///< bytes of one read or write
  bool invalidates = false;       ///< a send may invalidate a key of the peer's
};

constexpr std::size_t kMaxPieces = 3;

struct Send {
  std::span<const std::span<const std::byte>> pieces;  ///< at most kMaxPieces; empty ones are left out
  std::optional<std::uint32_t> invalidates = {};       ///< a key of the peer's
  /// 0: no completion is told; only for what is inline, which is the poster's again at once. It counts as posted until
  /// the next completion of a later write, send or hide, so that one at least in Limits::sends has an id.
  std::uint64_t id = 0;
};

/// Whose connection it is. On the connection's reactor, never from inside a QueuePair's member; nothing after close().
class QueuePairUser {
 public:
  /// Once, before any completion; `private_data` is what the peer's answer brought (of a call that was accepted:
  /// empty).
  virtual void on_established(std::span<const std::byte> private_data) = 0;
  /// Those of one kind of work come in the order of their posts; a write's, a send's and a hide's, too.
  virtual void on_completion(const Completion& completion) = 0;
  /// The peer, the network or the device ended it, or never answered. close() is still owed; completions may be
  /// missing.
  virtual void on_lost(std::error_code why) = 0;

 protected:
  ~QueuePairUser() = default;
};

/// One connection's pair of queues. On its reactor. What is posted leaves at the end of the turn, in order. Posting
/// more than was granted is a fault of the caller's.
class QueuePair {
 public:
  QueuePair() = default;
  QueuePair(const QueuePair&) = delete;
  QueuePair& operator=(const QueuePair&) = delete;
  /// After close() has called back.
  virtual ~QueuePair() = default;

  /// May be called before the connection stands: what the peer sends first has a place then. A message fills `first`,
  /// then `second`, which may be empty.
  virtual void receive(std::span<std::byte> first, std::span<std::byte> second, std::uint64_t id) = 0;
  /// As write() and read(): not before on_established().
  virtual void send(const Send& send) = 0;
  /// `id` 0: no completion is told. The next completion of a later write, send or hide says that it is over, too.
  virtual void write(std::span<const std::byte> from, const Remote& to, std::uint64_t id) = 0;
  virtual void read(std::span<std::byte> into, const Remote& from, std::uint64_t id) = 0;

  /// It lies in one arena that this connection may use. Before on_established() and after close() it may be false.
  [[nodiscard]] virtual bool is_registered(std::span<const std::byte> memory) const = 0;
  /// Opens a window through which the peer may do this to `memory`, which is not empty, and is_registered(). Its key is
  /// the peer's to use from the next post on, and on this connection alone. Of the link's domain only, not before
  /// on_established(), at most Wanted::windows at once. It counts as a post without a completion, as Send::id 0 does.
  /// Once on_lost() was told it opens nothing.
  ///
  /// It is shut, and free for another expose(), when a completion says so: a receive's, by Completion::invalidated, or
  /// its hide's. All are shut when close() has called back, and not before: a loss alone shuts none.
  [[nodiscard]] virtual Remote expose(std::span<std::byte> memory, Access access) = 0;
  /// Shuts the window of a key that expose() gave. `id` is not 0. Only where the peer will not invalidate it, which
  /// devices take for an error that loses the connection, whichever comes first: a key that the peer was asked to
  /// invalidate is hidden when its message has come without that, or not at all (then close() shuts it).
  virtual void hide(std::uint32_t key, std::uint64_t id) = 0;

  /// The completions of what was sent and written so far are waited for. Else they may be told with whatever else
  /// happens on this reactor, or some milliseconds late, as nothing but memory hangs on them: whoever sleeps is not
  /// woken by them.
  virtual void await_sends() = 0;

  /// Once, at any time, also instead of waiting for on_established(). Nothing more is posted or told. `closed` runs
  /// once, not in here: nothing reads or writes posted or exposed memory any more, whatever the peer does.
  virtual void close(engine::Callback<> closed) = 0;

  [[nodiscard]] virtual const Limits& limits() const = 0;
  [[nodiscard]] virtual const std::string& local_address() const = 0;  ///< "10.0.0.1:3260"
  [[nodiscard]] virtual const std::string& peer_address() const = 0;
};

/// The completion queues of one reactor, polled once a turn. Made by the fabric; destroyed, on the reactor or when no
/// thread runs it any more, after all connections on it were closed, and before the fabric.
class Completions {
 public:
  Completions() = default;
  Completions(const Completions&) = delete;
  Completions& operator=(const Completions&) = delete;
  virtual ~Completions() = default;
};

/// A peer that calls. Dropping it refuses it. May be moved to another thread.
class Call {
 public:
  Call() = default;
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  virtual ~Call() = default;

  [[nodiscard]] virtual const std::string& local_address() const = 0;
  [[nodiscard]] virtual const std::string& peer_address() const = 0;
  /// As long as it was sent, and whatever the fabric pads it with.
  [[nodiscard]] virtual std::span<const std::byte> private_data() const = 0;
  /// The device can invalidate by send.
  [[nodiscard]] virtual bool can_invalidate() const = 0;

  /// Once, on the reactor of `completions`. The user outlives the connection or closes it first; receives that are
  /// posted in the same turn are there before the peer is answered.
  [[nodiscard]] virtual std::unique_ptr<QueuePair> accept(Completions& completions, Domain domain, const Wanted& wanted,
                                                          std::span<const std::byte> private_data,
                                                          QueuePairUser& user) = 0;
};

/// Calls come from it until it is destroyed, on any thread.
class Listener {
 public:
  Listener() = default;
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  virtual ~Listener() = default;
  [[nodiscard]] virtual const std::string& address() const = 0;  ///< with the port that was picked
};

/// Memory regions that the devices hold for this process. None is made for a request: what was made stands still while
/// connections come, go and move data, but for the first one on a device.
struct Registrations {
  std::uint64_t regions = 0, bytes = 0;  ///< now; memory that several devices or domains know counts for each
  std::uint64_t made = 0, refused = 0;   ///< ever
  bool operator==(const Registrations&) const = default;
};

/// All RDMA devices of the machine, those that come and go meanwhile, too. Any thread.
class Fabric {
 public:
  Fabric() = default;
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;
  /// After everything that was made by it.
  virtual ~Fabric() = default;

  /// Memory that connections may use, with both domains of every device, before the first connection needs it. It is
  /// there until remove_arena(), or the fabric's end.
  virtual void add_arena(std::span<std::byte> arena) = 0;
  /// The same span. No connection uses it any more: nothing in it is posted, no window on it is open. No device knows
  /// it when this returns, which may take as long as a device needs.
  virtual void remove_arena(std::span<std::byte> arena) = 0;
  [[nodiscard]] virtual Registrations registrations() const = 0;
  [[nodiscard]] virtual std::unique_ptr<Completions> attach(engine::Reactor& reactor) = 0;

  /// `called` runs on the reactor of `home`. A failure names the address and says what to do about it.
  [[nodiscard]] virtual engine::Result<std::unique_ptr<Listener>> listen(
      Completions& home, std::string_view address, engine::Callback<std::unique_ptr<Call>> called) = 0;
  /// On the reactor of `completions`. `from` is a local address to bind to ("10.0.0.1:0"), empty for any; addresses are
  /// literal. on_established() or on_lost() follows.
  [[nodiscard]] virtual std::unique_ptr<QueuePair> connect(Completions& completions, Domain domain,
                                                           std::string_view from, std::string_view to,
                                                           const Wanted& wanted,
                                                           std::span<const std::byte> private_data,
                                                           QueuePairUser& user) = 0;
};

/// How a program comes by its fabric. A failure says in a sentence why it has none.
using OpenFabric = engine::Result<std::unique_ptr<Fabric>> (*)();

}  // namespace lockstep::rdma
