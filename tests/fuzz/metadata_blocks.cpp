// A metadata area with any bytes in its blocks: refused by name, or opened to something that makes sense, that can be
// worked with, and that opens to the same again. Blocks are sealed anew where the input says so, since nothing behind
// the checksum would be reached without.
#include <algorithm>
#include <cassert>
#include <cstring>
#include <memory>
#include <optional>

#include "engine/base/crc32c.hpp"
#include "engine/metadata/layout.hpp"
#include "engine/metadata/metadata_area.hpp"
#include "tests/fuzz/input.hpp"
#include "tests/unit/engine/fault_store.hpp"

namespace {

using namespace lockstep::engine;
using lockstep::fuzz::Input;

Uuid numbered(std::uint8_t n) {
  Uuid id;
  id.bytes[0] = n;
  return id;
}

constexpr std::uint64_t kVolume = std::uint64_t{256} << 20;
constexpr std::uint32_t kRegion = 4096;  // 65536 regions: three map blocks

VolumeIdentity identity() {
  VolumeIdentity v;
  v.pair = numbered(1);
  v.volume = numbered(2);
  v.name = "vm1";
  v.serial = "LS0001";
  v.size = kVolume;
  v.region_size = kRegion;
  return v;
}

EpochRecord epoch(std::uint64_t number) {
  EpochRecord e;
  e.number = number;
  e.id = numbered(static_cast<std::uint8_t>(10 + number));
  e.members = MemberSet::both();
  e.size = kVolume;
  e.arbiter = {ArbiterKind::witness, NodeSide::a, "http://127.0.0.10:2379"};
  return e;
}

Knowledge knowledge() {
  Knowledge k;
  k.generation = 3;
  k.witness_cluster = 1;
  k.witness_revision = 7;
  k.record_members = MemberSet::only(NodeSide::b);
  k.record_number = 2;
  return k;
}

using Area = std::unique_ptr<MetadataArea>;

Area take(Result<Area> result, std::string* why = nullptr) {
  if (result) return *std::move(result);
  assert(!result.error().message.empty());
  if (why != nullptr) *why = result.error().message;
  return nullptr;
}

Area open(FaultStore& store) {
  Area area;
  bool told = false;
  MetadataArea::open(store, numbered(2), NodeSide::a, [&](auto result) {
    assert(!told);
    told = true;
    area = take(std::move(result));
  });
  store.run();
  assert(told);
  return area;
}

void reseal(layout::Block block) {
  const std::uint32_t crc = lockstep::engine::crc32c(block.subspan(4));
  for (int i = 0; i < 4; ++i) block[static_cast<std::size_t>(i)] = static_cast<std::byte>(crc >> (24 - 8 * i));
}

// Patches of {block and whether it is sealed, offset (2), length, bytes}.
void spoil(Input& input, FaultStore& store) {
  const std::size_t blocks = store.bytes().size() / layout::kBlock;
  for (int n = input.u8() % 16; n > 0; --n) {
    const std::uint8_t where = input.u8();
    const layout::Block block(store.bytes().data() + (where & 0x7F) % blocks * layout::kBlock, layout::kBlock);
    const std::size_t offset = input.u16() % layout::kBlock;
    const auto bytes = input.bytes(std::min<std::size_t>(input.u8(), layout::kBlock - offset));
    if (!bytes.empty()) std::memcpy(block.data() + offset, bytes.data(), bytes.size());
    if (where & 0x80) reseal(block);
  }
  store.keep_spoiled();
}

void check_sense(const MetadataArea& area) {
  assert(area.identity().volume == numbered(2) && area.identity().owner == NodeSide::a);
  assert(layout::check(area.identity()) && layout::check(area.epoch()) && layout::check(area.knowledge()));
  assert(area.region_count() == layout::region_count(area.identity().size, area.identity().region_size));
  std::uint64_t dirty = 0;
  for (auto at = area.next_dirty(0); at; at = area.next_dirty(*at + 1)) {
    assert(*at < area.region_count() && area.is_dirty(*at));
    if (++dirty > 200000) return;
  }
  assert(dirty == area.dirty_count());
}

void work(Input& input, FaultStore& store, MetadataArea& area) {
  const std::uint64_t size = area.identity().size;
  for (int n = 0; n < 16 && !input.empty(); ++n) {
    const std::uint8_t what = input.u8();
    switch (what % 4) {
      case 0:
      case 1: {
        const std::uint64_t offset = std::uint64_t{input.u32()} * 512 % size;
        const std::uint64_t length = std::min<std::uint64_t>(1 + input.u16() * 64u, size - offset);
        area.set_dirty({offset, length}, [](std::error_code) {});
        if (what & 0x40) break;  // the next one comes while this one is on its way
        store.run();
        assert(area.is_durably_dirty({offset, length}));
        break;
      }
      case 2:
        store.run();
        area.clear_dirty({input.u32() % area.region_count()}, [](std::error_code) {});
        break;
      default: {
        if (what & 0x80) {
          SealedKey key{numbered(7), {}};
          std::ranges::fill(key.bytes, static_cast<std::byte>(input.u8()));
          area.write_key(key, [](std::error_code) {});
          break;  // the next one comes while this one is on its way
        }
        if (what & 0x40) {  // while others are on their way, too
          Knowledge next = area.knowledge();
          next.generation += input.u8() % 3;
          next.witness_cluster = input.u8() % 3;
          next.witness_revision += input.u8() % 4 - 1;
          next.record_members.bits = input.u8() % 5;
          area.write_knowledge(next, [](std::error_code) {});
          break;
        }
        store.run();
        EpochRecord next = area.epoch();
        next.number += input.u8() % 4;
        next.id = numbered(input.u8());
        next.members.bits = input.u8() % 4;
        area.write_epoch(next, [](std::error_code) {});
        break;
      }
    }
  }
  store.run();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  FaultStore store(MetadataArea::required_size(kVolume, kRegion));
  Area area;
  const std::uint8_t options = input.u8();
  VolumeIdentity made = identity();
  if (options & 4) made.key = SealedKey{numbered(6), {}};
  MetadataArea::format(store, made, epoch(1), options & 1 ? InitialMap::all_dirty : InitialMap::clean,
                       [&](auto result) { area = take(std::move(result)); });
  store.run();
  assert(area);
  if (options & 2) area->write_epoch(epoch(2), [](std::error_code) {}), store.run();
  if (options & 8) area->write_knowledge(knowledge(), [](std::error_code) {}), store.run();
  area.reset();
  spoil(input, store);
  area = open(store);
  if (!area) return 0;
  check_sense(*area);
  // What was lost was put back: it opens to the same.
  Area again = open(store);
  assert(again && again->identity() == area->identity() && again->epoch() == area->epoch());
  assert(again->knowledge() == area->knowledge());
  assert(again->dirty_count() == area->dirty_count());
  again.reset();
  work(input, store, *area);
  check_sense(*area);
  const EpochRecord last = area->epoch();
  const Knowledge known = area->knowledge();
  const VolumeIdentity is = area->identity();
  area.reset();
  area = open(store);
  assert(area && area->epoch() == last && area->knowledge() == known && area->identity() == is);
  check_sense(*area);
  return 0;
}
