// What a process left in the machine's cache when it was killed is read by the next one: it is made durable before
// anything of it counts.
#include "tests/unit/engine/metadata_fixture.hpp"

namespace lockstep::engine {
namespace {

struct Visible : RoomyMetadataTest {};

TEST_F(Visible, ABitThatWasReadSurvivesAPowerCut) {
  format_roomy();
  area->set_dirty(region(7), [](std::error_code) {});
  roomy.die();
  open_roomy();
  ASSERT_TRUE(area) << message();
  ASSERT_TRUE(area->is_durably_dirty(region(7)));
  roomy.cut_power();
  open_roomy();
  ASSERT_TRUE(area) << message();
  EXPECT_TRUE(area->is_dirty(7));
}

TEST_F(Visible, AnEpochThatWasReadSurvivesAPowerCut) {
  format_roomy();
  area->write_epoch(sample_epoch(2), [](std::error_code) {});
  roomy.die();
  open_roomy();
  ASSERT_TRUE(area) << message();
  ASSERT_EQ(area->epoch(), sample_epoch(2));
  roomy.cut_power();
  open_roomy();
  ASSERT_TRUE(area) << message();
  EXPECT_EQ(area->epoch(), sample_epoch(2));
}

TEST_F(Visible, AStateThatWasReadSurvivesAPowerCut) {
  format_roomy();
  area->write_state(std::vector(100, std::byte{7}), [](std::error_code) {});
  roomy.die();
  open_roomy();
  ASSERT_TRUE(area) << message();
  ASSERT_EQ(area->state().size(), 100u);
  roomy.cut_power();
  open_roomy();
  ASSERT_TRUE(area) << message();
  EXPECT_EQ(area->state().size(), 100u);
}

TEST_F(Visible, ASizeThatWasReadSurvivesAPowerCut) {
  format_roomy();
  area->grow(5 * kGiB + 65536, [](std::error_code) {});
  roomy.step();  // the flush before the superblocks
  roomy.die();
  open_roomy();
  ASSERT_TRUE(area) << message();
  ASSERT_EQ(area->identity().size, 5 * kGiB + 65536);
  roomy.cut_power();
  open_roomy();
  ASSERT_TRUE(area) << message();
  EXPECT_EQ(area->identity().size, 5 * kGiB + 65536);
}

TEST_F(Visible, ASlotIsPutBackOnlyWhenTheOtherIsOnTheDisk) {
  for (const std::size_t torn : {0u, 1u, 4u, 8u}) {
    format_roomy();
    area->write_epoch(sample_epoch(2), [](std::error_code) {});
    roomy.die();
    roomy.bytes()[3 * layout::kBlock + 200] ^= std::byte{1};  // the other slot is damaged
    area.reset();
    MetadataArea::open(roomy, identity.volume, identity.owner, [this](auto result) { take(std::move(result)); });
    const int writes = roomy.counts.writes;
    while (roomy.waiting() > 0 && roomy.counts.writes == writes) roomy.step();
    roomy.cut_power(torn);
    open_roomy();
    ASSERT_TRUE(area) << message();
    EXPECT_EQ(area->epoch(), sample_epoch(2)) << torn;
  }
}

TEST_F(Visible, AFailedFlushRefusesTheAreaByName) {
  format_roomy();
  roomy.fail = [](char kind, Extent) { return kind == 'f'; };
  open_roomy();
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, Errc::io_error);
  EXPECT_NE(message().find("/test/store"), std::string::npos) << message();
  EXPECT_NE(message().find("can't be made durable"), std::string::npos) << message();
}

}  // namespace
}  // namespace lockstep::engine
