#pragma once
// What the parts of the trial share: two reactors with completion queues, connections between them, and waiting for
// what has to come. Each part runs on the main thread, which touches a connection by asking its reactor.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <latch>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "engine/rdma/real/errors.hpp"
#include "engine/rdma/real/fabric.hpp"
#include "engine/runtime/buffer_pool.hpp"
#include "engine/runtime/reactor.hpp"

struct ibv_mr;

namespace lockstep::rdma::trial {

struct Wrong : std::runtime_error {
  using std::runtime_error::runtime_error;
};

void check(bool holds, const std::string& what);
/// Until it holds; Wrong when it does not within that many seconds.
void wait_for(const std::string& what, const std::function<bool()>& holds, int seconds = 60);
void say(const std::string& line);
/// A program's output; Wrong when it fails.
std::string run(const std::string& command);

/// One reactor of the trial, with memory that the fabric knows.
struct Side {
  Side(Fabric& fabric, const std::string& name);
  ~Side();
  void on(const std::function<void()>& work);

  engine::Reactor reactor;
  engine::BufferPool pool{std::size_t{64} << 20};
  std::unique_ptr<Completions> completions;
};

/// One end of a connection. Counters are its reactor's to write and anybody's to read.
struct End final : QueuePairUser {
  explicit End(Side& s) : side(s) {}
  void on_established(std::span<const std::byte> data) override;
  void on_completion(const Completion& completion) override;
  void on_lost(std::error_code error) override;
  /// Why it is lost; any thread.
  [[nodiscard]] std::string reason() const { return lost ? why.message() : "not lost"; }
  /// On its reactor.
  void close();
  /// Closed and forgotten, from the main thread.
  void end();

  Side& side;
  std::unique_ptr<QueuePair> pair;
  std::function<void()> when_established;
  std::function<void(const Completion&)> when_completed;
  std::vector<std::byte> hello;
  std::error_code why;
  std::atomic<bool> established = false, lost = false, closing = false, closed = false;
  std::atomic<std::uint64_t> completions = 0;
};

/// A fabric, its two sides, and a listener on `home` that hands calls to `called`.
struct World {
  explicit World(const std::string& local);
  ~World();
  struct Pair {
    std::unique_ptr<End> caller, callee;
  };
  /// A connection that stands. Before either end may be established, `prepare` is run for it on its reactor, with its
  /// queue pair made.
  Pair connect(const Wanted& wanted = {.sends = 128, .receives = 128, .reads = 16, .max_inline = 220},
               const std::function<void(End&)>& prepare = {}, Domain domain = Domain::link);
  std::unique_ptr<End> dial(const std::string& to, const Wanted& wanted, std::string_view greeting,
                            const std::function<void(End&)>& prepare = {}, Domain domain = Domain::link);

  std::string local;  ///< an address of the device, without a port
  std::unique_ptr<Fabric> fabric;
  std::unique_ptr<Side> a, b;  ///< calls, and is called
  std::unique_ptr<Listener> listener;
  std::function<void(std::unique_ptr<Call>)> called;  ///< on b's reactor
};

/// Memory for the peer, which may be registered with the domain of a connection only; on its reactor.
struct Exposed {
  Exposed(End& end, std::size_t bytes);
  ~Exposed();
  std::span<std::byte> memory;
  Remote remote;
  ibv_mr* region = nullptr;
};

[[nodiscard]] std::span<const std::byte> bytes_of(std::string_view text);
void fill(std::span<std::byte> memory, std::uint32_t seed);
[[nodiscard]] bool filled(std::span<const std::byte> memory, std::uint32_t seed);
[[nodiscard]] int open_files();

/// What the kernel counts of this machine's devices, its own included, and what this process has open.
struct Resources {
  int queue_pairs = 0, queues = 0, ids = 0, regions = 0, domains = 0, files = 0;
  bool operator==(const Resources&) const = default;
  [[nodiscard]] std::string text() const;
};
[[nodiscard]] Resources resources();

// The parts.
void hello(World& world);
void messages(World& world);
void remote_memory(World& world);
void invalidation(World& world);
void windows(World& world);
void windows_reused(World& world, std::uint32_t times);
void arenas(World& world);
void many_reads(World& world);
void quiet_sends(World& world);
void wrong_key(World& world);
void calls_that_wait(World& world);
void idle_unplug(World& world, const std::string& device, const std::string& interface);
void refusals(World& world);
void ping_pong(World& world, std::uint32_t rounds);
void closing(World& world, int rounds);
void pinning_forbidden(World& world);
void interface_down(World& world, const std::string& interface);
void hot_plug(World& world, const std::string& device, const std::string& interface, int rounds);

}  // namespace lockstep::rdma::trial
