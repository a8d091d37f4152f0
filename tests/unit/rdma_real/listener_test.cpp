// Who listens, while calls fail, calls come and are hung up, and devices come and go.
#include <gmock/gmock.h>

#include "tests/unit/rdma_real/script.hpp"

namespace lockstep::test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

template <class Body>
void with_world(const Body& body) {
  RealContract::each(body);
}

TEST(RealListener, SaysWhatToDoWhereItCantListen) {
  with_world([](RealContract& world) {
    for (const int error : {EADDRINUSE, EADDRNOTAVAIL, ENODEV}) {
      for (const char* const function : {"rdma_bind_addr", "rdma_listen"}) {
        VerbsLibrary::fail_call(function, 1, error);
        const auto made = world.target->listen(*world.target_completions, RealContract::kHere, [](auto) {});
        ASSERT_FALSE(made);
        EXPECT_THAT(made.error().message, testing::AllOf(HasSubstr(RealContract::kHere), HasSubstr("rdma link")));
      }
    }
    EXPECT_TRUE(Script(world).run());
  });
}

TEST(RealListener, TakesNoDeviceThatWouldOpenItsMemoryToThePeersReads) {
  with_world([](RealContract& world) {
    VerbsLibrary::set_transport(IBV_TRANSPORT_IWARP);
    const auto made = world.target->listen(*world.target_completions, RealContract::kHere, [](auto) {});
    ASSERT_FALSE(made);
    EXPECT_THAT(made.error().message, HasSubstr("iWARP"));
    world.listen("0.0.0.0:3260");
    world.call();
    world.run_until([&] { return world.caller.was_told("lost"); });
    EXPECT_EQ(world.caller.lost, rdma::RdmaErrc::iwarp_reads);
  });
}

TEST(RealListener, OnAllAddressesRefusesCallsOfADeviceThatItCantUse) {
  with_world([](RealContract& world) {
    world.listen("0.0.0.0:3260");
    VerbsLibrary::fail_call("ibv_query_device", 2, EIO);  // the caller's own is the first
    world.call();
    world.run_until([&] { return world.caller.was_told("lost"); });
    EXPECT_EQ(world.caller.lost, std::errc::connection_refused);
    EXPECT_THAT(world.calls, IsEmpty());
  });
}

TEST(RealListener, KeepsNoMoreCallsThanAFewHundredThatNobodyTakes) {
  with_world([](RealContract& world) {
    world.listen();
    std::vector<std::unique_ptr<Side>> callers(258);
    for (auto& side : callers) {
      side = std::make_unique<Side>();
      side->pair = world.initiator->connect(*world.initiator_completions, rdma::Domain::initiators, "10.0.0.2:0",
                                            RealContract::kHere, World::kWanted, {}, *side);
    }
    const auto lost = [&] { return std::ranges::count_if(callers, [](auto& side) { return side->was_told("lost"); }); };
    world.run_until([&] { return lost() == 2 && world.calls.size() == 256; });
    for (const auto& side : callers) side->close();
    world.run_until([&] { return std::ranges::all_of(callers, &Side::closed); });
  });
}

TEST(RealListener, ACallThatHangsUpBeforeItIsTakenIsLostWhenItIsTaken) {
  with_world([](RealContract& world) {
    world.listen();
    world.call();
    world.run_until([&] { return !world.calls.empty(); });
    world.close(world.caller);
    world.run_until([&] { return world.caller.closed; });
    wait_until([] { return VerbsLibrary::count("id") == 3; });  // two guards, the listener
    world.accept();
    world.run_until([&] { return world.answerer.was_told("lost"); });
    EXPECT_EQ(world.answerer.lost, std::errc::connection_reset);
  });
}

TEST(RealListener, ACallThatHangsUpWhileItIsAnsweredIsLost) {
  with_world([](RealContract& world) {
    world.listen();
    world.call();
    world.run_until([&] { return !world.calls.empty(); });
    world.accept();
    world.close(world.caller);
    world.run_until([&] { return world.answerer.was_told("lost") && world.caller.closed; });
  });
}

TEST(RealListener, CallsOfADeviceThatIsRemovedAreLostWhenTheyAreTaken) {
  with_world([](RealContract& world) {
    world.listen();
    world.call();
    world.run_until([&] { return !world.calls.empty(); });
    VerbsLibrary::remove_device(VerbsLibrary::kNear);
    world.run_until([&] { return world.caller.was_told("lost"); });
    world.accept();
    world.run_until([&] { return world.answerer.was_told("lost"); });
  });
}

TEST(RealListener, WhatComesBeforeTheCallersWordStandsForIt) {
  for (const bool fails : {false, true}) {
    with_world([&](RealContract& world) {
      VerbsLibrary::replace_event(RDMA_CM_EVENT_ESTABLISHED, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);  // it gets lost
      if (fails) VerbsLibrary::fail_call("rdma_notify", 1, EINVAL);
      world.listen();
      world.call();
      world.run_until([&] { return !world.calls.empty(); });
      world.accept();
      world.answerer.pair->receive(world.page(1), {}, 1);
      world.run_until([&] { return world.caller.was_told("up"); });
      EXPECT_THAT(world.answerer.told, IsEmpty());
      world.send(world.caller, bytes_of("here I am"), 1);
      world.run_until([&] { return world.answerer.was_told("receive 1"); });
      EXPECT_THAT(world.answerer.told, testing::ElementsAre("up", "receive 1"));
      world.caller.pair->receive(world.far_page(1), {}, 2);
      world.send(world.answerer, bytes_of("so are you"), 2);
      world.run_until([&] { return world.caller.was_told("receive 2"); });
      wait_until([] { return VerbsLibrary::calls("rdma_notify") == 1; });
    });
  }
}

/// Until the fabric has let go of the device, and the library of its context where it sees that it is missing.
void expect_back(RealContract& world, const std::vector<int>& devices, VerbsLibrary::Removal removal) {
  for (const int device : devices) VerbsLibrary::remove_device(device, removal);
  const auto bound = VerbsLibrary::calls("rdma_bind_addr");
  for (Side* const side : {&world.answerer, &world.caller}) {
    world.run_until([&] { return side->was_told("lost"); });
    world.close(*side);
    world.run_until([&] { return side->closed; });
    side->pair.reset();
    side->told.clear();
    side->closed = false;
  }
  world.is_closing = {};
  wait_until([&] {  // it looks for its device once a second
    world.run();
    return VerbsLibrary::calls("rdma_bind_addr") > bound;
  });
  EXPECT_EQ(VerbsLibrary::count("protection domain"), 4 - 2 * devices.size());
  EXPECT_EQ(VerbsLibrary::count("completion queue"), 2 * (2 - devices.size()));
  for (const int device : devices) VerbsLibrary::restore_device(device);
  const auto listening = VerbsLibrary::calls("rdma_listen");
  wait_until([&] { return VerbsLibrary::calls("rdma_listen") > listening; });
  world.call();
  world.run_until([&] { return !world.calls.empty(); });
}

TEST(RealListener, ComesBackWithItsDevice) {
  for_each_connection<RealContract>([](RealContract& world) {
    expect_back(world, {VerbsLibrary::kNear}, VerbsLibrary::Removal::told);
    EXPECT_EQ(VerbsLibrary::count("context"), 2u) << "the one that is gone is closed";
  });
}

TEST(RealListener, ComesBackWithTheOnlyDevicesThereAre) {
  for_each_connection<RealContract>([](RealContract& world) {
    expect_back(world, {VerbsLibrary::kNear, VerbsLibrary::kFar}, VerbsLibrary::Removal::silent);
  });
}

}  // namespace
}  // namespace lockstep::test
