// The key in a replica's superblock: kept, replaced, with power cuts at every step, and beside a volume that grows.
#include "tests/unit/engine/metadata_fixture.hpp"

namespace lockstep::engine {
namespace {

SealedKey sealed(int seed) {
  SealedKey key{numbered(9), {}};
  for (std::size_t i = 0; i < key.bytes.size(); ++i) key.bytes[i] = static_cast<std::byte>(i * 5 + std::size_t(seed));
  return key;
}

struct MetadataKey : MetadataTest {
  std::optional<std::error_code> written, grown;
  MetadataKey() { identity.key = sealed(1); }
  void write_key(int seed) {
    area->write_key(sealed(seed), [this](std::error_code e) { written = e; });
  }
  [[nodiscard]] bool kept_on_disk(int seed) {
    const auto key = sealed(seed);
    const auto bytes = store.bytes();
    return std::search(bytes.begin(), bytes.end(), key.bytes.begin(), key.bytes.end()) != bytes.end();
  }
};

TEST_F(MetadataKey, IsReadBackAndMakesVersionThree) {
  format();
  EXPECT_EQ(block(0)[13], std::byte{3});
  open();
  ASSERT_TRUE(area) << message();
  EXPECT_EQ(area->identity().key, sealed(1));
}

TEST_F(MetadataKey, WithoutOneTheAreaIsWhatItAlwaysWas) {
  identity.key.reset();
  format();
  EXPECT_EQ(block(0)[13], std::byte{1});
  open();
  ASSERT_TRUE(area) << message();
  EXPECT_FALSE(area->identity().key);
  area->write_key(sealed(2), [this](std::error_code e) { written = e; });
  EXPECT_EQ(written, make_error_code(Errc::refused));
}

TEST_F(MetadataKey, AnotherOneLeavesNothingOfTheFirst) {
  format();
  ASSERT_TRUE(kept_on_disk(1));
  write_key(2);
  store.run();
  EXPECT_EQ(written, std::error_code{});
  EXPECT_FALSE(kept_on_disk(1));
  EXPECT_EQ(area->identity().key, sealed(2));
  open();
  EXPECT_EQ(area->identity().key, sealed(2));
}

TEST_F(MetadataKey, APowerCutLeavesTheOldOrTheNew) {
  for (std::size_t steps = 0; steps <= 2; ++steps) {
    for (const std::size_t torn : {0, 1, 3}) {
      format();
      write_key(2);
      for (std::size_t i = 0; i < steps; ++i) store.step();
      store.cut_power(torn);
      open();
      ASSERT_TRUE(area) << message();
      const bool is_new = area->identity().key == sealed(2);
      EXPECT_TRUE(is_new || area->identity().key == sealed(1));
      EXPECT_TRUE(is_new || steps == 0) << "the first superblock has it";
      EXPECT_NE(kept_on_disk(1), is_new) << "and the other superblock was made the same";
    }
  }
}

TEST_F(MetadataKey, AnErrorEndsItAndNoFurtherOneIsTaken) {
  format();
  store.fail = [](char kind, Extent extent) { return kind == 'w' && extent.offset == layout::kBlock; };
  write_key(2);
  store.run();
  EXPECT_EQ(written, make_error_code(Errc::io_error));
  EXPECT_EQ(area->identity().key, sealed(1));
  store.fail = [](char, Extent) { return false; };
  write_key(3);
  EXPECT_EQ(written, make_error_code(Errc::io_error));
  open();
  EXPECT_EQ(area->identity().key, sealed(2)) << "what was written first counts";
}

TEST_F(MetadataKey, AGrowAndAnotherKeyWaitForOneAnother) {
  for (const std::uint64_t size : {5 * kGiB + 65536, 40 * kGiB}) {
    for (const bool grows_first : {true, false}) {
      FaultStore roomy{MetadataArea::size_with_state(80 * kGiB, 65536)};
      MetadataArea::format(roomy, identity, sample_epoch(), InitialMap::clean, [this](auto r) { take(std::move(r)); });
      roomy.run();
      ASSERT_TRUE(area) << message();
      const auto grow = [&] { area->grow(size, [this](std::error_code e) { grown = e; }); };
      written.reset(), grown.reset();
      if (grows_first) grow();
      write_key(4);
      if (!grows_first) grow();
      roomy.run();
      EXPECT_EQ(written, std::error_code{});
      EXPECT_EQ(grown, std::error_code{});
      MetadataArea::open(roomy, identity.volume, identity.owner, [this](auto r) { take(std::move(r)); });
      roomy.run();
      ASSERT_TRUE(area) << message();
      EXPECT_EQ(area->identity().size, size);
      EXPECT_EQ(area->identity().key, sealed(4));
      area.reset();
    }
  }
}

TEST_F(MetadataKey, BytesOfAKeyInAnOlderVersionAreRefused) {
  format();
  reseal(0);  // as version 1
  open();
  ASSERT_FALSE(area);
  EXPECT_NE(message().find("make no sense"), std::string::npos) << message();
}

}  // namespace
}  // namespace lockstep::engine
