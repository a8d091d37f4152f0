// A connection ends in each state that it can be in, with and without work that is posted, by either user, by the
// device, by its port, or by an event in place of the one that was waited for.
#include <gmock/gmock.h>

#include "tests/unit/rdma_real/script.hpp"

namespace lockstep::test {
namespace {

using testing::IsEmpty;

enum class State : std::uint8_t { resolving, finding_a_route, prepared, asking, answering, up, closing };
constexpr std::array kStates = {State::resolving, State::finding_a_route, State::prepared,
                                State::asking,    State::answering,       State::up,
                                State::closing};
enum class Cause : std::uint8_t {
  user,
  peer,
  device,
  silent_device,
  port,
  queue_pair,
  completion_queue,
  fatal,
  address
};
constexpr std::array kCauses = {Cause::user,   Cause::peer,       Cause::device,           Cause::silent_device,
                                Cause::port,   Cause::queue_pair, Cause::completion_queue, Cause::fatal,
                                Cause::address};

/// A connection whose caller stays in that state.
void bring_into(RealContract& world, State state, bool with_work) {
  // An event that nobody waits for, in place of the one that would lead on.
  const auto hold_back = [](rdma_cm_event_type event) {
    VerbsLibrary::replace_event(event, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
  };
  world.listen();
  if (state == State::resolving) hold_back(RDMA_CM_EVENT_ADDR_RESOLVED);
  if (state == State::finding_a_route) hold_back(RDMA_CM_EVENT_ROUTE_RESOLVED);
  if (state == State::answering) hold_back(RDMA_CM_EVENT_CONNECT_RESPONSE);
  if (state == State::asking) VerbsLibrary::lose_packets(true);
  world.call();
  if (with_work) {
    for (std::uint64_t id = 1; id <= 4; ++id) world.caller.pair->receive(world.far_page(id), {}, id);
  }
  switch (state) {
    case State::resolving:
      return wait_until([] { return VerbsLibrary::calls("rdma_resolve_addr") == 1; });
    case State::finding_a_route:
      return wait_until([] { return VerbsLibrary::calls("rdma_resolve_route") == 1; });
    case State::prepared:
      return wait_until([] { return VerbsLibrary::count("memory window") == kContractWindows; });
    case State::asking:
      world.run_for(std::chrono::milliseconds(2));  // the reactor posts the receives, then the fabric asks
      wait_until([&] {
        world.run_for(std::chrono::milliseconds(1));
        return VerbsLibrary::calls("rdma_connect") == 1;
      });
      return VerbsLibrary::lose_packets(false);
    default:
      world.run_until([&] { return !world.calls.empty(); });
      world.accept();
  }
  if (with_work) {
    for (std::uint64_t id = 1; id <= 4; ++id) world.answerer.pair->receive(world.page(id), {}, id);
  }
  if (state == State::answering) {
    world.run();
    return wait_until([] { return VerbsLibrary::calls("rdma_accept") == 1; });
  }
  world.run_until([&] { return world.caller.was_told("up") && world.answerer.was_told("up"); });
  if (with_work) {
    (void)world.caller.pair->expose(world.far_page(5), rdma::Access::write);
    VerbsLibrary::lose_packets(true);
    world.send(world.caller, world.far_page(6), 1);
    world.send(world.answerer, world.page(6), 1);
    world.run();
    VerbsLibrary::lose_packets(false);
  }
  if (state == State::closing) {
    VerbsLibrary::fail_call("rdma_disconnect", 1, EINVAL);  // then nothing that is posted comes back
    const auto disconnected = VerbsLibrary::calls("rdma_disconnect");
    world.close(world.caller);
    wait_until([&] { return VerbsLibrary::calls("rdma_disconnect") > disconnected; });
  }
}

void end(RealContract& world, Cause cause) {
  switch (cause) {
    case Cause::user:
      return;
    case Cause::peer:
      if (world.answerer.pair != nullptr) world.close(world.answerer);
      return;
    case Cause::device:
      return VerbsLibrary::remove_device(VerbsLibrary::kFar);
    case Cause::silent_device:
      return VerbsLibrary::remove_device(VerbsLibrary::kFar, VerbsLibrary::Removal::silent);
    case Cause::port:
      return VerbsLibrary::happen(VerbsLibrary::kFar, IBV_EVENT_PORT_ERR);
    case Cause::queue_pair:
      return VerbsLibrary::happen(VerbsLibrary::kFar, IBV_EVENT_QP_FATAL);
    case Cause::completion_queue:
      return VerbsLibrary::happen(VerbsLibrary::kFar, IBV_EVENT_CQ_ERR);
    case Cause::fatal:
      return VerbsLibrary::happen(VerbsLibrary::kFar, IBV_EVENT_DEVICE_FATAL);
    case Cause::address:
      return VerbsLibrary::tell(VerbsLibrary::Role::caller, RDMA_CM_EVENT_ADDR_CHANGE);
  }
}

/// Whether the caller hears of it, from its own side.
bool is_heard(State state, Cause cause) {
  if (state == State::closing || cause == Cause::user) return false;
  if (cause == Cause::address) return true;
  if (state == State::resolving) return false;  // it has no device yet
  if (cause == Cause::peer) return state >= State::answering;
  const bool has_pair = state >= State::prepared;
  return has_pair || (cause != Cause::queue_pair && cause != Cause::completion_queue);
}

class RealTeardown : public testing::TestWithParam<std::tuple<State, Cause, bool>> {};

TEST_P(RealTeardown, LeavesNothingAndTheNextConnectionStands) {
  const auto [state, cause, with_work] = GetParam();
  VerbsLibrary::reset();
  {
    RealContract world;
    bring_into(world, state, with_work);
    if (HasFailure()) return;
    end(world, cause);
    if (is_heard(state, cause)) {
      world.run_until([&] { return world.caller.was_told("lost"); });
      EXPECT_FALSE(world.caller.lost.message().empty());
    }
    for (Side* const side : {&world.caller, &world.answerer}) {
      if (side->pair == nullptr) continue;
      const bool is_first = side == &world.caller;
      if (!world.is_closing[is_first ? 0 : 1]) world.close(*side);
      const auto told = side->told;
      world.run_until([&] { return side->closed; });
      EXPECT_EQ(side->told, told) << "nothing is told of what is being closed";
      side->pair.reset();
    }
    world.calls.clear();
    world.listener.reset();
    VerbsLibrary::restore_device(VerbsLibrary::kFar);
    EXPECT_TRUE(Script(world).run()) << "the next connection";
  }
  expect_clean();
}

std::string name_of(const testing::TestParamInfo<RealTeardown::ParamType>& test) {
  constexpr std::array<const char*, 7> kStateNames = {"Resolving", "FindingARoute", "Prepared", "Asking", "Answering",
                                                      "Up",        "Closing"};
  constexpr std::array<const char*, 9> kCauseNames = {
      "User", "Peer", "Device", "SilentDevice", "Port", "QueuePair", "CompletionQueue", "Fatal", "Address"};
  const auto [state, cause, with_work] = test.param;
  return kStateNames[static_cast<std::size_t>(state)] + std::string("By") +
         kCauseNames[static_cast<std::size_t>(cause)] + (with_work ? "WithWork" : "");
}

std::vector<RealTeardown::ParamType> all_ends() {
  std::vector<RealTeardown::ParamType> all;
  for (const State state : kStates) {
    for (const Cause cause : kCauses) {
      // What is closing waits for a second, and hears of its device's removal and its queue pair's end alone.
      const bool is_heard_of = cause == Cause::device || cause == Cause::silent_device || cause == Cause::queue_pair;
      if (state == State::closing && cause != Cause::user && !is_heard_of) continue;
      for (const bool with_work : {false, true}) all.emplace_back(state, cause, with_work);
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(InEachState, RealTeardown, testing::ValuesIn(all_ends()), name_of);

TEST(RealTeardownAtOnce, WhatIsDestroyedBeforeTheReactorHearsThatItWasMadeIsNotRead) {
  RealContract::each([](RealContract& world) {
    bring_into(world, State::prepared, true);
    world.close(world.caller);
    wait_until([] { return VerbsLibrary::count("memory window") == 0; });
    world.run_until([&] { return world.caller.closed; });
    EXPECT_THAT(world.caller.told, IsEmpty());
  });
}

TEST(RealTeardownSlow, NobodyWaitsForASystemThatIsSlowToDestroy) {
  RealContract::each([](RealContract& world) {
    bring_into(world, State::up, true);
    VerbsLibrary::hold_destroying(true);
    world.close(world.caller);
    world.run_until([&] { return world.caller.closed; });
    world.close(world.answerer);
    world.run_until([&] { return world.answerer.closed; });
    EXPECT_EQ(VerbsLibrary::count("queue pair"), 2u);
    EXPECT_EQ(VerbsLibrary::count("memory window"), 0u) << "no peer reads or writes any memory";
    for (Side* const side : {&world.caller, &world.answerer}) side->pair.reset();
    world.listener.reset();
    EXPECT_TRUE(Script(world).run()) << "the next connection";
    VerbsLibrary::hold_destroying(false);
  });
}

TEST(RealTeardownSlow, ADeviceThatGoesMeanwhileOutlivesItsQueues) {
  RealContract::each([](RealContract& world) {
    bring_into(world, State::up, false);
    VerbsLibrary::hold_destroying(true);
    for (Side* const side : {&world.caller, &world.answerer}) {
      world.close(*side);
      world.run_until([&] { return side->closed; });
      side->pair.reset();
    }
    VerbsLibrary::remove_device(VerbsLibrary::kFar);
    world.run();
    const std::jthread lets_go([] {
      // Nobody sees that the other thread waits: it does so long before this is over.
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      VerbsLibrary::hold_destroying(false);
    });
    world.initiator_completions.reset();  // waits for that
  });
}

TEST(RealTeardownSlow, MemoryThatMayStillBeReadIsGivenBackWhenAllIsDestroyed) {
  for_each_connection<RealContract>([](RealContract& world) {
    const auto remote = expose(world, 5, rdma::Access::write);
    world.answerer.pair->write(world.page(7), remote, 0);
    world.run();
    VerbsLibrary::hold_destroying(true);
    world.close(world.answerer);
    world.run_for(std::chrono::milliseconds(20));
    EXPECT_FALSE(world.answerer.closed);
    VerbsLibrary::hold_destroying(false);
    world.run_until([&] { return world.answerer.closed; });
  });
}

/// What comes in place of the event that leads on.
TEST(RealEvents, InPlaceOfTheOnesThatLeadOnEndACall) {
  for (const auto usual : {RDMA_CM_EVENT_ADDR_RESOLVED, RDMA_CM_EVENT_ROUTE_RESOLVED, RDMA_CM_EVENT_CONNECT_RESPONSE}) {
    for (const auto other : {RDMA_CM_EVENT_ADDR_ERROR, RDMA_CM_EVENT_ROUTE_ERROR, RDMA_CM_EVENT_UNREACHABLE,
                             RDMA_CM_EVENT_REJECTED, RDMA_CM_EVENT_CONNECT_ERROR, RDMA_CM_EVENT_DISCONNECTED,
                             RDMA_CM_EVENT_ADDR_CHANGE, RDMA_CM_EVENT_DEVICE_REMOVAL}) {
      for (const int status : {0, -1, -ETIMEDOUT, 28}) {
        SCOPED_TRACE(rdma_event_str(usual) + std::string(" ") + rdma_event_str(other));
        VerbsLibrary::reset();
        {
          RealContract world;
          VerbsLibrary::replace_event(usual, other, status);
          EXPECT_FALSE(Script(world).run());
          EXPECT_TRUE(world.caller.lost);
          EXPECT_NE(world.caller.lost.message(), "Success");
        }
        expect_clean();
        if (HasFailure()) return;
      }
    }
  }
}

TEST(RealEvents, ThatNobodyWaitsForChangeNothing) {
  for_each_connection<RealContract>([](RealContract& world) {
    for (const auto role : {VerbsLibrary::Role::caller, VerbsLibrary::Role::answerer, VerbsLibrary::Role::listener}) {
      for (const auto event : {RDMA_CM_EVENT_ADDR_RESOLVED, RDMA_CM_EVENT_ROUTE_RESOLVED, RDMA_CM_EVENT_ESTABLISHED,
                               RDMA_CM_EVENT_TIMEWAIT_EXIT, RDMA_CM_EVENT_MULTICAST_ERROR}) {
        VerbsLibrary::tell(role, event);
      }
    }
    world.answerer.pair->receive(world.page(1), {}, 1);
    world.send(world.caller, bytes_of("goes on"), 1);
    world.run_until([&] { return world.answerer.was_told("receive 1") && world.caller.was_told("send 1"); });
    world.run();
    EXPECT_THAT(world.caller.told, testing::ElementsAre("up", "send 1"));
  });
}

TEST(RealTeardownOfFabrics, RefusesCallsThatNobodyHasTakenAndShutsListeners) {
  VerbsLibrary::reset();
  auto other = *rdma::open_fabric();
  engine::Reactor reactor;
  std::vector<std::byte> memory(1 << 16);
  Side caller;
  auto completions = other->attach(reactor);
  {
    RealContract world;
    world.listen();
    caller.pair = other->connect(*completions, rdma::Domain::initiators, "10.0.0.2:0", RealContract::kHere,
                                 World::kWanted, bytes_of("ask"), caller);
    const auto run = [&](engine::Reactor& each) {
      each.call_after(std::chrono::milliseconds(1), [&] { each.stop(); });
      each.run();
    };
    wait_until([&] { return run(reactor), run(world.reactor), !world.calls.empty(); });
    auto late = std::move(world.calls.front());
    world.calls.clear();
    world.listener.reset();
    world.target_completions.reset();
    world.target.reset();  // it has not been taken, and its fabric is gone
    late.reset();
    wait_until([&] { return run(reactor), caller.was_told("lost"); });
    EXPECT_EQ(caller.lost, std::errc::connection_refused);
    caller.close();
    wait_until([&] { return run(reactor), caller.closed; });
    caller.pair.reset();
  }
  completions.reset();
  other.reset();
  expect_clean();
}

}  // namespace
}  // namespace lockstep::test
