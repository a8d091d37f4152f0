#pragma once
// One replica's metadata on a FaultStore.
#include <memory>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "engine/metadata/layout.hpp"
#include "engine/metadata/metadata_area.hpp"
#include "tests/unit/engine/fault_store.hpp"

namespace lockstep::engine {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

inline Uuid numbered(std::uint8_t n) {
  Uuid id;
  for (std::size_t i = 0; i < 16; ++i) id.bytes[i] = static_cast<std::uint8_t>(n * 16 + i);
  return id;
}

inline VolumeIdentity sample_identity() {
  VolumeIdentity v;
  v.pair = numbered(1);
  v.volume = numbered(2);
  v.owner = NodeSide::b;
  v.name = "vm1";
  v.serial = "LS0001";
  v.size = 5 * kGiB;
  return v;
}

inline EpochRecord sample_epoch(std::uint64_t number = 1) {
  EpochRecord e;
  e.number = number;
  e.id = numbered(static_cast<std::uint8_t>(2 + number));
  if (number > 1) e.ancestors.push_back(numbered(static_cast<std::uint8_t>(1 + number)));
  e.members = MemberSet::both();
  e.sequencer = NodeSide::a;
  e.size = 5 * kGiB;
  e.arbiter = {ArbiterKind::witness, NodeSide::a, "http://127.0.0.10:2379"};
  return e;
}

struct MetadataTest : testing::Test {
  VolumeIdentity identity = sample_identity();
  FaultStore store{MetadataArea::required_size(5 * kGiB, 65536)};
  std::unique_ptr<MetadataArea> area;
  std::optional<Error> error;

  void format(InitialMap map = InitialMap::clean) {
    MetadataArea::format(store, identity, sample_epoch(), map, [this](auto result) { take(std::move(result)); });
    store.run();
  }
  void start_open() {
    area.reset();
    error.reset();
    MetadataArea::open(store, identity.volume, identity.owner, [this](auto result) { take(std::move(result)); });
  }
  void open() {
    start_open();
    store.run();
  }
  void take(Result<std::unique_ptr<MetadataArea>> result) {
    if (result) {
      area = std::move(*result);
    } else {
      error = result.error();
    }
  }
  [[nodiscard]] std::string message() const { return error ? error->message : "(no error)"; }
  [[nodiscard]] layout::Block block(std::size_t n) {
    return layout::Block(store.bytes().data() + n * layout::kBlock, layout::kBlock);
  }
  /// Makes a changed block's checksum right again: a whole block that says something else.
  void reseal(std::size_t n) {
    const auto b = block(n);
    layout::Header h;
    std::memcpy(&h, b.data(), sizeof h);
    const auto kind = n < 2 ? layout::Kind::superblock : n < 4 ? layout::Kind::epoch : layout::Kind::map;
    layout::seal(b, kind, {{h.pair}, {h.volume}, {h.area}, NodeSide{h.owner}}, h.index, h.generation);
    store.keep_spoiled();
  }
  static Extent region(std::uint64_t n, std::uint64_t count = 1) { return {n * 65536, count * 65536}; }
};

/// On a store with room for the state of the unit, that may be killed or lose power.
struct RoomyMetadataTest : MetadataTest {
  FaultStore roomy{MetadataArea::size_with_state(5 * kGiB, 65536)};

  void format_roomy() {
    MetadataArea::format(roomy, identity, sample_epoch(), InitialMap::clean,
                         [this](auto result) { take(std::move(result)); });
    roomy.run();
    ASSERT_TRUE(area) << message();
  }
  void open_roomy() {
    area.reset();
    error.reset();
    MetadataArea::open(roomy, identity.volume, identity.owner, [this](auto result) { take(std::move(result)); });
    roomy.run();
  }
};

}  // namespace lockstep::engine
