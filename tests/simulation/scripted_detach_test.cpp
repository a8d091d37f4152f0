// A volume that is detached: when its stores are given back, nothing of the mirror's is under way in them.
#include <gtest/gtest.h>

#include "tests/simulation/pair_program.hpp"
#include "tests/simulation/scripted_pair.hpp"

namespace lockstep::simulation {
namespace {

using engine::NodeSide;
using replication::MirrorState;

/// What a detach() gave back, and whether that was true.
struct Detached {
  bool done = false;
  std::size_t in_flight = 0;
};

void detach(ScriptedPair& pair, NodeSide side, Detached& detached) {
  Host& host = pair.host(side);
  host.program()->detach(0, [&host, &detached] {
    detached.done = true;
    detached.in_flight = host.data(0).in_flight() + host.metadata(0).in_flight();
  });
}

void hang_metadata(ScriptedPair& pair, NodeSide side) {
  StoreFaults faults = pair.host(side).metadata(0).faults();
  faults.hang = kAlways;
  pair.host(side).metadata(0).set_faults(faults);
}

/// Not while its disk keeps something.
void gives_back_when_mended(ScriptedPair& pair, NodeSide side) {
  Detached detached;
  detach(pair, side, detached);
  pair.run_for(5 * kSecond);
  EXPECT_FALSE(detached.done);
  pair.mend(side);
  ASSERT_TRUE(pair.wait_for([&] { return detached.done; }));
  EXPECT_EQ(detached.in_flight, 0u);
}

struct Watch final : scsi::LuStateListener {
  void on_state(const scsi::LuState&, std::span<const scsi::LuEvent>) override {}
};

TEST(Detach, TheStoresAreGivenBackWhenTheDirtyMapIsWritten) {
  for (const NodeSide side : {kA, kB}) {  // the one that orders clears bits by itself, the other is told to
    ScriptedPair pair(pair_program());
    ASSERT_EQ(pair.written(kA, 8, 1), std::error_code{});
    hang_metadata(pair, side);
    const auto clearing = [&] { return pair.host(side).metadata(0).in_flight() > 0; };
    ASSERT_TRUE(pair.wait_for(clearing)) << "the region is cold and clean";
    ASSERT_TRUE(pair.wait_for([&] { return pair.host(side).data(0).in_flight() == 0; }, kSecond));
    Detached detached;
    detach(pair, side, detached);
    pair.run_for(kSecond);
    EXPECT_FALSE(detached.done) << "a block of the map is being written";
    pair.mend(side);
    ASSERT_TRUE(pair.wait_for([&] { return detached.done; }));
    EXPECT_EQ(detached.in_flight, 0u);
    EXPECT_EQ(pair.violation(), "");
  }
}

TEST(Detach, TheStoresAreGivenBackWhenTheEpochRecordIsWritten) {
  ScriptedPair pair(pair_program());
  pair.host(kB).end(Host::End::power_cut);
  const auto won = [&] {
    const auto& record = pair.world().witness.view(pair.world().scenario.volumes[0].id).record;
    return record && record->members == engine::MemberSet::only(kA);
  };
  ASSERT_TRUE(pair.wait_for(won)) << "it showed before that its metadata can be written";
  ASSERT_EQ(pair.host(kA).metadata(0).in_flight(), 0u) << "it waits until the lease that it granted is over";
  hang_metadata(pair, kA);
  ASSERT_TRUE(pair.wait_for([&] { return pair.is(kA, MirrorState::failed); })) << "its record is not written in time";
  ASSERT_GT(pair.host(kA).metadata(0).in_flight(), 0u);
  gives_back_when_mended(pair, kA);
}

TEST(Detach, TheStoresAreGivenBackWhenTheDataThatIsMadeDurableIs) {
  ScriptedPair pair(pair_program());
  ASSERT_EQ(pair.written(kA, 8, 1), std::error_code{});
  hang(pair, kA);
  gives_back_when_mended(pair, kA);
}

/// The partner has recorded already that it left, and what this node's store holds is waited for.
TEST(Detach, EndsAStepThatWaitsForTheStore) {
  ScriptedPair pair(pair_program());
  ASSERT_EQ(pair.written(kA, 8, 1), std::error_code{});
  hang(pair, kB);
  pair.write(kA, 8, 2);
  ASSERT_TRUE(pair.wait_for([&] { return pair.host(kB).data(0).in_flight() > 0; })) << "ordered by A";
  pair.read(kB, 16);
  pair.host(kA).end(Host::End::killed);
  pair.host(kA).boot();
  ASSERT_TRUE(pair.wait_for([&] { return pair.status(kA).epoch.members == engine::MemberSet::only(kB); }, kSecond));
  pair.run_for(3200 * kMillisecond);  // its store is silent for too long
  ASSERT_TRUE(pair.status(kB).epoch.members.is_both()) << "it waits";
  Detached detached;
  detach(pair, kB, detached);
  pair.host(kB).data(0).release_first_hung();
  pair.run_for(100 * kMillisecond);
  EXPECT_FALSE(detached.done);
  pair.mend(kB);
  ASSERT_TRUE(pair.wait_for([&] { return detached.done; }));
  EXPECT_EQ(detached.in_flight, 0u);
  EXPECT_EQ(pair.violation(), "");
}

/// A orders it and writes it, B's disk fails it: nobody knows what became of it when A is detached. The next mirror of
/// A's, which knows nothing of it, must not be asked to carry it out, nor does it say that it was not.
TEST(Detach, WhatWasBegunThereIsNotSentAgainToTheNext) {
  ScriptedPair pair(pair_program());
  ASSERT_EQ(pair.written(kA, 8, 1), std::error_code{});
  pair.spoil(kB, [](StoreFaults& f) { f.write_error = f.hang = kAlways; });
  auto& begun = pair.write(kB, 8, 2);
  const auto written = [&] { return std::to_integer<int>(pair.host(kA).data(0).visible()[8 * kBlock]) == 2; };
  ASSERT_TRUE(pair.wait_for([&] { return written() && pair.host(kB).data(0).in_flight() > 0; }));
  pair.host(kA).program()->attach_again(0);
  pair.run_for(kMillisecond);
  pair.host(kB).data(0).release_hung();
  ASSERT_TRUE(pair.wait_for([&] { return begun.done; }));
  EXPECT_EQ(begun.status(), make_error_code(engine::Errc::unknown_outcome)) << "it is in A's store";
  EXPECT_EQ(pair.violation(), "");
}

/// What waits for the partner's answer when the partner is lost has nobody left to decide it.
TEST(Detach, AWriteThatThePartnerForwardedHoldsNothingUpWhenThePartnerDies) {
  ScriptedPair pair(pair_program());
  ASSERT_EQ(pair.written(kA, 8, 1), std::error_code{});  // there is space for the next
  hang(pair, kB);
  pair.write(kB, 8, 2);
  ASSERT_TRUE(pair.wait_for([&] { return pair.host(kB).data(0).in_flight() > 0; })) << "ordered by A";
  Detached detached;
  detach(pair, kA, detached);
  pair.run_for(500 * kMillisecond);
  EXPECT_FALSE(detached.done);
  pair.host(kB).end(Host::End::power_cut);
  ASSERT_TRUE(pair.wait_for([&] { return detached.done; }));
  EXPECT_EQ(detached.in_flight, 0u);
}

TEST(Detach, TheMirrorOutlivesWhatThePartnerStillOwesIt) {
  ScriptedPair pair(pair_program());
  ASSERT_EQ(pair.written(kA, 8, 1), std::error_code{});
  pair.run_for(900 * kMillisecond);
  pair.host(kB).freeze();
  pair.run_for(400 * kMillisecond);  // the region is cold: the partner was asked to flush
  auto watch = std::make_shared<Watch>();
  pair.host(kA).program()->disk(0)->set_state_listener(watch);
  const std::weak_ptr<Watch> mirror = std::exchange(watch, nullptr);
  Detached detached;
  detach(pair, kA, detached);
  ASSERT_TRUE(pair.wait_for([&] { return detached.done; }, 200 * kMillisecond)) << "the stores wait for nobody";
  pair.run_for(100 * kMillisecond);
  EXPECT_FALSE(mirror.expired());
  EXPECT_TRUE(pair.wait_for([&] { return mirror.expired(); })) << "contact was lost, and the way out with it";
  pair.host(kB).thaw();
  pair.run_for(kSecond);
  EXPECT_EQ(pair.violation(), "");
}

/// At any moment, and with the way to the partner broken: whoever still owes it an answer finds it.
TEST(Detach, TheMirrorIsFreedWhenNobodyOwesItAnAnswer) {
  for (int moment = 0; moment < 40; ++moment) {
    ScriptedPair pair(pair_program());
    pair.write(kA, 8, 1);
    pair.run_for(moment * 50 * kMillisecond);
    if (moment % 3 == 1) pair.world().cut(kA, false);
    if (moment % 3 == 2) pair.host(kB).end(Host::End::power_cut);
    pair.run_for(moment * 40 * kMillisecond);
    auto watch = std::make_shared<Watch>();
    pair.host(kA).program()->disk(0)->set_state_listener(watch);
    const std::weak_ptr<Watch> mirror = std::exchange(watch, nullptr);
    Detached detached;
    detach(pair, kA, detached);
    EXPECT_FALSE(mirror.expired());
    ASSERT_TRUE(pair.wait_for([&] { return detached.done && mirror.expired(); })) << "moment " << moment;
    EXPECT_EQ(detached.in_flight, 0u);
    pair.run_for(10 * kSecond);
    EXPECT_EQ(pair.violation(), "");
  }
}

TEST(Detach, AReplicaThatLeftAndIsAttachedAgainJoinsWithoutAPause) {
  for (const NodeSide side : {kA, kB}) {
    ScriptedPair pair(pair_program());
    ASSERT_FALSE(pair.written(kA, 8, 1));
    pair.host(side).program()->leave(0);
    ASSERT_TRUE(pair.wait_for([&] { return pair.is(side, MirrorState::left); }));
    const NodeSide survivor = other(side);
    for (int i = 0; i < 50; ++i) ASSERT_FALSE(pair.written(survivor, 8 + 8 * (i % 20), 2));
    Detached detached;
    detach(pair, side, detached);
    while (!detached.done) ASSERT_FALSE(pair.written(survivor, 8, 3));
    for (int i = 0; i < 50; ++i) ASSERT_FALSE(pair.written(survivor, 8 + 8 * (i % 20), 4));
    pair.host(side).program()->attach_again(0);
    for (int i = 0; !pair.in_sync(); ++i) {
      ASSERT_LT(i, 100000);
      pair.write(survivor, 8 + 8 * (i % 20), 5);
      pair.run_for(kMillisecond / 5);
      ASSERT_FALSE(pair.is(survivor, MirrorState::suspended)) << "after " << i << " writes";
    }
    EXPECT_EQ(pair.violation(), "");
  }
}

}  // namespace
}  // namespace lockstep::simulation
