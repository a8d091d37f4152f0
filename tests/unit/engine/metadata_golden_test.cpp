// The bytes of format.md's example. They stand on disks: a change here is a new format version.
#include <fstream>
#include <sstream>

#include "tests/unit/engine/metadata_fixture.hpp"

namespace lockstep::engine {
namespace {

/// Rows of 16 bytes with their offset; rows of zeros are left out.
std::string dump(std::span<const std::byte> bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (std::size_t row = 0; row < bytes.size(); row += 16) {
    const auto line = bytes.subspan(row, 16);
    if (std::ranges::all_of(line, [](std::byte b) { return b == std::byte{0}; })) continue;
    for (int shift = 16; shift >= 0; shift -= 4) out += kDigits[row >> shift & 15];
    for (const std::byte b : line) {
      out += ' ';
      out += kDigits[unsigned(b) >> 4];
      out += kDigits[unsigned(b) & 15];
    }
    out += '\n';
  }
  return out;
}

std::string example_of_the_document() {
  std::ifstream in(std::string(LOCKSTEP_SOURCE_DIR) + "/engine/metadata/format.md");
  std::stringstream text;
  text << in.rdbuf();
  const std::string all = text.str();
  const auto begin = all.find("```hexdump\n");
  const auto end = all.find("```", begin + 4);
  if (begin == std::string::npos || end == std::string::npos) return "(no example found)";
  return all.substr(begin + 11, end - begin - 11);
}

TEST(MetadataGolden, TheExampleOfTheFormatDocumentIsWhatIsWritten) {
  VolumeIdentity v;
  v.pair = *Uuid::parse("10111213-1415-4617-9819-1a1b1c1d1e1f");
  v.volume = *Uuid::parse("20212223-2425-4627-a829-2a2b2c2d2e2f");
  v.owner = NodeSide::b;
  v.name = "vm1";
  v.serial = "LS0001";
  v.size = 1 << 20;
  EpochRecord first;
  first.number = 1;
  first.id = *Uuid::parse("30313233-3435-4637-b839-3a3b3c3d3e3f");
  first.members = MemberSet::both();
  first.sequencer = NodeSide::a;
  first.size = v.size;
  first.arbiter = {ArbiterKind::witness, NodeSide::a, "http://127.0.0.10:2379"};
  EpochRecord second = first;
  second.number = 2;
  second.id = *Uuid::parse("40414243-4445-4647-8849-4a4b4c4d4e4f");
  second.ancestors = {first.id};
  second.members = MemberSet::only(NodeSide::b);
  second.sequencer = NodeSide::b;

  FaultStore store(MetadataArea::size_with_state(v.size, v.region_size));
  std::unique_ptr<MetadataArea> area;
  MetadataArea::format(store, v, first, InitialMap::clean, [&](auto r) { area = std::move(*r); });
  store.run();
  area->write_epoch(second, [](std::error_code e) { EXPECT_FALSE(e); });
  store.run();
  // The checksums of both slots as version 1 has them: an area in which nothing was learnt stays what it always was.
  EXPECT_EQ(load_be<std::uint32_t>(store.bytes().data() + 0x2000), 0xf9003047);
  EXPECT_EQ(load_be<std::uint32_t>(store.bytes().data() + 0x3000), 0xadf8b149);
  Knowledge known;
  known.generation = 1;
  known.partner_generation = 2;
  known.witness_cluster = 0x8e9e05c52164694d;
  known.witness_revision = 7;
  known.record_members = second.members;
  known.record_number = second.number;
  known.record_epoch = second.id;
  area->write_knowledge(known, [](std::error_code e) { EXPECT_FALSE(e); });
  store.run();
  for (const std::uint64_t region : {3, 15}) {
    area->set_dirty({region * 65536, 512}, [](std::error_code e) { EXPECT_FALSE(e); });
    store.run();
  }
  std::vector<std::byte> state;
  for (const char c : std::string_view("reserved")) state.push_back(static_cast<std::byte>(c));
  area->write_state(state, [](std::error_code e) { EXPECT_FALSE(e); });
  store.run();
  EXPECT_EQ(dump(store.bytes()), example_of_the_document());
}

}  // namespace
}  // namespace lockstep::engine
