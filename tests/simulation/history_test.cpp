// The judge of histories, given histories whose verdict is known.
#include "tests/simulation/history.hpp"

#include <gtest/gtest.h>

namespace lockstep::simulation {
namespace {

class HistoryJudge : public testing::Test {
 protected:
  Value begin(WriteKind kind = WriteKind::write, std::vector<Value> expected = {}) {
    return history.begin_write(0, 7, 1, kind, 0, std::move(expected));
  }
  Value written(WriteKind kind = WriteKind::write, std::vector<Value> expected = {}) {
    const Value value = begin(kind, std::move(expected));
    history.write_acknowledged(value, 0);
    return value;
  }
  void read(Value value) { read_from(history.begin_read(), value); }
  void read_from(Moment start, Value value) { history.read_returned(0, 7, {&value, 1}, start, 0); }
  [[nodiscard]] bool linearizable() const { return !history.check().has_value(); }
  History history;
};

TEST_F(HistoryJudge, AnEmptyHistoryIsLinearizable) { EXPECT_TRUE(linearizable()); }

TEST_F(HistoryJudge, AReadReturnsTheLastAcknowledgedWrite) {
  const Value one = written();
  read(one);
  const Value two = written();
  read(two);
  EXPECT_TRUE(linearizable());
}

TEST_F(HistoryJudge, AnOverwrittenValueMayNotBeReadAgain) {
  const Value one = written();
  const Value two = written();
  (void)two;
  read(one);
  EXPECT_FALSE(linearizable());
}

TEST_F(HistoryJudge, AnAcknowledgedWriteMayNotVanishIntoZeroes) {
  (void)written();
  read(0);
  EXPECT_FALSE(linearizable());
}

TEST_F(HistoryJudge, AReadDuringAWriteMaySeeEither) {
  const Value one = written();
  const Moment early = history.begin_read();
  const Moment also_early = history.begin_read();
  const Value two = begin();
  read_from(early, one);
  read_from(also_early, two);
  history.write_acknowledged(two, 0);
  EXPECT_TRUE(linearizable());
}

TEST_F(HistoryJudge, NoReadSeesNewAndALaterOneOld) {
  const Value one = written();
  const Value two = begin();
  read(two);
  read(one);
  EXPECT_FALSE(linearizable());
}

TEST_F(HistoryJudge, AnUnknownWriteMayNeverHappen) {
  const Value one = written();
  (void)begin();
  read(one);
  EXPECT_TRUE(linearizable());
}

TEST_F(HistoryJudge, AnUnknownWriteMayHappenLate) {
  const Value lost = begin();
  const Value one = written();
  read(one);
  read(lost);
  EXPECT_TRUE(linearizable());
}

TEST_F(HistoryJudge, AnUnknownWriteMayNotHappenTwice) {
  const Value lost = begin();
  read(lost);
  const Value one = written();
  read(one);
  read(lost);
  EXPECT_FALSE(linearizable());
}

TEST_F(HistoryJudge, AnEarlierTryMayTakeEffectBeforeALaterOneIsAcknowledged) {
  const Value first = begin();
  read(first);
  const Value second = written();
  history.write_is_over(first);
  read(second);
  EXPECT_TRUE(linearizable());
}

TEST_F(HistoryJudge, AnEarlierTryMayNotTakeEffectAfterALaterOneWasAcknowledged) {
  const Value first = begin();
  (void)written();
  history.write_is_over(first);
  (void)written();
  read(first);
  EXPECT_FALSE(linearizable());
}

TEST_F(HistoryJudge, ACancelledWriteMayNotTakeEffectAfterItsNodeHasDoneWithIt) {
  const Value cancelled = begin();
  history.write_is_over(cancelled);
  read(0);
  EXPECT_TRUE(linearizable()) << "it never happened";
  read(cancelled);
  EXPECT_FALSE(linearizable());
}

TEST_F(HistoryJudge, ACancelledWriteMayHaveTakenEffectBefore) {
  const Value cancelled = begin();
  history.write_is_over(cancelled);
  read(cancelled);
  EXPECT_TRUE(linearizable());
}

TEST_F(HistoryJudge, AWriteIsOverAtTheFirstOfTwoMoments) {
  const Value first = begin();
  history.write_is_over(first);
  (void)written();
  history.write_is_over(first);
  read(first);
  EXPECT_FALSE(linearizable());
}

TEST_F(HistoryJudge, BytesThatNobodyWroteAreRefused) {
  (void)written();
  read(kGarbage);
  EXPECT_FALSE(linearizable());
}

TEST_F(HistoryJudge, AWriteDroppedWithoutEffectMayNotBeRead) {
  const Value dropped = begin();
  history.write_had_no_effect(dropped);
  read(dropped);
  EXPECT_FALSE(linearizable());
}

TEST_F(HistoryJudge, ZeroesAreReadAfterZeroing) {
  (void)written();
  (void)written(WriteKind::zero);
  read(0);
  EXPECT_TRUE(linearizable());
}

TEST_F(HistoryJudge, ZeroedDataMayNotComeBack) {
  const Value one = written();
  (void)written(WriteKind::zero);
  read(one);
  EXPECT_FALSE(linearizable());
}

TEST_F(HistoryJudge, ZeroesMayNotAppearBetweenTwoReadsOfOneValue) {
  (void)begin(WriteKind::zero);
  const Value one = written();
  read(0);
  read(one);
  EXPECT_FALSE(linearizable());
}

TEST_F(HistoryJudge, ACompareThatFoundAValueReplacesIt) {
  const Value one = written();
  const Value two = written(WriteKind::compare_and_write, {one});
  read(two);
  EXPECT_TRUE(linearizable());
}

TEST_F(HistoryJudge, TwoComparesMayNotReplaceTheSameValue) {
  const Value one = written();
  const Moment during = history.begin_read();
  const Value two = begin(WriteKind::compare_and_write, {one});
  const Value three = begin(WriteKind::compare_and_write, {one});
  history.write_acknowledged(two, 0);
  history.write_acknowledged(three, 0);
  read_from(during, two);
  EXPECT_FALSE(linearizable());
}

TEST_F(HistoryJudge, ACompareMayNotFindAnOverwrittenValue) {
  const Value one = written();
  (void)written();
  (void)written(WriteKind::compare_and_write, {one});
  EXPECT_FALSE(linearizable());
}

TEST_F(HistoryJudge, NothingComesBetweenWhatACompareFoundAndWhatItWrote) {
  const Value one = written();
  const Value other = begin();
  const Value swap = begin(WriteKind::compare_and_write, {one});
  read(other);
  read(one);
  history.write_acknowledged(swap, 0);
  read(swap);
  EXPECT_FALSE(linearizable());
}

TEST_F(HistoryJudge, AMiscompareMayNotMissAValueThatWasThereBeforeAndAfter) {
  const Value one = written();
  history.found_other(0, 7, one, history.begin_read(), 0);
  read(one);
  EXPECT_FALSE(linearizable());
}

TEST_F(HistoryJudge, AMiscompareIsRightAfterAnOverwrite) {
  const Value one = written();
  (void)written();
  history.found_other(0, 7, one, history.begin_read(), 0);
  EXPECT_TRUE(linearizable());
}

TEST_F(HistoryJudge, TheDisksOfMembersMayBeNewerThanAnAcknowledgedWriteButNotOlder) {
  const Value older = written();
  const Value acked = begin();
  const Value newer = begin();
  EXPECT_TRUE(history.not_older(0, 7, acked, acked));
  EXPECT_TRUE(history.not_older(0, 7, newer, acked));
  EXPECT_FALSE(history.not_older(0, 7, older, acked));
  EXPECT_FALSE(history.not_older(0, 7, 0, acked));
  EXPECT_FALSE(history.not_older(0, 7, kGarbage, acked));
}

class CachedHistory : public HistoryJudge {
 protected:
  Value written_with_fua() {
    const Value value = history.begin_write(0, 7, 1, WriteKind::write, 0, {}, true);
    history.write_acknowledged(value, 0);
    return value;
  }
  void flush_since(Moment began) { history.flushed(0, began); }
  void lose_power() {
    history.lost_power(0, [](const WriteRecord& w) { return !w.fua; });
  }
};

TEST_F(CachedHistory, ACutMayTakeWhatWasCached) {
  const Value one = written_with_fua(), two = written();
  read(two);
  lose_power();
  read(one);
  EXPECT_TRUE(linearizable());
}

TEST_F(CachedHistory, ACutMayLeaveIt) {
  (void)written();
  const Value two = written();
  lose_power();
  read(two);
  EXPECT_TRUE(linearizable());
}

TEST_F(CachedHistory, ACutTakesNothingThatNoCacheMayHold) {
  (void)written_with_fua();
  lose_power();
  read(0);
  EXPECT_FALSE(linearizable());
}

TEST_F(CachedHistory, ACutTakesNothingThatWasFlushed) {
  (void)written();
  flush_since(history.begin_read());
  lose_power();
  read(0);
  EXPECT_FALSE(linearizable());
}

TEST_F(CachedHistory, AFlushThatACutCameInTheMidstOfCoversWhatItBeganAfter) {
  (void)written();
  const Moment began = history.begin_read();
  lose_power();
  flush_since(began);
  read(0);
  EXPECT_FALSE(linearizable());
}

TEST_F(CachedHistory, AFlushBehindACutBringsNothingBack) {
  (void)written();
  lose_power();
  flush_since(history.begin_read());
  read(0);
  EXPECT_TRUE(linearizable());
}

TEST_F(CachedHistory, WhatACutLeftIsThereToStay) {
  const Value one = written();
  lose_power();
  read(one);
  lose_power();
  read(0);
  EXPECT_FALSE(linearizable());
}

TEST_F(CachedHistory, WhatACutTookDoesNotComeAgain) {
  const Value one = written();
  lose_power();
  read(0);
  read(one);
  EXPECT_FALSE(linearizable());
}

TEST_F(CachedHistory, WhatACutCanNotTakeStandsBeforeWhatItReplaced) {
  const Value one = written(), two = written_with_fua();
  (void)two;
  lose_power();
  read(one);
  EXPECT_FALSE(linearizable());
}

TEST_F(CachedHistory, BeforeACutAllIsAsEver) {
  const Value one = written();
  (void)written();
  read(one);
  lose_power();
  EXPECT_FALSE(linearizable());
}

TEST_F(CachedHistory, WhatReplacedAValueMayBeTakenFromItTwice) {
  const Value one = written_with_fua();
  (void)written(WriteKind::compare_and_write, {one});
  lose_power();
  (void)written(WriteKind::compare_and_write, {one});
  EXPECT_TRUE(linearizable());
}

TEST_F(CachedHistory, WhatACutCameInTheMidstOfIsFromBeforeItOrBehind) {
  const Value one = written_with_fua(), two = written();
  const Moment first = history.begin_read(), second = history.begin_read();
  lose_power();
  read_from(first, two);
  read_from(second, one);
  read(one);
  EXPECT_TRUE(linearizable());
}

// --- Times that are left out -----------------------------------------------------------------------------------------

TEST_F(HistoryJudge, WhatWasSeenOfTwoLinesIsNotJudged) {
  const Value one = written();
  const Moment since = history.begin_read();
  const Value two = written();
  read(one);
  read(two);
  read(one);
  history.leave_out(0, since);
  EXPECT_TRUE(linearizable());
  read(one);
  EXPECT_TRUE(linearizable()) << "either line may be the one that is kept";
}

TEST_F(HistoryJudge, WhatCameBeforeTheTimeLeftOutIsJudged) {
  const Value one = written();
  (void)written();
  read(one);
  history.leave_out(0, history.begin_read());
  EXPECT_FALSE(linearizable());
}

TEST_F(HistoryJudge, WhatComesBehindTheTimeLeftOutIsOneDiskAgain) {
  const Value one = written();
  const Moment since = history.begin_read();
  const Value two = written();
  history.leave_out(0, since);
  read(one);
  EXPECT_TRUE(linearizable()) << "two was given up";
  read(two);
  EXPECT_FALSE(linearizable());
}

TEST_F(HistoryJudge, WhatIsAcknowledgedBehindTheTimeLeftOutIsThereToStay) {
  const Value one = written();
  history.leave_out(0, history.begin_read());
  (void)written();
  read(one);
  EXPECT_FALSE(linearizable());
}

TEST_F(HistoryJudge, AnotherVolumeIsJudgedMeanwhile) {
  const Moment since = history.begin_read();
  const Value one = written();
  (void)written();
  read(one);
  history.leave_out(1, since);
  EXPECT_FALSE(linearizable());
}

}  // namespace
}  // namespace lockstep::simulation
