// What a measurement of a path sends, and what it makes of the answers.
#include "replication/link/path_measurement.hpp"

#include "tests/unit/replication/paths_ends.hpp"

namespace lockstep::replication {
namespace {

using namespace std::chrono_literals;
using namespace test;

struct Measuring : WayOut {
  void SetUp() override {
    start_and_join(1);
    pass(1100ms);
    path().answer_proof();  // what the link sends by itself is a measurement, too
    measurement = std::make_unique<PathMeasurement>(clock, *link, slot(0),
                                                    [this](const PathMeasured& found) { measured = found; });
    clock.advance(0ms);
  }
  [[nodiscard]] Path& path() { return *paths[0]; }
  void answer_one_after(engine::Duration time) {
    clock.advance(time);
    while (path().sent.front().frame().kind == FrameKind::probe)
      path().answer_first(AnswerFrame{AnswerKind::alive, {}});
    path().answer_first(AnswerFrame{AnswerKind::alive, {}});
  }
  /// One after the other, until the time of it is over.
  void answer_all_after(std::initializer_list<engine::Duration> round_trips) {
    for (const engine::Duration time : round_trips) {
      EXPECT_EQ(path().count(FrameKind::measure), 1u);
      answer_one_after(time);
    }
  }
  /// Some at once: as many as are under way, each so much after the one before it.
  void answer_what_is_under_way(std::size_t expected, engine::Duration each) {
    EXPECT_EQ(path().count(FrameKind::measure), expected);
    clock.advance(PathMeasurement::kEach);
    for (std::size_t i = 0; i < expected; ++i) answer_one_after(each);
  }
  std::unique_ptr<PathMeasurement> measurement;
  std::optional<PathMeasured> measured;
};

TEST_F(Measuring, TellsTheLeastTheMedianAndTheWorstOfRoundTripsAndTheRateOfSomeAtOnce) {
  answer_all_after({30ms, 10ms, 20ms, 50ms, 140ms});
  answer_what_is_under_way(16, 0ms);
  answer_all_after({60ms, 90ms, 70ms, 80ms});
  answer_what_is_under_way(16, 0ms);
  answer_all_after({300ms});
  answer_what_is_under_way(16, 0ms);
  answer_all_after({250ms});
  answer_what_is_under_way(2, 0ms);
  ASSERT_TRUE(measured);
  EXPECT_TRUE(measured->whole);
  ASSERT_EQ(measured->sizes.size(), kMeasuredSizes.size());
  const SizeMeasured& small = measured->sizes[0];
  EXPECT_EQ(small.bytes, 64u);
  EXPECT_EQ(small.round_trips, 5u);
  EXPECT_EQ(small.least, 10ms);
  EXPECT_EQ(small.median, 30ms);
  EXPECT_EQ(small.p99, 50ms);
  EXPECT_EQ(small.bytes_a_second, 16u * 64 * 4);
  EXPECT_EQ(measured->sizes[1].round_trips, 4u);
  EXPECT_EQ(measured->sizes[1].least, 60ms) << "each size has its own";
  EXPECT_EQ(measured->sizes[3].bytes_a_second, 2u * kMaxLinkPayload * 4);
}

TEST_F(Measuring, OfAPathThatIsLostIsNotWhole) {
  answer_all_after({10ms});
  lose(0);
  ASSERT_TRUE(measured);
  EXPECT_FALSE(measured->whole);
}

}  // namespace
}  // namespace lockstep::replication
