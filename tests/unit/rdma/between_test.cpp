// What is the fabric between processes' own: the cable, addresses, and packets that no provider sends.
#include <fstream>

#include <gmock/gmock.h>

#include "tests/support/rdma_between/folder.hpp"
#include "tests/support/rdma_between/socket.hpp"
#include "tests/unit/rdma/contract_worlds.hpp"

namespace lockstep::test {
namespace {

using rdma::RdmaErrc;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

struct RdmaBetween : testing::Test {
  void touch(const std::string& name) { std::ofstream(world.folder.path() + "/" + name) << ""; }
  void remove(const std::string& name) { std::filesystem::remove(world.folder.path() + "/" + name); }
  /// The cable is looked at every few milliseconds.
  void let_it_be_seen() { world.run_for(std::chrono::milliseconds(50)); }

  BetweenContract world;
};

// --- The cable ------------------------------------------------------------------------------------------------------

TEST_F(RdmaBetween, SilenceHoldsWhatIsSentAndTellsNobody) {
  world.connect();
  world.answerer.pair->receive(world.page(0), {}, 1);
  touch("silent");
  let_it_be_seen();
  world.send(world.caller, world.far_page(0), 1);
  let_it_be_seen();
  EXPECT_THAT(world.answerer.told, ElementsAre("up"));
  EXPECT_THAT(world.caller.told, ElementsAre("up"));
  remove("silent");
  world.run_until([&] { return world.answerer.was_told("receive 1") && world.caller.was_told("send 1"); });
}

TEST_F(RdmaBetween, SilenceNeedsNoPeerForAWindowOrTheEnd) {
  world.connect();
  touch("silent");
  let_it_be_seen();
  const auto remote = world.caller.pair->expose(world.far_page(5), rdma::Access::read);
  world.caller.pair->hide(remote.key, 1);
  world.run_until([&] { return world.caller.was_told("hide 1"); });
  world.close(world.caller);
  world.run_until([&] { return world.caller.closed; });
  EXPECT_THAT(world.answerer.told, ElementsAre("up"));
  remove("silent");
  world.run_until([&] { return world.answerer.was_told("lost"); });
}

TEST_F(RdmaBetween, ACallIntoSilenceIsOverAfterAWhile) {
  world.listen();
  touch("silent");
  let_it_be_seen();
  world.call();
  world.run_until([&] { return world.caller.was_told("lost"); });
  EXPECT_EQ(world.caller.lost, std::errc::timed_out);
}

TEST_F(RdmaBetween, ACallThatSilenceHeldIsHeardWhenItEndsSoonEnough) {
  world.listen();
  touch("silent");
  let_it_be_seen();
  world.call();
  let_it_be_seen();
  EXPECT_THAT(world.calls, IsEmpty());
  remove("silent");
  world.run_until([&] { return !world.calls.empty(); });
}

TEST_F(RdmaBetween, ACutLosesAllConnectionsAndTakesNoCallsUntilItIsMended) {
  world.connect();
  world.answerer.pair->receive(world.page(0), {}, 1);
  touch("cut");
  world.run_until([&] { return world.caller.was_told("lost") && world.answerer.was_told("receive 1 failed"); });
  // One side sees it first, and the other that side's end, perhaps.
  EXPECT_TRUE(world.caller.lost == RdmaErrc::port_down || world.answerer.lost == RdmaErrc::port_down);
  EXPECT_THAT(world.answerer.told, ElementsAre("up", "lost", "receive 1 failed"));
  Side again;
  const auto call = [&] {
    again.pair = world.initiator->connect(*world.initiator_completions, world.domain, "", BetweenContract::kHere,
                                          world.wanted, {}, again);
  };
  call();
  world.run_until([&] { return again.was_told("lost"); });
  const auto close = [&] {
    again.closed = false;
    again.close();
    world.run_until([&] { return again.closed; });
  };
  close();
  remove("cut");
  let_it_be_seen();
  call();
  world.run_until([&] { return world.calls.size() == 1; });
  close();
}

// --- Addresses ------------------------------------------------------------------------------------------------------

TEST_F(RdmaBetween, AddressesAreOfOneFolder) {
  const TestFolder other;
  const auto elsewhere = *BetweenFabric::open(other.path());
  world.listen();
  const auto same = elsewhere->listen(*world.target_completions, BetweenContract::kHere, [](auto) {});
  EXPECT_TRUE(same) << same.error().message;
}

TEST_F(RdmaBetween, WhatIsNoAddressIsRefused) {
  EXPECT_FALSE(world.target->listen(*world.target_completions, "nonsense", [](auto) {}));
  world.call("nonsense");
  world.run_until([&] { return world.caller.was_told("lost"); });
}

TEST(RdmaBetweenFolder, WithoutOneThereIsASentence) {
  const auto opened = BetweenFabric::open("/nowhere/at/all");
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().message, HasSubstr("/nowhere/at/all"));
  ::unsetenv(BetweenFabric::kFolderVariable);
  const auto unnamed = open_fabric_between_processes();
  ASSERT_FALSE(unnamed);
  EXPECT_THAT(unnamed.error().message, HasSubstr(BetweenFabric::kFolderVariable));
}

// --- Misuse ---------------------------------------------------------------------------------------------------------

TEST_F(RdmaBetween, WhatAUserMayNotDoIsKeptInTheFoldersFileAndLosesTheConnection) {
  const auto expect_fault = [](const std::string& part, const auto& misuse) {
    BetweenContract each;
    each.connect();
    misuse(each);
    each.run_until([&] { return each.caller.was_told("lost"); });
    ASSERT_THAT(each.faults(), ElementsAre(HasSubstr(part)));
    std::ifstream file(each.folder.path() + "/faults");
    const std::string kept(std::istreambuf_iterator<char>(file), {});
    EXPECT_THAT(kept, HasSubstr(part));
  };
  expect_fault("found no receive", [](auto& each) { each.send(each.caller, each.far_page(0), 1); });
  expect_fault("more receives", [](auto& each) {
    for (std::uint64_t id = 0; id < 17; ++id) each.caller.pair->receive(each.far_page(id), {}, id);
  });
  expect_fault("more was posted", [](auto& each) {
    for (std::uint64_t id = 0; id < 17; ++id) each.send(each.caller, bytes_of("inline"), 0);
  });
  expect_fault("more windows", [](auto& each) {
    for (std::size_t far = 0; far < 4; ++far) (void)each.caller.pair->expose(each.far_page(far), rdma::Access::read);
  });
  expect_fault("in no arena", [](auto& each) {
    std::vector<std::byte> elsewhere(10);
    (void)each.caller.pair->expose(elsewhere, rdma::Access::read);
  });
  expect_fault("nobody will be told", [](auto& each) { each.send(each.caller, each.far_page(0), 0); });
}

TEST_F(RdmaBetween, AKeyThatIsHiddenAndInvalidatedIsAFaultWhicheverComesFirst) {
  for (const bool is_hidden_first : {true, false}) {
    BetweenContract each;
    each.connect();
    const auto remote = expose(each, 5, rdma::Access::read);
    each.caller.pair->receive(each.far_page(0), {}, 7);
    if (is_hidden_first) {
      each.caller.pair->hide(remote.key, 8);
      each.run_until([&] { return each.caller.was_told("hide 8"); });
    }
    each.send(each.answerer, bytes_of("done"), 7, remote.key);
    if (!is_hidden_first) {
      each.run_until([&] { return each.caller.was_told("receive 7"); });
      each.caller.pair->hide(remote.key, 8);
    }
    each.run_until([&] { return each.caller.was_told("lost") && each.answerer.was_told("lost"); });
    EXPECT_THAT(each.faults(), ElementsAre(HasSubstr("hidden")));
  }
}

TEST_F(RdmaBetween, MemoryInNoArenaIsAnErrorAsOnADevice) {
  world.connect();
  std::vector<std::byte> elsewhere(4096);
  world.send(world.caller, elsewhere, 1);
  world.run_until([&] { return world.caller.was_told("lost"); });
  EXPECT_EQ(world.caller.lost, RdmaErrc::not_registered);
}

TEST_F(RdmaBetween, AnArenaThatWasRemovedIsNoneAnyMore) {
  world.connect();
  EXPECT_TRUE(world.caller.pair->is_registered(world.far_page(0)));
  world.initiator->remove_arena(world.initiator_memory);
  EXPECT_FALSE(world.caller.pair->is_registered(world.far_page(0)));
}

// --- Packets that no provider sends ---------------------------------------------------------------------------------

/// A peer whose packets the test makes.
struct Stranger {
  Stranger() {
    world.listen();
    const auto folder = between::Folder::open(world.folder.path());
    socket = *between::call_at(folder->name_of(BetweenContract::kHere));
  }
  void say(between::Header header, std::size_t bytes = 0) {
    const std::vector<std::byte> zeros(bytes);
    const std::array<std::span<const std::byte>, 1> pieces = {zeros};
    ASSERT_EQ(between::send_packet(socket.number(), header, pieces), between::Sent::whole);
  }
  void call() {
    std::vector<std::byte> names = bytes_of(std::string("10.0.0.2:1\0", 11) + std::string("10.0.0.1:3260\0", 14));
    names.resize(names.size() + between::kCallData);
    const std::array<std::span<const std::byte>, 1> pieces = {names};
    (void)between::send_packet(socket.number(), {.kind = between::Kind::call, .length = 16}, pieces);
    world.run_until([&] { return !world.calls.empty(); });
    world.accept();
    world.answerer.pair->receive(std::span(world.target_memory).first(12 * World::kPage), {}, 1);
  }
  void connect() {
    call();
    say({.kind = between::Kind::ready});
    world.run_until([&] { return world.answerer.was_told("up"); });
  }
  void expect_lost() {
    world.run_until([&] { return world.answerer.was_told("lost"); });
    EXPECT_EQ(world.answerer.lost, std::errc::protocol_error);
  }

  BetweenContract world;
  between::Descriptor socket;
};

struct RdmaBetweenStranger : Stranger, testing::Test {};

TEST_F(RdmaBetweenStranger, ACallThatMakesNoSenseIsNone) {
  say({.kind = between::Kind::call}, 10);
  world.run();
  EXPECT_THAT(world.calls, IsEmpty());
}

TEST_F(RdmaBetweenStranger, NothingComesBeforeItStands) {
  call();
  say({.kind = between::Kind::send, .sequence = 1, .length = 10}, 10);
  expect_lost();
}

TEST_F(RdmaBetweenStranger, EachOfThemEndsTheConnection) {
  using between::Kind;
  const std::vector<std::pair<between::Header, std::size_t>> wrong = {
      {{.magic = 7, .kind = Kind::send, .sequence = 1}, 0},
      {{.kind = Kind::call}, 0},
      {{.kind = static_cast<Kind>(99)}, 0},
      {{.kind = Kind::send, .sequence = 2}, 0},                               // not the next
      {{.kind = Kind::send, .sequence = 1, .length = 10}, 11},                // longer than it says
      {{.kind = Kind::send, .sequence = 1, .length = 10}, 9},                 // shorter
      {{.kind = Kind::send, .sequence = 1, .length = 20, .offset = 10}, 10},  // in the midst
      {{.kind = Kind::write, .sequence = 1, .length = 0xffff'ffff}, between::kPiece},
      {{.kind = Kind::read, .sequence = 2, .length = 10}, 0},
      {{.kind = Kind::read, .sequence = 1, .length = 0xffff'ffff}, 0},
      {{.kind = Kind::data, .sequence = 1, .length = 10}, 10},  // nobody asked for it
      {{.kind = Kind::done, .sequence = 1}, 0},                 // nothing was sent
      {{.kind = Kind::done, .sequence = 0}, 0},
      {{.kind = Kind::failed_send, .sequence = 1}, 0},
      {{.kind = Kind::failed_read, .sequence = 0}, 0},
  };
  for (std::size_t at = 0; at < wrong.size(); ++at) {
    const testing::ScopedTrace trace(__FILE__, __LINE__, "number " + std::to_string(at));
    Stranger each;
    each.connect();
    each.say(wrong[at].first, wrong[at].second);
    each.expect_lost();
  }
}

TEST_F(RdmaBetweenStranger, ReadsBeyondWhatIsServedEndTheConnection) {
  connect();
  const auto remote = world.answerer.pair->expose(world.page(3), rdma::Access::read);
  for (std::uint32_t asked = 1; asked <= between::kReadsServed + 1; ++asked) {
    say({.kind = between::Kind::read, .sequence = asked, .key = remote.key, .address = remote.address, .length = 4096});
  }
  expect_lost();
}

TEST_F(RdmaBetweenStranger, AMessageInPiecesIsNotMixedWithAnother) {
  connect();
  const auto remote = world.answerer.pair->expose(world.page(3), rdma::Access::write);
  say({.kind = between::Kind::send, .sequence = 1, .length = 4096 + between::kPiece}, between::kPiece);
  world.run();
  say({.kind = between::Kind::write, .sequence = 1, .key = remote.key, .address = remote.address, .length = 10}, 10);
  world.run_until([&] { return world.answerer.was_told("lost"); });
}

TEST_F(RdmaBetweenStranger, ItsPiecesAreTakenAsFarAsTheyCame) {
  connect();
  const auto remote = world.answerer.pair->expose(std::span(world.target_memory).first(18 * 4096), rdma::Access::write);
  say({.kind = between::Kind::write, .sequence = 1, .key = remote.key, .address = remote.address, .length = 18 * 4096},
      between::kPiece);
  world.run_until([&] { return world.target_memory[between::kPiece - 1] == std::byte{0}; });
  world.answerer.pair->hide(remote.key, 1);
  world.run_until([&] { return world.answerer.was_told("hide 1"); });
  const auto then = world.target_memory;
  say({.kind = between::Kind::write,
       .sequence = 1,
       .key = remote.key,
       .address = remote.address,
       .length = 18 * 4096,
       .offset = between::kPiece},
      between::kPiece);
  world.run_until([&] { return world.answerer.was_told("lost"); });
  EXPECT_EQ(world.target_memory, then) << "the window was shut in the midst of the write";
}

}  // namespace
}  // namespace lockstep::test
