// Any CDBs with any data at live logical units: each command ends once and within its bounds, none that is refused has
// changed anything, and nothing is left behind. Covers every row of the command table, new ones too.
#include <cstring>

#include "engine/base/byte_order.hpp"
#include "iscsi_target/scsi/command_table.hpp"
#include "tests/fuzz/input.hpp"
#include "tests/fuzz/scsi_world.hpp"

namespace {

using namespace lockstep;
using namespace lockstep::fuzz;

// The flags byte of a command.
constexpr std::uint8_t kOnlyUsedBits = 0x01;  // reserved bits are cleared, so that the handler gets to see it
constexpr std::uint8_t kSecondInitiator = 0x02;
constexpr std::uint8_t kOddLun = 0x04;
constexpr std::uint8_t kAborted = 0x08;
constexpr std::uint8_t kPullFails = 0x10;
constexpr std::uint8_t kStoreFails = 0x20;
constexpr std::uint8_t kOverlaps = 0x40;   // the next command starts before this one has ended
constexpr std::uint8_t kExactData = 0x80;  // as many bytes of data as the CDB announces

constexpr std::uint64_t kLuns[] = {std::uint64_t{1} << 48,
                                   std::uint64_t{2} << 48,
                                   std::uint64_t{3} << 48,
                                   std::uint64_t{0x4001} << 48,
                                   iscsi_target::kReportLunsWellKnownLun,
                                   ~std::uint64_t{0}};
constexpr std::size_t kMostData = std::size_t{256} << 10;

const iscsi_target::CommandEntry* row_of(const scsi::Command& command) {
  const auto rows = iscsi_target::commands_of(command.cdb[0]);
  for (const auto& row : rows) {
    if (!row.has_service_action() || (command.cdb[1] & 0x1F) == row.service_action) return &row;
  }
  return nullptr;
}

std::size_t exact_size(const scsi::Command& command, const iscsi_target::CommandEntry& row, std::size_t block) {
  if (row.direction != iscsi_target::DataDirection::out) return 0;
  if (row.bytes.present()) return std::min<std::size_t>(read_field(command.cdb.data(), row.bytes), kMostData);
  std::uint64_t blocks = read_field(command.cdb.data(), row.blocks);
  if (row.limit == iscsi_target::BlockLimit::write_same) blocks = 1;
  if (row.limit == iscsi_target::BlockLimit::compare) blocks *= 2;
  if (blocks == 0 && row.zero_blocks == iscsi_target::ZeroBlocks::is_256) blocks = 256;
  return std::min<std::size_t>(blocks * block, kMostData);
}

std::unique_ptr<CheckedCommand> next_command(Input& input, Initiators& initiators, std::uint8_t flags,
                                             std::size_t block) {
  auto command = std::make_unique<CheckedCommand>();
  std::array<std::uint8_t, 16> cdb{};
  input.fill(cdb);
  std::copy(cdb.begin(), cdb.end(), command->cdb.begin());
  const auto* const row = row_of(*command);
  if (row != nullptr && (flags & kOnlyUsedBits)) {
    for (std::size_t i = 1; i < row->usage.size() && i < command->cdb.size(); ++i) {
      const bool action = i == 1 && row->has_service_action();
      command->cdb[i] &= static_cast<std::uint8_t>(row->usage[i] | (action ? 0x1F : 0));
    }
  }
  command->expected_in = input.u16();
  const auto data = input.bytes(input.u16());
  command->data_out.assign(data.begin(), data.end());
  if (row != nullptr && (flags & kExactData)) command->data_out.resize(exact_size(*command, *row, block));
  command->expected_out = static_cast<std::uint32_t>(command->data_out.size());
  command->nexus = &initiators.nexus(flags & kSecondInitiator ? 1 : 0);
  if (flags & kOddLun) command->lun = kLuns[input.u8() % std::size(kLuns)];
  command->is_aborted = flags & kAborted;
  if (flags & kPullFails) command->pull_error = make_error_code(engine::Errc::aborted);
  return command;
}

// What is no command: the opcode FFh is nobody's.
void between_commands(Input& input, ScsiWorld& world, Initiators& initiators) {
  const std::uint8_t what = input.u8();
  switch (what % 4) {
    case 0:
      return initiators.log_in_anew(what >> 2);
    case 1: {
      initiators.finish_all();
      const auto function = static_cast<scsi::TaskManagement>(1 + (what >> 2) % 7);
      (void)world.device.task_management(initiators.nexus(what >> 5), function, 0);
      return;
    }
    case 2:
      return void(world.unit().set_capacity(ScsiWorld::kSize / (1 + (what >> 2) % 4)));
    default:
      return world.unit().set_partner_access(static_cast<engine::AccessState>((what >> 2) % 3));
  }
}

}  // namespace

// Input: a byte of options, then commands of {flags, CDB, room for data in, length of data out, data out}.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  const std::uint8_t options = input.u8();
  ScsiWorld world({.blocks_of_4k = (options & 1) != 0,
                   .thin = (options & 2) == 0,
                   .read_only = (options & 4) != 0,
                   .removable = (options & 8) != 0,
                   .encrypted = (options & 16) != 0});
  Initiators initiators(world);
  const std::size_t block = options & 1 ? 4096 : 512;
  bool overlaps = false;
  for (int n = 0; n < 64 && !input.empty(); ++n) {
    const std::uint8_t flags = input.u8();
    if (flags == 0xFF) {
      between_commands(input, world, initiators);
      continue;
    }
    auto command = next_command(input, initiators, flags, block);
    if (flags & kStoreFails) world.fail_next();
    const bool alone = !overlaps && !(flags & kOverlaps);
    const int before = world.changes();
    CheckedCommand& started = initiators.start(std::move(command));
    if (alone) {
      started.answer_pull();
      world.run_stores();
      assert(!started.was_refused() || world.changes() == before);
    }
    overlaps = flags & kOverlaps;
    if (!overlaps) initiators.finish_all();
  }
  return 0;
}

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

// Now and then a command out of the table is appended: with its own fields at random and all else as it should be.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  constexpr std::size_t kCommand = 1 + 16 + 2 + 2;
  if (seed % 8 != 0 || size + kCommand > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::uint64_t state = seed * 0x9E3779B97F4A7C15ull + 1;
  const auto random = [&] {
    state ^= state >> 12, state ^= state << 25, state ^= state >> 27;
    return static_cast<std::uint32_t>((state * 0x2545F4914F6CDD1Dull) >> 32);
  };
  const auto table = iscsi_target::command_table();
  const auto& row = table[random() % table.size()];
  std::uint8_t* const at = data + size;
  std::memset(at, 0, kCommand);
  at[0] = static_cast<std::uint8_t>(kOnlyUsedBits | (random() % 2 ? kExactData : 0) |
                                    (random() % 4 ? 0 : kSecondInitiator) | (random() % 6 ? 0 : kOddLun));
  for (std::size_t i = 1; i < 16; ++i) {
    const std::uint32_t r = random();
    at[1 + i] = static_cast<std::uint8_t>(r % 3 == 0 ? r >> 8 : r % 3 == 1 ? (r >> 8) % 8 : 0) & row.usage[i];
  }
  at[1] = row.opcode;
  if (row.has_service_action()) at[2] = static_cast<std::uint8_t>((at[2] & 0xE0) | row.service_action);
  at[17] = static_cast<std::uint8_t>(random() % 4);
  at[18] = static_cast<std::uint8_t>(random());
  return size + kCommand;
}
