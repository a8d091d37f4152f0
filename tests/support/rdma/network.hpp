#pragma once
// The parts that FakeFabric is made of: machines, the network between them, and connections on it.
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/rdma/fake_fabric.hpp"
#include "tests/support/rdma/memory.hpp"

namespace lockstep::test::fabric {

class End;
class Network;

/// Timers of a clock that end with this.
class Timers {
 public:
  explicit Timers(engine::Clock& clock) : clock_(clock) {}
  Timers(const Timers&) = delete;
  Timers& operator=(const Timers&) = delete;
  ~Timers() { clear(); }
  void after(engine::Duration delay, engine::Callback<> action);
  void clear();
  [[nodiscard]] engine::TimePoint now() const { return clock_.now(); }

 private:
  engine::Clock& clock_;
  std::uint64_t last_ = 0;
  std::map<std::uint64_t, engine::TimerId> pending_;
};

struct Grant {
  rdma::Domain domain{};
  std::span<std::byte> memory;
  bool readable = false, writable = false;
  const End* window_of = nullptr;  ///< whose peer alone may use it; of a test's grant: none
};

struct Machine {
  FakeDevice device;
  std::vector<std::span<std::byte>> arenas;
  std::map<std::uint32_t, Grant> grants;
  bool is_silent = false;
  bool is_removed = false;
  std::uint64_t fails_in = 0;
  std::vector<std::pair<rdma::Work, std::error_code>> failing;

  [[nodiscard]] bool has(std::span<const std::byte> bytes) const;
  /// What `key` lets the peer of `end` do; nothing when it is not granted to it.
  [[nodiscard]] const Grant* grant_to_peer_of(const End& end, std::uint32_t key) const;
  /// Counts a call of the provider; true: this one fails.
  bool fails_now() { return fails_in != 0 && --fails_in == 0; }
  /// What the next work of that kind is to fail with, taken away.
  std::error_code take_failure(rdma::Work work);
};

/// Where the users of one reactor are called.
struct Host final : rdma::Completions {
  Host(std::shared_ptr<Network> on, Machine& of, engine::Clock& clock)
      : network(std::move(on)), machine(of), timers(clock) {}
  ~Host() override;

  std::shared_ptr<Network> network;
  Machine& machine;
  Timers timers;
};

/// The two ends have one number.
struct Connection {
  std::uint32_t id = 0;
  std::unique_ptr<End> caller;
  std::unique_ptr<End> answerer;  ///< from accept() on
  Machine* called = nullptr;      ///< whose listener it reached
  bool is_silent = false;
};

struct ListenerState {
  Host* home = nullptr;
  std::string address;
  engine::Callback<std::unique_ptr<rdma::Call>> called;
};

class Network : public std::enable_shared_from_this<Network> {
 public:
  Network(engine::Clock& clock, engine::Random& random, FakeDelays lasting)
      : delays(lasting), dice(random), timers_(clock) {}

  // --- For connections
  // ------------------------------------------------------------------------------------------------
  void fault(std::string sentence) { faults.push_back(std::move(sentence)); }
  [[nodiscard]] engine::Duration draw(engine::Duration most);
  void after(engine::Duration most, engine::Callback<> action) { timers_.after(draw(most), std::move(action)); }
  /// Does `action` at the other side, after a while, and not before packets get through.
  void carry(Connection& connection, engine::Callback<> action);
  [[nodiscard]] bool is_silent(const Connection& connection) const;
  /// Packets may get through again.
  void resume();

  // --- For FakeFabric
  // -------------------------------------------------------------------------------------------------
  Machine& add_machine() { return machines_.emplace_back(); }
  End& call(Host& host, rdma::Domain domain, std::string_view from, std::string_view to, const rdma::Wanted& wanted,
            std::span<const std::byte> private_data, rdma::QueuePairUser& user);
  End& accept(Connection& connection, Host& host, rdma::Domain domain, const rdma::Wanted& wanted,
              std::span<const std::byte> private_data, rdma::QueuePairUser& user);
  void refuse(Connection& connection);
  /// As it is, or with a port that is free where it names port 0.
  [[nodiscard]] std::string pick_port(std::string_view address);
  [[nodiscard]] ListenerState* listener(std::string_view address) const;
  [[nodiscard]] Connection* find(std::uint32_t id);
  /// True, once: what this work moved is to come damaged.
  [[nodiscard]] bool takes_damage(rdma::Work work, std::size_t bytes);
  /// Every end that is not closed.
  [[nodiscard]] std::vector<End*> open_ends() const;
  void host_ends(Host& host);
  void abandon(Host& host);

  FakeDelays delays;
  Dice dice;
  std::vector<std::string> faults;
  FakeCounts counts;
  struct Damage {
    rdma::Work work{};
    std::size_t least = 0;  ///< bytes
    unsigned passed = 0;    ///< such works that go before it
  };
  std::vector<Damage> damages;
  std::function<void(std::span<const std::byte>)> watcher;
  std::vector<std::shared_ptr<ListenerState>> listeners;
  [[nodiscard]] std::uint32_t make_key() { return last_key_ += 1 + static_cast<std::uint32_t>(dice.below(0x100)); }
  std::map<std::uint32_t, std::unique_ptr<Connection>> connections;

 private:
  void arrived(Connection& connection, std::vector<std::byte> private_data);
  void answered(Connection& connection, std::vector<std::byte> private_data);

  Timers timers_;
  std::list<Machine> machines_;
  std::uint32_t last_key_ = 0x100;
  std::uint32_t last_connection_ = 0;
  std::uint16_t last_port_ = 40'000;
  std::vector<std::pair<Connection*, engine::Callback<>>> held_;
};

/// What a user holds of an end.
[[nodiscard]] std::unique_ptr<rdma::QueuePair> handle_of(std::shared_ptr<Network> network, End& end);

}  // namespace lockstep::test::fabric
