#include "engine/locks/range_lock.hpp"

#include <deque>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace lockstep::engine {
namespace {

constexpr auto kShared = LockMode::shared;
constexpr auto kExclusive = LockMode::exclusive;
constexpr std::uint64_t kMiB = 1 << 20;

/// A lock that writes its name down when it is granted.
struct Op {
  explicit Op(std::string op_name = "") : name(std::move(op_name)) {
    node.owner = this;
    node.granted = [](RangeLock::Node& n) {
      Op& op = *static_cast<Op*>(n.owner);
      if (op.log != nullptr) op.log->push_back(op.name);
      if (op.then) op.then();
    };
  }
  RangeLock::Node node;
  std::string name;
  std::vector<std::string>* log = nullptr;
  std::function<void()> then;
};

struct RangeLockTest : testing::Test {
  RangeLock lock;
  std::vector<std::string> log;
  Op a{"a"}, b{"b"}, c{"c"}, d{"d"};
  RangeLockTest() {
    for (Op* op : {&a, &b, &c, &d}) op->log = &log;
  }
  bool take(Op& op, Extent extent, LockMode mode) { return lock.acquire(op.node, extent, mode); }
  void TearDown() override {
    for (Op* op : {&a, &b, &c, &d}) lock.cancel(op->node);
  }
};
using Names = std::vector<std::string>;

TEST_F(RangeLockTest, SharedLocksOverlapFreely) {
  EXPECT_TRUE(take(a, {0, 4096}, kShared));
  EXPECT_TRUE(take(b, {0, 8192}, kShared));
  EXPECT_EQ(lock.held_count(), 2u);
}

TEST_F(RangeLockTest, NeighboursDoNotConflict) {
  EXPECT_TRUE(take(a, {0, 4096}, kExclusive));
  EXPECT_TRUE(take(b, {4096, 4096}, kExclusive));
}

TEST_F(RangeLockTest, AnExclusiveLockWaitsForEverySharedOne) {
  ASSERT_TRUE(take(a, {0, 4096}, kShared));
  ASSERT_TRUE(take(b, {4096, 4096}, kShared));
  EXPECT_FALSE(take(c, {0, 8192}, kExclusive));
  lock.release(a.node);
  EXPECT_TRUE(c.node.waiting());
  lock.release(b.node);
  EXPECT_TRUE(c.node.held());
  EXPECT_EQ(log, Names{"c"});
}

TEST_F(RangeLockTest, AQueuedExclusiveLockHoldsBackLaterSharedOnesSoThatItDoesNotStarve) {
  ASSERT_TRUE(take(a, {0, 4096}, kShared));
  ASSERT_FALSE(take(b, {0, 4096}, kExclusive));
  EXPECT_FALSE(take(c, {0, 4096}, kShared));
  lock.release(a.node);
  EXPECT_EQ(log, Names{"b"});
  EXPECT_TRUE(c.node.waiting());
  lock.release(b.node);
  EXPECT_EQ(log, (Names{"b", "c"}));
}

TEST_F(RangeLockTest, WhatDoesNotOverlapTheQueueIsNotHeldBack) {
  ASSERT_TRUE(take(a, {0, 4096}, kExclusive));
  ASSERT_FALSE(take(b, {0, 8192}, kExclusive));
  EXPECT_FALSE(take(c, {4096, 4096}, kShared)) << "behind b";
  EXPECT_TRUE(take(d, {8192, 4096}, kExclusive));
}

TEST_F(RangeLockTest, SeveralGrantedByOneReleaseAreToldInOrderOfArrival) {
  ASSERT_TRUE(take(a, {0, 16 * kMiB}, kExclusive));
  ASSERT_FALSE(take(b, {12 * kMiB, 4096}, kExclusive));
  ASSERT_FALSE(take(c, {0, 4 * kMiB}, kShared));
  ASSERT_FALSE(take(d, {4096, 4096}, kShared));
  lock.release(a.node);
  EXPECT_EQ(log, (Names{"b", "c", "d"}));
}

TEST_F(RangeLockTest, CancellingAWaiterLetsThoseBehindItPass) {
  ASSERT_TRUE(take(a, {0, 4096}, kShared));
  ASSERT_FALSE(take(b, {0, 4096}, kExclusive));
  ASSERT_FALSE(take(c, {0, 4096}, kShared));
  lock.cancel(b.node);
  EXPECT_TRUE(b.node.idle());
  EXPECT_EQ(log, Names{"c"});
  lock.release(a.node);
  EXPECT_EQ(log, Names{"c"}) << "a cancelled lock is never granted";
}

TEST_F(RangeLockTest, ACallbackMayReleaseItselfAndAcquireAnew) {
  ASSERT_TRUE(take(a, {0, 4096}, kExclusive));
  ASSERT_FALSE(take(b, {0, 4096}, kExclusive));
  ASSERT_FALSE(take(c, {0, 4096}, kExclusive));
  b.then = [&] {
    lock.release(b.node);
    EXPECT_FALSE(lock.acquire(b.node, {0, 4096}, kShared)) << "c was there before";
    b.then = nullptr;
  };
  lock.release(a.node);
  EXPECT_EQ(log, (Names{"b", "c"}));
  lock.release(c.node);
  EXPECT_EQ(log, (Names{"b", "c", "b"}));
}

TEST_F(RangeLockTest, ALockGrantedButNotYetToldMayBeCancelledByAnEarlierCallback) {
  ASSERT_TRUE(take(a, {0, 8192}, kExclusive));
  ASSERT_FALSE(take(b, {0, 4096}, kExclusive));
  ASSERT_FALSE(take(c, {4096, 4096}, kExclusive));
  b.then = [&] { lock.cancel(c.node); };
  lock.release(a.node);
  EXPECT_EQ(log, Names{"b"});
  EXPECT_TRUE(c.node.idle());
}

TEST_F(RangeLockTest, ALongQueueOfImmediateReleasesDoesNotRecurse) {
  constexpr int kMany = 2000;
  std::deque<Op> ops;
  int granted = 0, depth = 0;
  ASSERT_TRUE(take(a, {0, 512}, kExclusive));
  for (int i = 0; i < kMany; ++i) {
    Op& op = ops.emplace_back();
    op.then = [&] {
      EXPECT_EQ(++depth, 1);
      ++granted;
      lock.release(op.node);
      --depth;
    };
    ASSERT_FALSE(lock.acquire(op.node, {static_cast<std::uint64_t>(i) * 512, 1024}, kExclusive));
  }
  lock.release(a.node);
  EXPECT_EQ(granted, kMany);
  EXPECT_EQ(lock.held_count() + lock.waiting_count(), 0u);
}

TEST_F(RangeLockTest, QueriesTellHeldFromQueued) {
  ASSERT_TRUE(take(a, {0, 4096}, kShared));
  ASSERT_FALSE(take(b, {0, 8192}, kExclusive));
  EXPECT_TRUE(lock.is_held_against({0, 512}, kExclusive));
  EXPECT_FALSE(lock.is_held_against({0, 512}, kShared));
  EXPECT_FALSE(lock.is_held_against({4096, 512}, kExclusive)) << "b only waits";
  EXPECT_FALSE(lock.would_grant({4096, 512}, kShared)) << "b is queued there";
  EXPECT_TRUE(lock.would_grant({8192, 512}, kExclusive));
  Names held, waiting;
  lock.for_each_held([&](RangeLock::Node& n) { held.push_back(static_cast<Op*>(n.owner)->name); });
  lock.for_each_waiting([&](RangeLock::Node& n) { waiting.push_back(static_cast<Op*>(n.owner)->name); });
  EXPECT_EQ(held, Names{"a"});
  EXPECT_EQ(waiting, Names{"b"});
}

TEST_F(RangeLockTest, TheLastByteOfTheLargestVolumeCanBeLocked) {
  const std::uint64_t end = std::uint64_t{64} << 40;
  EXPECT_TRUE(take(a, {end - 512, 512}, kExclusive));
  EXPECT_FALSE(take(b, {0, end}, kShared));
  lock.release(a.node);
  EXPECT_TRUE(b.node.held());
}

TEST_F(RangeLockTest, ForgettingAllMakesEveryLockIdleAndCallsNobody) {
  ASSERT_TRUE(take(a, {0, 4096}, kExclusive));
  ASSERT_FALSE(take(b, {0, 4 * kMiB}, kExclusive));
  lock.forget_all();
  EXPECT_TRUE(a.node.idle() && b.node.idle());
  EXPECT_TRUE(log.empty());
  EXPECT_TRUE(take(c, {0, 4096}, kExclusive));
  EXPECT_EQ(lock.held_count(), 1u);
}

/// What the contract says, in the plainest way: a lock is held when nothing before it conflicts.
struct Model {
  struct Entry {
    std::size_t op;
    Extent extent;
    LockMode mode;
  };
  std::vector<Entry> entries;

  [[nodiscard]] bool held(std::size_t index) const {
    const Entry& e = entries[index];
    for (std::size_t i = 0; i < index; ++i) {
      const bool both_shared = e.mode == kShared && entries[i].mode == kShared;
      if (!both_shared && e.extent.overlaps(entries[i].extent)) return false;
    }
    return true;
  }
};

class RangeLockModel : public testing::TestWithParam<unsigned> {};

TEST_P(RangeLockModel, AgreesWithANaiveQueueAfterEveryStep) {
  std::mt19937_64 random(GetParam());
  const auto below = [&](std::uint64_t n) { return random() % n; };
  RangeLock lock;
  std::vector<Op> ops(96);
  std::vector<bool> told(ops.size());
  for (std::size_t i = 0; i < ops.size(); ++i) ops[i].then = [&told, i] { told[i] = true; };
  Model model;

  for (int step = 0; step < 8000; ++step) {
    const std::size_t pick = below(ops.size());
    RangeLock::Node& node = ops[pick].node;
    if (node.idle()) {
      // Small ones across stripe borders, stripes that share a bucket, and wide ones.
      const std::uint64_t stripes[] = {0, 1, 2, 63, 64, 65, 128};
      Extent extent{stripes[below(7)] * 256 * 1024 + below(8) * 48 * 1024, (1 + below(40)) * 4096};
      if (below(12) == 0) extent.length += below(40) * kMiB;
      const LockMode mode = below(2) ? kShared : kExclusive;
      model.entries.push_back({pick, extent, mode});
      told[pick] = lock.acquire(node, extent, mode);
    } else {
      std::erase_if(model.entries, [&](const Model::Entry& e) { return e.op == pick; });
      told[pick] = false;
      node.held() ? lock.release(node) : lock.cancel(node);
    }
    std::size_t held = 0;
    for (std::size_t i = 0; i < model.entries.size(); ++i) {
      const std::size_t op = model.entries[i].op;
      ASSERT_EQ(ops[op].node.held(), model.held(i)) << "step " << step;
      ASSERT_EQ(told[op], model.held(i)) << "step " << step;
      held += model.held(i);
    }
    ASSERT_EQ(lock.held_count(), held);
    ASSERT_EQ(lock.waiting_count(), model.entries.size() - held);
  }
  for (Op& op : ops) op.then = nullptr;
  for (Op& op : ops) lock.cancel(op.node);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RangeLockModel, testing::Range(1u, 9u));

}  // namespace
}  // namespace lockstep::engine
