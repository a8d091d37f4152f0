#pragma once
// The event queue: simulated time moves only here. Every event belongs to the world or to a thread of one node's
// process; a frozen thread's events wait until it thaws, a killed one's never run.
#include <array>
#include <cstdint>
#include <vector>

#include "tests/simulation/sim_random.hpp"
#include "tests/simulation/trace.hpp"

namespace lockstep::simulation {

constexpr Nanos kMicrosecond = 1'000;
constexpr Nanos kMillisecond = 1'000'000;
constexpr Nanos kSecond = 1'000'000'000;

enum class Owner : std::uint8_t { world = 0, node_a = 1, node_b = 2, second_of_a = 3, second_of_b = 4 };
constexpr std::size_t kOwners = 5;
[[nodiscard]] constexpr char letter(Owner o) {
  return o == Owner::world ? '-' : (o == Owner::node_a || o == Owner::second_of_a ? 'a' : 'b');
}

/// What other threads posted to one that owns events.
class Inbox {
 public:
  /// One of its events is about to run.
  virtual void before_event() = 0;
  /// It stood still, and all that waited for it comes within that time.
  virtual void thawed(Nanos within) = 0;

 protected:
  ~Inbox() = default;
};

class Scheduler {
 public:
  using Action = void (*)(void* context, std::uint64_t argument);
  static constexpr Nanos kCatchesUpWithin = 300 * kMicrosecond;  ///< a thread that thaws

  Scheduler(Trace& trace, SimRandom random) : trace_(trace), random_(random) {}

  [[nodiscard]] Nanos now() const { return now_; }
  void at(Nanos when, Owner owner, Action action, void* context, std::uint64_t argument = 0);
  void after(Nanos delay, Owner owner, Action action, void* context, std::uint64_t argument = 0) {
    at(now_ + delay, owner, action, context, argument);
  }
  /// Runs the next event; false when there is none.
  bool step();

  /// Lets time pass when nothing is left to happen.
  void wait_until(Nanos when) { now_ = when; }

  void freeze(Owner owner) { frozen_[index(owner)] = true; }
  /// What waited comes at once, but in a shuffled order: a thawed process sees expired timers and sockets in any order.
  void thaw(Owner owner);
  [[nodiscard]] bool frozen(Owner owner) const { return frozen_[index(owner)]; }
  /// The owner's events scheduled so far will not run.
  void forget(Owner owner);
  void set_inbox(Owner owner, Inbox* inbox) { inboxes_[index(owner)] = inbox; }

 private:
  struct Event {
    Nanos when;
    std::uint64_t order;
    Action action;
    void* context;
    std::uint64_t argument;
    std::uint32_t life;
    Owner owner;
  };
  static bool later(const Event& x, const Event& y) { return x.when != y.when ? x.when > y.when : x.order > y.order; }
  static std::size_t index(Owner o) { return static_cast<std::size_t>(o); }
  void push(const Event& event);

  Trace& trace_;
  SimRandom random_;
  Nanos now_ = 0;
  std::uint64_t order_ = 0;
  std::vector<Event> heap_;
  std::array<bool, kOwners> frozen_{};
  std::array<std::uint32_t, kOwners> life_{};
  std::array<std::vector<Event>, kOwners> waiting_;
  std::array<Inbox*, kOwners> inboxes_{};
};

}  // namespace lockstep::simulation
