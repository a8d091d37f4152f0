// What initiators ask about the volume's size and allocation.
#include <algorithm>
#include <bit>
#include <limits>

#include "iscsi_target/scsi/handlers.hpp"
#include "iscsi_target/scsi/reply.hpp"
#include "iscsi_target/scsi/task.hpp"

namespace lockstep::iscsi_target::handlers {
namespace {

constexpr std::uint64_t kMax32 = std::numeric_limits<std::uint32_t>::max();

}  // namespace

void read_capacity_10(Task& task) {
  const LogicalUnit& unit = task.unit();
  Reply reply;
  reply.be32(static_cast<std::uint32_t>(std::min(unit.blocks() - 1, kMax32)));
  reply.be32(unit.block_size());
  finish_with_data(task, reply.done(), Reply::kMaxSize);
}

void read_capacity_16(Task& task) {
  const LogicalUnit& unit = task.unit();
  const std::uint32_t per_physical = std::max(unit.info().physical_block_size >> unit.block_shift(), 1u);
  Reply reply;
  reply.be64(unit.blocks() - 1);
  reply.be32(unit.block_size());
  reply.u8(0x00);  // no protection information
  reply.u8(static_cast<std::uint8_t>(std::bit_width(per_physical) - 1));
  reply.be16(unit.info().thin ? 0xC000 : 0x0000);  // LBPME, LBPRZ; lowest aligned LBA 0
  reply.zeros(16);
  finish_with_data(task, reply.done(), task.length);
}

/// SBC-3 5.6. What is not known to be unmapped is reported as mapped, in one descriptor: initiators ask often, and the
/// answer costs no look at the store.
void get_lba_status(Task& task) {
  Reply reply;
  reply.be32(4 + 16);
  reply.be32(0);
  reply.be64(task.lba);
  reply.be32(static_cast<std::uint32_t>(std::min(task.unit().blocks() - task.lba, kMax32)));
  reply.be32(0x00000000);  // mapped
  finish_with_data(task, reply.done(), task.length);
}

}  // namespace lockstep::iscsi_target::handlers
