// What a reactor that sleeps is woken by, when the calls fail that arm the bell, hear it and look what there is.
#include <thread>

#include <gmock/gmock.h>

#include "tests/unit/rdma_real/script.hpp"

namespace lockstep::test {
namespace {

using testing::IsEmpty;

/// A message is on its way while its receiver's reactor goes to sleep, and arrives when it is so.
template <class Condition>
void expect_message(RealContract& world, const Condition& arrives) {
  world.answerer.pair->receive(world.page(1), {}, 1);
  VerbsLibrary::lose_packets(true);
  world.send(world.caller, bytes_of("late"), 1);
  const std::jthread network([&](const std::stop_token& given_up) {
    while (!arrives() && !given_up.stop_requested()) std::this_thread::yield();
    VerbsLibrary::lose_packets(false);
  });
  world.run_until([&] { return world.answerer.was_told("receive 1") && world.caller.was_told("send 1"); });
}

/// Packets are held up until a bell more was armed than before.
template <class Condition>
void expect_bell(RealContract& world, const Condition& told) {
  const auto armed = VerbsLibrary::calls("ibv_req_notify_cq"), rung = VerbsLibrary::calls("ibv_get_cq_event");
  const std::jthread network([&](const std::stop_token& given_up) {
    while (VerbsLibrary::calls("ibv_req_notify_cq") == armed && !given_up.stop_requested()) std::this_thread::yield();
    VerbsLibrary::lose_packets(false);
  });
  world.run_until(told);
  EXPECT_GT(VerbsLibrary::calls("ibv_get_cq_event"), rung);
}

TEST(RealWakes, WhatWasSentRingsNoBell) {
  for_each_connection<RealContract>([](RealContract& world) {
    world.run();
    world.answerer.pair->receive(world.page(1), {}, 1);
    const auto rung = VerbsLibrary::calls("ibv_get_cq_event");
    world.send(world.caller, bytes_of("message"), 1);
    world.run_until([&] { return world.answerer.was_told("receive 1") && world.caller.was_told("send 1"); });
    EXPECT_LE(VerbsLibrary::calls("ibv_get_cq_event"), rung + 1);
  });
}

TEST(RealWakes, WhatWasWrittenIsToldInAWhileWhenNothingElseHappens) {
  for_each_connection<RealContract>([](RealContract& world) {
    const auto remote = expose(world, 1, rdma::Access::write);
    world.run();
    world.answerer.pair->write(world.page(1), remote, 5);
    world.run_until([&] { return world.answerer.was_told("write 5"); });
  });
}

/// What the answerer posts to memory of the caller's is under way when its reactor goes to sleep.
template <class Post>
void expect_woken(rdma::Access access, const std::string& by, const Post& post) {
  for_each_connection<RealContract>([&](RealContract& world) {
    const auto remote = expose(world, 1, access);
    world.run();
    VerbsLibrary::lose_packets(true);
    post(world, remote);
    expect_bell(world, [&] { return world.answerer.was_told(by); });
  });
}

TEST(RealWakes, WhoAwaitsWhatWasWrittenIsWoken) {
  expect_woken(rdma::Access::write, "write 5", [](RealContract& world, const rdma::Remote& remote) {
    world.answerer.pair->write(world.page(1), remote, 5);
    world.answerer.pair->await_sends();
  });
}

TEST(RealWakes, WhoReadsIsWoken) {
  expect_woken(rdma::Access::read, "read 6", [](RealContract& world, const rdma::Remote& remote) {
    world.answerer.pair->read(world.page(1), remote, 6);
  });
}

TEST(RealWakes, WhoClosesIsWokenByWhatWasSent) {
  for_each_connection<RealContract>([](RealContract& world) {
    const auto remote = expose(world, 1, rdma::Access::write);
    world.run();
    world.answerer.pair->write(world.page(1), remote, 5);
    world.close(world.answerer);
    world.run_until([&] { return world.answerer.closed; });
  });
}

/// A connection of the answerer's that has many receives.
template <class Body>
void for_busy_receiver(const Body& body) {
  RealContract::each([&](RealContract& world) {
    world.wanted.receives = world.wanted.sends = 900;
    world.connect();
    const auto remote = expose(world, 1, rdma::Access::read);
    world.run();
    body(world, remote);
  });
}

TEST(RealWakes, WhatWasReadIsToldWhileManyMessagesWait) {
  for_busy_receiver([](RealContract& world, const rdma::Remote& remote) {
    VerbsLibrary::lose_packets(true);
    for (std::size_t i = 0; i < 800; ++i) {
      world.answerer.pair->receive(world.page(2), {}, 7);
      world.send(world.caller, bytes_of("one of many"), 7);
    }
    world.answerer.pair->read(world.page(1), remote, 6);
    world.run();
    VerbsLibrary::lose_packets(false);
    world.run_until([&] { return world.answerer.times("receive 7") == 800 && world.answerer.was_told("read 6"); });
    const auto before = std::span(world.answerer.told).first(world.answerer.place("read 6"));
    EXPECT_LE(std::ranges::count(before, "receive 7"), 256) << "as many as one turn takes";
  });
}

TEST(RealWakes, WhatWasReadIsToldWhileMessagesNeverEnd) {
  for_busy_receiver([](RealContract& world, const rdma::Remote& remote) {
    const auto post = [&world] {
      world.answerer.pair->receive(world.page(2), {}, 7);
      world.send(world.caller, bytes_of("one of a flood"), 7);
    };
    VerbsLibrary::lose_packets(true);
    for (std::size_t i = 0; i < 400; ++i) post();
    world.answerer.pair->read(world.page(1), remote, 6);
    world.run();
    world.answerer.when_completed = [&](const rdma::Completion& completion) {
      if (completion.work == rdma::Work::receive && world.answerer.told.size() < 20'000) post();
    };
    VerbsLibrary::lose_packets(false);
    world.run_until([&] { return world.answerer.was_told("read 6"); });
    world.answerer.when_completed = {};
    EXPECT_LE(world.answerer.place("read 6"), 1000u);
  });
}

TEST(RealWakes, ABellThatCantBeArmedIsNotWaitedFor) {
  for_each_connection<RealContract>([](RealContract& world) {
    world.run();
    // All bells are armed; a message makes them be armed again: one on each device.
    VerbsLibrary::fail_always("ibv_req_notify_cq", ENOMEM);
    world.answerer.pair->receive(world.page(2), {}, 2);
    world.send(world.caller, bytes_of("first"), 2);
    world.run_until([&] { return world.answerer.was_told("receive 2") && world.caller.was_told("send 2"); });
    const auto tried = VerbsLibrary::calls("ibv_req_notify_cq");
    expect_message(world, [&] { return VerbsLibrary::calls("ibv_req_notify_cq") >= tried + 2; });
  });
}

TEST(RealWakes, ABellThatRingsIsHeardWhenTheFirstLookIsInterrupted) {
  for_each_connection<RealContract>([](RealContract& world) {
    world.run();
    VerbsLibrary::fail_call("ibv_get_cq_event", 1, EINTR);
    expect_message(world, [] { return true; });
  });
}

TEST(RealWakes, AQueueThatCantBePolledLosesItsConnections) {
  for_each_connection<RealContract>([](RealContract& world) {
    world.answerer.pair->receive(world.page(1), {}, 1);
    VerbsLibrary::fail_always("ibv_poll_cq", EIO);
    world.send(world.caller, bytes_of("never told of"), 1);
    world.run_until([&] { return world.answerer.was_told("lost") && world.caller.was_told("lost"); });
    EXPECT_EQ(world.answerer.lost, rdma::RdmaErrc::local_operation);
    EXPECT_EQ(world.caller.lost, rdma::RdmaErrc::local_operation);
  });
}

TEST(RealWakes, ConnectionsAfterAQueueThatFailedGetAnother) {
  VerbsLibrary::reset();
  {
    RealContract world;
    EXPECT_TRUE(Script(world).run());
    const auto queues = VerbsLibrary::calls("ibv_create_cq");
    VerbsLibrary::happen(VerbsLibrary::kNear, IBV_EVENT_CQ_ERR);
    EXPECT_TRUE(Script(world).run());
    EXPECT_EQ(VerbsLibrary::calls("ibv_create_cq"), queues + 2);
  }
  expect_clean();
}

TEST(RealWakes, WhatADeviceTellsIsHeardWhenTheFirstLookIsInterrupted) {
  for_each_connection<RealContract>([](RealContract& world) {
    VerbsLibrary::fail_call("ibv_get_async_event", 1, EINTR);
    VerbsLibrary::happen(VerbsLibrary::kNear, IBV_EVENT_PORT_ERR);
    world.run_until([&] { return world.answerer.was_told("lost"); });
    EXPECT_EQ(world.answerer.lost, rdma::RdmaErrc::port_down);
  });
}

}  // namespace
}  // namespace lockstep::test
