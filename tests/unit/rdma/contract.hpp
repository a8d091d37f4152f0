#pragma once
// What holds for any provider of the seam is written once: the parts that the tests of it share. A world has two
// machines, one that is called and one that calls; contract_worlds.hpp and rdma_real/real_world.hpp say which there
// are.
#include "engine/rdma/real/errors.hpp"
#include "engine/runtime/reactor.hpp"
#include "tests/unit/rdma/fabric_fixture.hpp"

namespace lockstep::test {

constexpr std::uint32_t kContractWindows = 3;

/// Stops the reactor in the turn in which it is so.
template <class Condition>
struct Until final : engine::TurnPoller {
  Until(engine::Reactor& r, const Condition& c) : reactor(r), condition(c) {}
  bool poll() override {
    if (!met && (met = condition())) reactor.stop();
    return false;
  }
  bool prepare_to_sleep() override {
    (void)poll();
    return !met;
  }
  engine::Reactor& reactor;
  const Condition& condition;
  bool met = false;
};

/// Both on one reactor. What is waited for comes by it, in real time.
template <class Provider>
struct TwoMachines : TwoEnds {
  static inline const auto kLength = make_error_code(rdma::RdmaErrc::length),
                           kNoReceive = make_error_code(rdma::RdmaErrc::no_receive),
                           kRemoteAccess = make_error_code(rdma::RdmaErrc::remote_access),
                           kRemoteInvalid = make_error_code(rdma::RdmaErrc::remote_invalid);
  static constexpr const char* kHere = "10.0.0.1:3260";

  TwoMachines(std::unique_ptr<Provider> called, std::unique_ptr<Provider> calling)
      : target(std::move(called)), initiator(std::move(calling)) {
    wanted.windows = kContractWindows;
    target->add_arena(target_memory);
    initiator->add_arena(initiator_memory);
    target_completions = target->attach(reactor);
    initiator_completions = initiator->attach(reactor);
  }
  ~TwoMachines() {
    for (Side* const side : {&caller, &answerer}) {
      if (side->pair == nullptr) continue;
      if (!is_closing[side == &caller ? 0 : 1]) close(*side);
      run_until([&] { return side->closed; });
      side->pair.reset();
    }
  }

  void listen(std::string_view address = "10.0.0.1:3260") {
    auto made = target->listen(*target_completions, address,
                               [this](std::unique_ptr<rdma::Call> call) { calls.push_back(std::move(call)); });
    ASSERT_TRUE(made) << made.error().message;
    listener = std::move(*made);
  }
  void call(std::string_view to = "10.0.0.1:3260", std::string_view data = "ask") {
    caller.pair = initiator->connect(*initiator_completions, domain, "10.0.0.2:0", to, wanted, bytes_of(data), caller);
  }
  void accept(std::string_view data = "answer") {
    ASSERT_EQ(calls.size(), 1u);
    answerer.pair = calls[0]->accept(*target_completions, domain, wanted, bytes_of(data), answerer);
    calls.clear();
  }
  void connect() {
    listen();
    call();
    run_until([this] { return !calls.empty(); });
    accept();
    run_until([this] { return caller.was_told("up") && answerer.was_told("up"); });
  }
  /// Nothing but what is waited for wakes the reactor.
  template <class Condition>
  void run_until(const Condition& condition) {
    Until<Condition> until(reactor, condition);
    reactor.add_poller(until);
    bool is_late = false;
    const auto patience = reactor.call_after(std::chrono::seconds(10), [&] {
      is_late = true;
      reactor.stop();
    });
    reactor.run();
    reactor.cancel(patience);
    reactor.remove_poller(until);
    ASSERT_TRUE(until.met && !is_late) << "it did not come about; the caller was told "
                                       << testing::PrintToString(caller.told) << ", the answerer "
                                       << testing::PrintToString(answerer.told);
  }
  void run_for(engine::Duration time) {
    reactor.call_after(time, [this] { reactor.stop(); });
    reactor.run();
  }
  /// Until whatever is under way has come, which takes a few turns.
  void run() { run_for(std::chrono::milliseconds(20)); }

  [[nodiscard]] rdma::Fabric& called_fabric() { return *target; }

  rdma::Domain domain = rdma::Domain::link;
  rdma::Wanted wanted = World::kWanted;
  engine::Reactor reactor;
  std::unique_ptr<Provider> target, initiator;
  std::unique_ptr<rdma::Completions> target_completions, initiator_completions;
  std::unique_ptr<rdma::Listener> listener;
  std::vector<std::unique_ptr<rdma::Call>> calls;
};

/// With a connection that stands, and nothing done against the rules.
template <class Contract, class Body>
void for_each_connection(const Body& body) {
  Contract::each([&](Contract& world) {
    world.connect();
    if (!testing::Test::HasFailure()) body(world);
    EXPECT_EQ(world.faults(), std::vector<std::string>{});
  });
}

/// The caller exposes; by a message the answerer hears of it.
template <class Contract>
[[nodiscard]] rdma::Remote expose(Contract& world, std::size_t far, rdma::Access access) {
  const auto remote = world.caller.pair->expose(world.far_page(far), access);
  const auto heard = world.answerer.times("receive 90");
  world.answerer.pair->receive(world.page(19), {}, 90);
  world.send(world.caller, bytes_of("a key"), 90);
  world.run_until([&] { return world.answerer.times("receive 90") > heard; });
  return remote;
}

[[nodiscard]] inline std::optional<std::uint32_t> invalidated_by(const Side& side, std::uint64_t receive) {
  const auto is_it = [&](const auto& told) { return told.work == rdma::Work::receive && told.id == receive; };
  const auto found = std::ranges::find_if(side.completions, is_it);
  return found == side.completions.end() ? std::nullopt : found->invalidated;
}

}  // namespace lockstep::test
