// What a replica has learnt, in the slots of its epoch record: what survives, what never goes back, and how writes of
// both wait for one another.
#include "engine/base/crc32c.hpp"
#include "tests/unit/engine/metadata_fixture.hpp"

namespace lockstep::engine {
namespace {

/// As of the nth time that something was learnt.
Knowledge learnt(std::uint64_t n) {
  Knowledge k;
  k.generation = n;
  k.partner_generation = 10 + n;
  k.witness_cluster = 0x8e9e05c52164694d;
  k.witness_repairs = 1;
  k.witness_revision = static_cast<std::int64_t>(100 + n);
  k.record_members = MemberSet::only(NodeSide::a);
  k.record_number = 20 + n;
  k.record_epoch = numbered(9);
  return k;
}

struct Known : MetadataTest {
  void SetUp() override {
    format();
    store.counts = {};
  }
  std::error_code learn(const Knowledge& k) {
    std::error_code out = Errc::timed_out;
    area->write_knowledge(k, [&](std::error_code e) { out = e; });
    store.run();
    return out;
  }
  std::error_code enter(const EpochRecord& epoch) {
    std::error_code out = Errc::timed_out;
    area->write_epoch(epoch, [&](std::error_code e) { out = e; });
    store.run();
    return out;
  }
  void reopen() {
    store.cut_power();
    open();
    ASSERT_TRUE(area) << message();
  }
  /// Of a replica made anew, whose block of that number can't be written from then on.
  void know_one_and_fail(std::uint64_t block) {
    store.fail = [](char, Extent) { return false; };
    format();
    told.clear();
    ASSERT_FALSE(learn(learnt(1)));
    store.fail = [block](char kind, Extent e) { return kind == 'w' && e.offset == block * 4096; };
  }
  /// Notes its name when it is told of its end.
  IoCallback noted(std::string name) {
    return [this, name = std::move(name)](std::error_code e) { told += (e ? "!" : "") + name + " "; };
  }
  std::string told;
};

TEST_F(Known, NothingIsTheSameBytesAsBeforeThereWasSuchARecord) {
  EXPECT_EQ(area->knowledge(), Knowledge{});
  EXPECT_FALSE(enter(sample_epoch(2)));
  for (const std::size_t slot : {2u, 3u}) {
    EXPECT_EQ(load_be<std::uint16_t>(block(slot).data() + 12), 1) << "a program that knows only version 1 reads it";
    EXPECT_TRUE(std::ranges::all_of(block(slot).subspan(2464), [](std::byte b) { return b == std::byte{0}; }));
  }
}

TEST_F(Known, OnceWrittenItSurvivesAPowerCutAndEveryLaterEpoch) {
  EXPECT_FALSE(learn(learnt(1)));
  EXPECT_EQ(store.counts.durable_writes, 2);
  EXPECT_EQ(area->knowledge(), learnt(1));
  reopen();
  EXPECT_EQ(area->knowledge(), learnt(1));
  EXPECT_EQ(area->epoch(), sample_epoch());
  EXPECT_FALSE(enter(sample_epoch(2)));
  reopen();
  EXPECT_EQ(area->knowledge(), learnt(1));
  EXPECT_EQ(area->epoch(), sample_epoch(2));
}

TEST_F(Known, TheLargestIsReadBack) {
  constexpr auto kMost = std::numeric_limits<std::uint64_t>::max();
  const Knowledge most{kMost, kMost,      kMost, kMost, std::numeric_limits<std::int64_t>::max(), MemberSet::both(),
                       kMost, numbered(9)};
  EXPECT_FALSE(learn(most));
  reopen();
  EXPECT_EQ(area->knowledge(), most);
}

TEST_F(Known, APowerCutAtAnyPointLeavesTheOldOrTheNewWithTheEpoch) {
  for (std::size_t steps = 0; steps <= 2; ++steps) {
    for (std::size_t torn = 0; torn <= 8; ++torn) {
      store.fail = [](char, Extent) { return false; };
      format();
      ASSERT_FALSE(learn(learnt(1)));
      bool acknowledged = false;
      area->write_epoch(sample_epoch(2), learnt(2), [&](std::error_code e) { acknowledged = !e; });
      for (std::size_t i = 0; i < steps; ++i) store.step();
      store.cut_power(torn);
      open();
      ASSERT_TRUE(area) << message();
      const bool is_new = area->knowledge() == learnt(2);
      EXPECT_TRUE(is_new || area->knowledge() == learnt(1));
      EXPECT_EQ(area->epoch(), sample_epoch(is_new ? 2 : 1)) << steps << " steps, " << torn << " sectors";
      EXPECT_TRUE(is_new || !acknowledged);
      EXPECT_TRUE(is_new || steps == 0) << "one whole slot suffices";
    }
  }
}

TEST_F(Known, ASlotOfBeforeItWasWrittenGivesWay) {
  const std::vector<std::byte> before(block(3).begin(), block(3).end());
  EXPECT_FALSE(learn(learnt(1)));
  std::ranges::copy(before, block(3).begin());
  store.keep_spoiled();
  reopen();
  EXPECT_EQ(area->knowledge(), learnt(1));
}

TEST_F(Known, WhatIsDurableIsNotWrittenAgain) {
  EXPECT_FALSE(learn(learnt(1)));
  store.counts = {};
  bool done = false;
  area->write_knowledge(learnt(1), [&](std::error_code e) { done = !e; });
  EXPECT_TRUE(done);
  EXPECT_EQ(store.counts.writes, 0);
}

TEST_F(Known, TheRecordIsWrittenAgainToShowThatTheNextOneCouldBe) {
  ASSERT_FALSE(learn(learnt(1)));
  store.counts = {};
  area->rewrite_record(noted("again"));
  area->rewrite_record(noted("after that"));
  area->write_epoch(sample_epoch(2), noted("e2"));
  store.run();
  EXPECT_EQ(told, "again after that e2 ");
  EXPECT_EQ(store.counts.durable_writes, 4) << "one that is under way began before";
  reopen();
  EXPECT_EQ(area->epoch(), sample_epoch(2));
  EXPECT_EQ(area->knowledge(), learnt(1));
}

TEST_F(Known, APowerCutWhileTheRecordIsWrittenAgainLeavesIt) {
  for (std::size_t steps = 0; steps <= 2; ++steps) {
    for (std::size_t torn = 0; torn <= 8; ++torn) {
      format();
      ASSERT_FALSE(learn(learnt(1)));
      area->rewrite_record([](std::error_code) {});
      for (std::size_t i = 0; i < steps; ++i) store.step();
      store.cut_power(torn);
      open();
      ASSERT_TRUE(area) << message();
      EXPECT_EQ(area->epoch(), sample_epoch(1)) << steps << " steps, " << torn << " sectors";
      EXPECT_EQ(area->knowledge(), learnt(1));
    }
  }
}

TEST_F(Known, ARecordThatCannotBeWrittenAgainIsThereInOneSlot) {
  for (const std::uint64_t failing : {2, 3}) {
    ASSERT_NO_FATAL_FAILURE(know_one_and_fail(failing));
    area->rewrite_record(noted("again"));
    store.run();
    EXPECT_EQ(told, "!again ");
    store.fail = [](char, Extent) { return false; };
    EXPECT_EQ(enter(sample_epoch(2)), Errc::io_error) << "the other slot is not touched";
    open();
    ASSERT_TRUE(area) << message();
    EXPECT_EQ(area->epoch(), sample_epoch(1));
  }
}

TEST_F(Known, WritesOfBothWaitForOneAnotherAndAreToldInOrder) {
  area->write_knowledge(learnt(1), noted("k1"));
  area->write_epoch(sample_epoch(2), noted("e2"));
  area->write_knowledge(learnt(2), noted("k2"));
  area->write_knowledge(learnt(3), noted("k3"));
  EXPECT_FALSE(area->idle());
  EXPECT_EQ(store.waiting(), 1u) << "one block at a time";
  store.step(), store.step();
  EXPECT_EQ(told, "k1 ");
  EXPECT_EQ(area->knowledge(), learnt(1));
  EXPECT_EQ(area->epoch(), sample_epoch(1));
  EXPECT_FALSE(area->idle());
  store.run();
  EXPECT_EQ(told, "k1 e2 k2 k3 ");
  EXPECT_EQ(store.counts.durable_writes, 4) << "what waited went out together";
  EXPECT_TRUE(area->idle());
  reopen();
  EXPECT_EQ(area->knowledge(), learnt(3));
  EXPECT_EQ(area->epoch(), sample_epoch(2));
}

TEST_F(Known, AnEpochKeepsWhatWasAskedForBeforeIt) {
  area->write_epoch(sample_epoch(2), noted("e2"));
  area->write_knowledge(learnt(1), noted("k1"));
  store.step(), store.step();
  area->write_epoch(sample_epoch(3), noted("e3"));
  EXPECT_EQ(told, "e2 ") << "the second waits: the first is over";
  store.run();
  EXPECT_EQ(told, "e2 k1 e3 ");
  reopen();
  EXPECT_EQ(area->epoch(), sample_epoch(3));
  EXPECT_EQ(area->knowledge(), learnt(1));
}

TEST_F(Known, ASecondEpochIsTurnedAwayAlsoWhileTheFirstWaits) {
  area->write_knowledge(learnt(1), noted("k1"));
  area->write_epoch(sample_epoch(2), noted("e2"));
  area->write_epoch(sample_epoch(3), noted("e3"));
  EXPECT_EQ(told, "!e3 ");
  store.run();
  EXPECT_EQ(area->epoch(), sample_epoch(2));
}

TEST_F(Known, TheSameWhileItIsOnItsWayGoesWithIt) {
  area->write_knowledge(learnt(1), noted("k1"));
  area->write_knowledge(learnt(1), noted("again"));
  store.run();
  EXPECT_EQ(told, "k1 again ");
  EXPECT_EQ(store.counts.durable_writes, 2);
}

TEST_F(Known, MoreThanItsBoundIsTurnedAway) {
  area->write_epoch(sample_epoch(2), noted("e"));
  std::size_t accepted = 0, turned_away = 0;
  for (std::uint64_t n = 1; n <= MetadataArea::kMaxRecordsWaiting + 1; ++n) {
    area->write_knowledge(learnt(n), [&](std::error_code e) {
      EXPECT_TRUE(!e || e == Errc::resource_exhausted);
      ++(e ? turned_away : accepted);
    });
  }
  EXPECT_EQ(turned_away, 1u);
  store.run();
  EXPECT_EQ(accepted, MetadataArea::kMaxRecordsWaiting);
  EXPECT_EQ(area->knowledge(), learnt(MetadataArea::kMaxRecordsWaiting));
}

TEST_F(Known, AfterAFailedWriteWhatWaitedFailsAndOnlyReopeningHelps) {
  for (const std::uint64_t failing : {2, 3}) {
    ASSERT_NO_FATAL_FAILURE(know_one_and_fail(failing));
    area->write_knowledge(learnt(2), noted("k2"));
    area->write_epoch(sample_epoch(2), noted("e2"));
    area->write_knowledge(learnt(3), noted("k3"));
    store.run();
    EXPECT_EQ(told, "!k2 !e2 !k3 ");
    EXPECT_TRUE(area->idle());
    EXPECT_EQ(area->knowledge(), learnt(1));
    store.fail = [](char, Extent) { return false; };
    EXPECT_EQ(learn(learnt(2)), Errc::io_error);
    EXPECT_EQ(learn(learnt(1)), Errc::io_error) << "which counts is not known";
    open();
    ASSERT_TRUE(area) << message();
    EXPECT_EQ(area->epoch(), sample_epoch(1));
    EXPECT_EQ(area->knowledge(), learnt(failing == 2 ? 1 : 2));
    EXPECT_FALSE(learn(learnt(3)));
  }
}

TEST_F(Known, NothingOfItGoesBack) {
  EXPECT_FALSE(learn(learnt(5)));
  const auto with = [](auto change) {
    Knowledge k = learnt(5);
    change(k);
    return k;
  };
  for (const Knowledge& older :
       {with([](auto& k) { k.generation = 4; }), with([](auto& k) { k.partner_generation = 14; }),
        with([](auto& k) { k.witness_revision = 104; }), with([](auto& k) { k.witness_repairs = 0; }),
        with([](auto& k) { k.witness_repairs = 0, ++k.witness_cluster; }),
        Knowledge{.generation = 5, .partner_generation = 15, .witness_repairs = 1}}) {
    EXPECT_EQ(learn(older), Errc::refused);
    EXPECT_EQ(area->knowledge(), learnt(5));
  }
  for (const Knowledge& newer :
       {with([](auto& k) { k.generation = 6; }), with([](auto& k) { ++k.witness_cluster, k.witness_revision = 1; }),
        with([](auto& k) { k.witness_repairs = 2, k.witness_revision = 1; })}) {
    format();
    EXPECT_FALSE(learn(learnt(5)));
    EXPECT_FALSE(learn(newer));
    EXPECT_EQ(area->knowledge(), newer);
  }
}

TEST_F(Known, NorBehindWhatIsOnItsWay) {
  area->write_knowledge(learnt(2), noted("k2"));
  area->write_knowledge(learnt(1), noted("k1"));
  area->write_knowledge(learnt(4), noted("k4"));
  area->write_knowledge(learnt(3), noted("k3"));
  area->write_epoch(sample_epoch(2), learnt(3), noted("e2"));
  EXPECT_EQ(told, "!k1 !k3 !e2 ");
  store.run();
  EXPECT_EQ(area->knowledge(), learnt(4));
  EXPECT_EQ(area->epoch(), sample_epoch(1));
}

TEST_F(Known, WhatMakesNoSenseIsRefused) {
  const auto with = [](auto change) {
    Knowledge k = learnt(1);
    change(k);
    return k;
  };
  for (const Knowledge& senseless :
       {with([](auto& k) { k.witness_revision = -1; }), with([](auto& k) { k.witness_cluster = 0; }),
        with([](auto& k) { k.record_members = {4}; }), with([](auto& k) { k.record_members = {}; }),
        with([](auto& k) { k.record_members = {}, k.record_number = 0; }),
        with([](auto& k) { k.record_members = {}, k.record_epoch = {}; })}) {
    EXPECT_EQ(learn(senseless), Errc::refused);
    // … and on a disk it refuses the area, whatever the checksum says.
    format();
    EXPECT_FALSE(learn(learnt(1)));
    layout::seal_record(block(2), {sample_epoch(), senseless},
                        {identity.pair, identity.volume, sample_epoch().id, identity.owner}, 0, 2);
    store.keep_spoiled();
    open();
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code, Errc::corrupt);
    EXPECT_NE(message().find("epoch record slot 0"), std::string::npos) << message();
    format();
  }
}

TEST_F(Known, ABlockWhoseVersionDoesNotFitItIsRefused) {
  const auto claim = [&](std::uint16_t version) {
    store_be<std::uint16_t>(block(2).data() + 12, version);
    store_be<std::uint32_t>(block(2).data(), crc32c(block(2).subspan(4)));
    store.keep_spoiled();
    open();
    ASSERT_TRUE(error) << version;
  };
  claim(2);  // and nothing was learnt
  EXPECT_EQ(error->code, Errc::corrupt);
  format();
  EXPECT_FALSE(learn(learnt(1)));
  claim(1);
  EXPECT_EQ(error->code, Errc::corrupt);
  format();
  claim(3);
  EXPECT_EQ(error->code, Errc::wrong_version);
  EXPECT_NE(message().find("has format version 3; this program knows version 2"), std::string::npos) << message();
}

TEST_F(Known, AnyByteOfItChangedInAWholeBlockNeverBringsItDown) {
  EXPECT_FALSE(learn(learnt(1)));
  const std::vector<std::byte> good(store.bytes().begin(), store.bytes().end());
  for (std::size_t at = 2464; at < 2464 + 72; ++at) {
    block(2)[at] ^= std::byte{0xFF};
    store_be<std::uint32_t>(block(2).data(), crc32c(block(2).subspan(4)));
    open();
    EXPECT_TRUE(area || error) << at;
    std::ranges::copy(good, store.bytes().begin());
  }
}

}  // namespace
}  // namespace lockstep::engine
