// Who may have how much of the data buffers next.
#include "iscsi_target/session/fair_share.hpp"

#include <deque>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace lockstep::test {
namespace {

using iscsi_target::FairShare;
using Claim = FairShare::Claim;
using State = Claim::State;

constexpr std::size_t kBudget = 120;

struct FairShareTest : testing::Test {
  FairShare share{{kBudget, kBudget, 0, 0}};
  std::deque<FairShare::Host> hosts;
  std::deque<FairShare::Member> members;
  std::deque<Claim> claims;

  FairShare::Host& host() { return hosts.emplace_back(); }
  FairShare::Member& session(FairShare::Host& name, FairShare::Host& address) {
    FairShare::Member& member = members.emplace_back();
    FairShare::join(member, name, address);
    return member;
  }
  /// Of a host of its own.
  FairShare::Member& session() { return session(host(), host()); }

  Claim& ask(FairShare::Member& member, std::size_t bytes = 1, std::uint8_t zone = 0) {
    Claim& claim = claims.emplace_back();
    claim.member = &member;
    claim.bytes = bytes;
    claim.zone = zone;
    share.may_have(claim) ? share.grant(claim) : share.wait(claim);
    return claim;
  }
  bool gets(FairShare::Member& member, std::size_t bytes = 1) { return ask(member, bytes).state == State::granted; }
  /// Asks until it has to wait.
  void flood(FairShare::Member& member, std::size_t bytes = 1) {
    while (gets(member, bytes)) continue;
  }
  void give_back(Claim& claim) {
    share.give_back(claim);
    while (Claim* const next = share.next(claim.zone)) share.grant(*next);
  }
};

TEST_F(FairShareTest, AGreedySessionHasHalfAndItsHostLittleMore) {
  FairShare::Host &name = host(), &address = host();
  FairShare::Member& first = session(name, address);
  flood(first);
  EXPECT_EQ(first.held[0], kBudget / 2);
  for (int more = 0; more < 9; ++more) flood(session(name, address), 5);
  EXPECT_LE(name.held[0], kBudget * 4 / 5);
  EXPECT_TRUE(gets(session(), 20)) << "another host's";
}

TEST_F(FairShareTest, ASessionThatHoldsNothingGetsInBesideItsOwnHostsGreedyOnes) {
  FairShare::Host &name = host(), &address = host();
  flood(session(name, address));
  flood(session(name, address));
  EXPECT_TRUE(gets(session(name, address), 10));
}

TEST_F(FairShareTest, AHostIsBoundedByItsAddressWhateverItsNames) {
  FairShare::Host& address = host();
  for (int names = 0; names < 50; ++names) flood(session(host(), address));
  EXPECT_LE(address.held[0], kBudget * 4 / 5);
  EXPECT_TRUE(gets(session(), 20));
}

TEST_F(FairShareTest, AHostIsBoundedByItsNameWhateverItsAddresses) {
  FairShare::Host& name = host();
  for (int addresses = 0; addresses < 50; ++addresses) flood(session(name, host()));
  EXPECT_LE(name.held[0], kBudget * 4 / 5);
  EXPECT_TRUE(gets(session(), 20));
}

TEST_F(FairShareTest, WhereAllAreGreedyAllHaveAlikeOnceWhatTheyHadComesBack) {
  std::vector<FairShare::Member*> all;
  for (int i = 0; i < 11; ++i) all.push_back(&session());
  for (int claim = 0; claim < 200; ++claim) {
    for (FairShare::Member* member : all) (void)ask(*member);
  }
  for (std::size_t i = 0; i < 1500; ++i) {
    if (claims[i].state == State::granted) give_back(claims[i]);
  }
  for (const FairShare::Member* member : all) EXPECT_NEAR(static_cast<double>(member->held[0]), 10, 5);
}

TEST_F(FairShareTest, AFullZoneDoesNotDisturbAnother) {
  flood(session());
  EXPECT_EQ(ask(session(), kBudget, 1).state, State::granted);
}

TEST_F(FairShareTest, ASessionsClaimsAreGrantedInTheirOrder) {
  FairShare::Member& greedy = session();
  Claim& first = ask(greedy, 40);
  Claim& large = ask(greedy, 40);
  Claim& small = ask(greedy, 1);
  EXPECT_EQ(large.state, State::waiting);
  EXPECT_EQ(small.state, State::waiting) << "behind the large one";
  give_back(first);
  EXPECT_EQ(large.state, State::granted);
  EXPECT_EQ(small.state, State::granted);
}

TEST_F(FairShareTest, WhoeverWaitsWithNothingIsNotPassedByHoweverMuchItAsksFor) {
  FairShare::Member& others = session();
  Claim& held = ask(others, 10);
  Claim& whole = ask(session(), kBudget);
  EXPECT_EQ(whole.state, State::waiting);
  EXPECT_EQ(share.next(0), nullptr);
  EXPECT_FALSE(gets(session())) << "passes it by";
  give_back(held);
  EXPECT_EQ(whole.state, State::granted);
}

TEST_F(FairShareTest, WhoeverIsAtItsBoundIsPassedBy) {
  flood(session());
  EXPECT_EQ(share.next(0), nullptr);
  EXPECT_TRUE(gets(session()));
}

TEST_F(FairShareTest, SessionsTakeTurns) {
  FairShare::Member &a = session(), &b = session();
  Claim& all = ask(session(), kBudget);
  Claim &a1 = ask(a), &a2 = ask(a), &b1 = ask(b);
  share.give_back(all);
  std::vector<Claim*> order;
  while (Claim* const next = share.next(0)) {
    order.push_back(next);
    share.grant(*next);
  }
  EXPECT_EQ(order, (std::vector<Claim*>{&a1, &b1, &a2}));
}

TEST_F(FairShareTest, WhatIsGivenUpWhileItWaitsIsNotGranted) {
  FairShare::Member& member = session();
  Claim& all = ask(session(), kBudget);
  Claim &first = ask(member), &second = ask(member), &third = ask(member);
  share.give_back(second);
  give_back(all);
  EXPECT_EQ(first.state, State::granted);
  EXPECT_EQ(second.state, State::idle);
  EXPECT_EQ(third.state, State::granted);
  EXPECT_FALSE(share.anybody_waits());
}

TEST_F(FairShareTest, NobodyIsPassedByBetweenMemoryComingBackAndItsTurn) {
  Claim& all = ask(session(), kBudget);
  (void)ask(session(), 100);
  share.give_back(all);
  EXPECT_FALSE(gets(session(), 100));
}

TEST_F(FairShareTest, WhoHoldsMoreThanOneThatWaitsIsInItsWay) {
  FairShare::Member& greedy = session();
  flood(greedy, 10);
  EXPECT_EQ(share.least_held_by_waiting()[0], greedy.held[0]) << "only itself waits";
  EXPECT_EQ(share.least_held_by_waiting()[1], SIZE_MAX) << "nobody waits";
  (void)ask(session(), kBudget);
  EXPECT_EQ(share.least_held_by_waiting()[0], 0u);
}

}  // namespace
}  // namespace lockstep::test
