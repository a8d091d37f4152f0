// Superblock and epoch record: what counts, what is refused, and that no crash loses both slots.
#include "engine/base/crc32c.hpp"
#include "tests/unit/engine/metadata_fixture.hpp"

namespace lockstep::engine {
namespace {

using testing::Test;
using Slots = MetadataTest;

void change(layout::Block block, std::size_t at, int flip = 0x5A) { block[at] ^= static_cast<std::byte>(flip); }
void fix_checksum(layout::Block block) { store_be<std::uint32_t>(block.data(), crc32c(block.subspan(4))); }

/// Byte offsets within a slot (format.md).
constexpr std::size_t kVersionAt = 12, kLengthAt = 14, kPairAt = 32, kVolumeAt = 48, kAreaAt = 64, kOwnerAt = 80;
constexpr std::size_t kReservedAt = 81, kPayloadAt = 96;

TEST_F(Slots, ReadsBackWhatWasLaidOut) {
  format();
  ASSERT_TRUE(area) << message();
  open();
  ASSERT_TRUE(area) << message();
  EXPECT_EQ(area->identity(), identity);
  EXPECT_EQ(area->epoch(), sample_epoch());
  EXPECT_EQ(area->region_count(), 81920u);
  EXPECT_EQ(area->dirty_count(), 0u);
}

TEST_F(Slots, ReadsBackTheLargestRecord) {
  identity.name = std::string(63, 'n');
  identity.serial = std::string(32, 's');
  format();
  EpochRecord full = sample_epoch(2);
  full.ancestors.assign(EpochRecord::kMaxAncestors, numbered(3));
  full.arbiter.address = std::string(255, 'a');
  area->write_epoch(full, [](std::error_code e) { EXPECT_FALSE(e); });
  store.run();
  open();
  ASSERT_TRUE(area) << message();
  EXPECT_EQ(area->identity(), identity);
  EXPECT_EQ(area->epoch(), full);
}

TEST_F(Slots, RefusesToLayOutWhatCannotBe) {
  const auto refused = [&](auto spoil) {
    identity = sample_identity();
    EpochRecord epoch = sample_epoch();
    spoil(identity, epoch);
    error.reset();
    MetadataArea::format(store, identity, epoch, InitialMap::clean, [this](auto r) { take(std::move(r)); });
    store.run();
    return error && !error->message.empty();
  };
  EXPECT_TRUE(refused([](auto& v, auto&) { v.size = 0; }));
  EXPECT_TRUE(refused([](auto& v, auto&) { v.size = (std::uint64_t{64} << 40) + 512; }));
  EXPECT_TRUE(refused([](auto& v, auto&) { v.size = 1000; }));
  EXPECT_TRUE(refused([](auto& v, auto&) { v.size *= 2; })) << "the store is too small";
  EXPECT_TRUE(refused([](auto& v, auto&) { v.block_size = 1024; }));
  EXPECT_TRUE(refused([](auto& v, auto&) { v.region_size = 0; }));
  EXPECT_TRUE(refused([](auto& v, auto&) { v.region_size = 65537; }));
  EXPECT_TRUE(refused([](auto& v, auto&) { v.name = std::string(64, 'x'); }));
  EXPECT_TRUE(refused([](auto& v, auto&) { v.serial = std::string(33, 'x'); }));
  EXPECT_TRUE(refused([](auto&, auto& e) { e.members = {0}; }));
  EXPECT_TRUE(refused([](auto&, auto& e) { e.members = MemberSet::only(NodeSide::b); })) << "sequencer not a member";
  EXPECT_TRUE(refused([](auto&, auto& e) { e.id = {}; }));
  EXPECT_TRUE(refused([](auto&, auto& e) { e.number = 0; }));
  EXPECT_TRUE(refused([](auto&, auto& e) { e.arbiter.address = std::string(256, 'x'); }));
  EXPECT_TRUE(refused([](auto&, auto& e) { e.ancestors.resize(129); }));
  EXPECT_EQ(store.counts.writes, 0);
}

TEST_F(Slots, AnySingleDamagedByteGivesWayToTheOtherSlotWhichIsThenPutBack) {
  format();
  const std::vector<std::byte> good(store.bytes().begin(), store.bytes().end());
  for (std::size_t slot = 0; slot < 4; ++slot) {
    for (std::size_t at = 0; at < layout::kBlock; ++at) {
      change(block(slot), at);
      open();
      ASSERT_TRUE(area) << "slot " << slot << " byte " << at << ": " << message();
      ASSERT_EQ(area->identity(), identity);
      ASSERT_EQ(area->epoch(), sample_epoch());
      ASSERT_TRUE(std::ranges::equal(store.bytes(), good)) << "slot " << slot << " byte " << at;
    }
  }
}

TEST_F(Slots, WithBothSlotsDamagedItIsRefusedAndBothAreNamed) {
  format();
  for (const std::size_t first : {std::size_t{0}, std::size_t{2}}) {
    change(block(first), 100), change(block(first + 1), 4095);
    open();
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code, Errc::corrupt);
    EXPECT_NE(message().find(first == 0 ? "superblock" : "epoch record"), std::string::npos) << message();
    EXPECT_NE(message().find("slot 0 is torn"), std::string::npos) << message();
    EXPECT_NE(message().find("slot 1 is torn"), std::string::npos) << message();
    EXPECT_NE(message().find("/test/store"), std::string::npos) << message();
    change(block(first), 100), change(block(first + 1), 4095);
  }
}

TEST_F(Slots, AnEmptyStoreIsRefusedAsBlank) {
  open();
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, Errc::corrupt);
  EXPECT_NE(message().find("is blank"), std::string::npos) << message();
}

TEST_F(Slots, ASlotThatCannotBeReadIsAsGoodAsADamagedOne) {
  format();
  store.fail = [](char kind, Extent e) { return kind == 'r' && (e.offset == 0 || e.offset == 3 * 4096); };
  open();
  ASSERT_TRUE(area) << message();
  EXPECT_EQ(area->epoch(), sample_epoch());
}

TEST_F(Slots, ADamagedSlotThatCannotBePutBackIsAnError) {
  format();
  change(block(1), 50);
  store.fail = [](char kind, Extent) { return kind == 'w'; };
  open();
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, Errc::io_error);
}

struct WholeButWrong {
  const char* name;
  std::size_t at;
  Errc code;
  const char* words;
};

class WrongSlot : public MetadataTest, public testing::WithParamInterface<WholeButWrong> {};

TEST_P(WrongSlot, IsRefusedByNameEvenBesideAGoodOne) {
  format();
  for (std::size_t slot = 0; slot < 4; ++slot) {
    if (GetParam().at == kAreaAt && slot < 2) continue;  // what the superblock says is the area
    change(block(slot), GetParam().at, 0x01);
    fix_checksum(block(slot));
    open();
    ASSERT_TRUE(error) << "slot " << slot;
    EXPECT_EQ(error->code, GetParam().code) << message();
    EXPECT_NE(message().find(GetParam().words), std::string::npos) << message();
    change(block(slot), GetParam().at, 0x01);
    fix_checksum(block(slot));
  }
}

INSTANTIATE_TEST_SUITE_P(Slots, WrongSlot,
                         testing::Values(WholeButWrong{"Magic", 5, Errc::corrupt, "is not Lockstep metadata"},
                                         WholeButWrong{"Version", kVersionAt + 1, Errc::wrong_version,
                                                       "format version 0"},
                                         WholeButWrong{"Length", kLengthAt, Errc::corrupt, "wrong length"},
                                         WholeButWrong{"Volume", kVolumeAt, Errc::foreign, "belongs to volume"},
                                         WholeButWrong{"Owner", kOwnerAt, Errc::foreign, "belongs to node A's replica"},
                                         WholeButWrong{"Area", kAreaAt, Errc::stale, "left over from an earlier"},
                                         WholeButWrong{"Reserved", kReservedAt + 7, Errc::corrupt, "makes no sense"},
                                         WholeButWrong{"ReservedPayload", 4095, Errc::corrupt, "make no sense"}),
                         [](const auto& p) { return std::string(p.param.name); });

TEST_F(Slots, AnEpochRecordOfAnotherPairIsForeign) {
  format();
  change(block(2), kPairAt);
  fix_checksum(block(2));
  open();
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, Errc::foreign);
  EXPECT_NE(message().find("belongs to pair"), std::string::npos) << message();
}

TEST_F(Slots, SwappedSlotsAreMisplaced) {
  format();
  std::ranges::swap_ranges(block(2), block(3));
  open();
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, Errc::corrupt);
  EXPECT_NE(message().find("epoch record slot 0 is misplaced"), std::string::npos) << message();
}

TEST_F(Slots, ASuperblockInTheEpochsPlaceIsAnotherKind) {
  format();
  std::ranges::copy(block(0), block(2).begin());
  open();
  ASSERT_TRUE(error);
  EXPECT_NE(message().find("another kind"), std::string::npos) << message();
}

TEST_F(Slots, AnotherVolumesAreaIsForeign) {
  format();
  MetadataArea::open(store, numbered(9), identity.owner, [this](auto r) { take(std::move(r)); });
  store.run();
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, Errc::foreign);
  EXPECT_NE(message().find(numbered(2).to_string()), std::string::npos) << message();
}

TEST_F(Slots, WholeBlocksWithAnyByteChangedNeverBringItDown) {
  format();
  const std::vector<std::byte> good(store.bytes().begin(), store.bytes().end());
  for (std::size_t slot = 0; slot < 5; ++slot) {
    for (std::size_t at = 4; at < layout::kBlock; at += slot == 4 ? 7 : 1) {
      change(block(slot), at, 0xFF);
      fix_checksum(block(slot));
      open();
      ASSERT_TRUE(area || error);
      if (area) {
        EXPECT_EQ(area->identity(), identity) << "slot " << slot << " byte " << at;
      }
      std::ranges::copy(good, store.bytes().begin());
    }
  }
}

TEST_F(Slots, ASuperblockThatClaimsAHugeVolumeIsCutShort) {
  format();
  for (std::size_t slot = 0; slot < 2; ++slot) {
    VolumeIdentity huge = identity;
    huge.size = std::uint64_t{64} << 40;
    layout::encode(block(slot), huge);
    reseal(slot);
  }
  open();
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, Errc::corrupt);
  EXPECT_NE(message().find("cut short"), std::string::npos) << message();
}

TEST_F(Slots, AStoreTooSmallForAnythingIsRefused) {
  FaultStore tiny(4096);
  MetadataArea::open(tiny, identity.volume, identity.owner, [this](auto r) { take(std::move(r)); });
  ASSERT_TRUE(error);
  EXPECT_NE(message().find("too small"), std::string::npos);
}

struct EpochSlots : MetadataTest {
  void put(std::size_t slot, const EpochRecord& epoch, std::uint64_t generation) {
    const auto b = block(2 + slot);
    std::ranges::fill(b, std::byte{0});
    layout::encode(b, {epoch, {}});
    layout::seal(b, layout::Kind::epoch, {identity.pair, identity.volume, sample_epoch().id, identity.owner}, slot,
                 generation);
    store.keep_spoiled();
  }
};

TEST_F(EpochSlots, OfTwoGoodOnesTheHigherNumberCounts) {
  format();
  for (const std::size_t higher : {std::size_t{0}, std::size_t{1}}) {
    put(higher, sample_epoch(5), 4);
    put(1 - higher, sample_epoch(4), 9);
    open();
    ASSERT_TRUE(area) << message();
    EXPECT_EQ(area->epoch(), sample_epoch(5));
    put(higher, sample_epoch(1), 1);  // the other was rewritten: it carries the record now
    std::ranges::fill(block(2 + higher), std::byte{0});
    open();
    ASSERT_TRUE(area) << message();
    EXPECT_EQ(area->epoch(), sample_epoch(5));
  }
}

TEST_F(EpochSlots, TheSameNumberWithAnotherIdIsCorrupt) {
  format();
  EpochRecord other = sample_epoch(5);
  other.id = numbered(14);
  put(0, sample_epoch(5), 4);
  put(1, other, 5);
  open();
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, Errc::corrupt);
  EXPECT_NE(message().find("contradict"), std::string::npos) << message();
}

TEST_F(EpochSlots, TheSameAgreementWrittenTwiceCountsAsWrittenLast) {
  format();
  EpochRecord changed = sample_epoch(5);
  changed.arbiter.kind = ArbiterKind::preferred;
  put(0, sample_epoch(5), 4);
  put(1, changed, 5);
  open();
  ASSERT_TRUE(area) << message();
  EXPECT_EQ(area->epoch(), changed);
}

TEST_F(EpochSlots, ANewRecordIsInBothSlotsOneAfterTheOther) {
  format();
  bool done = false;
  store.reset_max();
  store.counts = {};
  area->write_epoch(sample_epoch(2), [&](std::error_code e) { done = !e; });
  EXPECT_EQ(store.waiting(), 1u);
  store.step();
  EXPECT_FALSE(done);
  EXPECT_EQ(area->epoch(), sample_epoch(1)) << "not before both slots have it";
  store.step();
  EXPECT_TRUE(done);
  EXPECT_EQ(area->epoch(), sample_epoch(2));
  EXPECT_EQ(store.counts.durable_writes, 2);
  EXPECT_EQ(store.max_writes_in_flight(), 1);
}

TEST_F(EpochSlots, NumbersNeverGoBack) {
  format();
  const auto write = [&](const EpochRecord& e) {
    std::error_code out = Errc::timed_out;
    area->write_epoch(e, [&](std::error_code error_code) { out = error_code; });
    store.run();
    return out;
  };
  EXPECT_FALSE(write(sample_epoch(3)));
  EXPECT_EQ(write(sample_epoch(2)), Errc::refused);
  EpochRecord other = sample_epoch(3);
  other.id = numbered(14);
  EXPECT_EQ(write(other), Errc::refused);
  EXPECT_FALSE(write(sample_epoch(3))) << "the same once more is fine";
  EXPECT_EQ(area->epoch(), sample_epoch(3));
}

TEST_F(EpochSlots, ASecondRecordWhileOneIsBeingWrittenIsTurnedAway) {
  format();
  std::error_code second;
  area->write_epoch(sample_epoch(2), [](std::error_code e) { EXPECT_FALSE(e); });
  area->write_epoch(sample_epoch(3), [&](std::error_code e) { second = e; });
  EXPECT_EQ(second, Errc::resource_exhausted);
  store.run();
  EXPECT_EQ(area->epoch(), sample_epoch(2));
}

TEST_F(EpochSlots, AfterAFailedWriteTheOldEpochStandsAndOnlyReopeningHelps) {
  for (const std::uint64_t failing : {2, 3}) {
    store.fail = [](char, Extent) { return false; };
    format();
    store.fail = [&](char kind, Extent e) { return kind == 'w' && e.offset == failing * 4096; };
    std::error_code result;
    area->write_epoch(sample_epoch(2), [&](std::error_code e) { result = e; });
    store.run();
    EXPECT_EQ(result, Errc::io_error);
    EXPECT_EQ(area->epoch(), sample_epoch(1));
    store.fail = [](char, Extent) { return false; };
    area->write_epoch(sample_epoch(2), [&](std::error_code e) { result = e; });
    EXPECT_EQ(result, Errc::io_error);
    open();
    ASSERT_TRUE(area) << message();
    EXPECT_EQ(area->epoch(), sample_epoch(failing == 2 ? 1 : 2));
    area->write_epoch(sample_epoch(3), [&](std::error_code e) { result = e; });
    store.run();
    EXPECT_FALSE(result);
  }
}

TEST_F(EpochSlots, PowerCutAtAnyPointOfAnEpochWriteLeavesTheOldOrTheNewRecord) {
  for (std::size_t steps = 0; steps <= 2; ++steps) {
    for (std::size_t torn = 0; torn <= 8; ++torn) {
      format();
      bool acknowledged = false;
      area->write_epoch(sample_epoch(2), [&](std::error_code e) { acknowledged = !e; });
      for (std::size_t i = 0; i < steps; ++i) store.step();
      store.cut_power(torn);
      open();
      ASSERT_TRUE(area) << steps << " steps, " << torn << " sectors: " << message();
      const bool is_new = area->epoch() == sample_epoch(2);
      EXPECT_TRUE(is_new || area->epoch() == sample_epoch(1));
      EXPECT_TRUE(is_new || !acknowledged);
      if (steps > 0) {
        EXPECT_TRUE(is_new) << "one whole slot suffices";
      }
    }
  }
}

TEST_F(Slots, PowerCutAtAnyPointOfALayoutLeavesNoHalfArea) {
  format(InitialMap::all_dirty);
  const std::vector<std::byte> old(store.bytes().begin(), store.bytes().end());
  for (std::size_t steps = 0;; ++steps) {
    for (const std::size_t torn : {std::size_t{0}, std::size_t{3}, std::size_t{8}}) {
      std::ranges::copy(old, store.bytes().begin());
      store.keep_spoiled();
      area.reset();
      MetadataArea::format(store, identity, sample_epoch(7), InitialMap::clean, [this](auto r) { take(std::move(r)); });
      for (std::size_t i = 0; i < steps && store.waiting() > 0; ++i) store.step();
      const bool finished = area != nullptr;
      store.cut_power(torn);
      open();
      if (area && area->epoch() == sample_epoch(7)) {
        EXPECT_EQ(area->dirty_count(), 0u);
      } else if (area) {
        EXPECT_EQ(steps, 0u) << "the old area, whole";
        EXPECT_EQ(area->dirty_count(), area->region_count());
      } else {
        EXPECT_FALSE(finished);
        EXPECT_EQ(error->code, Errc::corrupt) << message();
      }
      if (finished) {
        ASSERT_TRUE(area && area->epoch() == sample_epoch(7));
        if (torn == 8) return;
      }
    }
  }
}

TEST_F(Slots, EveryFailingStepOfALayoutIsReported) {
  for (int failing = 0; failing < 7; ++failing) {
    int step = 0;
    store.fail = [&](char, Extent) { return step++ == failing; };
    area.reset();
    error.reset();
    format();
    ASSERT_TRUE(error) << "step " << failing;
    EXPECT_EQ(error->code, Errc::io_error);
    EXPECT_NE(message().find("/test/store"), std::string::npos);
  }
}

TEST(MetadataSize, GrowsByABlockForEach32000Regions) {
  constexpr std::uint64_t kBase = 4 * 4096;
  EXPECT_EQ(MetadataArea::required_size(512, 65536), kBase + 4096);
  EXPECT_EQ(MetadataArea::required_size(std::uint64_t{32000} * 65536, 65536), kBase + 4096);
  EXPECT_EQ(MetadataArea::required_size(std::uint64_t{32000} * 65536 + 512, 65536), kBase + 8192);
}

TEST(MetadataSize, OfTheLargestVolumeIs132MiB) {
  EXPECT_EQ(MetadataArea::required_size(std::uint64_t{64} << 40, 65536), 16384u + std::uint64_t{33555} * 4096);
}

TEST(MetadataSize, OfVolumesThatCannotBeIsUnreachable) {
  constexpr auto kNever = ~std::uint64_t{0};
  EXPECT_EQ(MetadataArea::required_size(0, 65536), kNever);
  EXPECT_EQ(MetadataArea::required_size(kNever, 65536), kNever);
  EXPECT_EQ(MetadataArea::required_size((std::uint64_t{64} << 40) + 1, 65536), kNever);
  EXPECT_EQ(MetadataArea::required_size(kGiB, 0), kNever);
  EXPECT_EQ(MetadataArea::required_size(kGiB, 512), kNever);
  EXPECT_EQ(MetadataArea::required_size(kGiB, 65535), kNever);
  EXPECT_EQ(MetadataArea::required_size(kGiB, 0x80000000u), kNever);
}

}  // namespace
}  // namespace lockstep::engine
