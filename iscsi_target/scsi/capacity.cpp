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

void answer_lba_status(Task& task, std::uint64_t blocks, bool deallocated) {
  Reply reply;
  reply.be32(4 + 16);
  reply.be32(0);
  reply.be64(task.lba);
  reply.be32(static_cast<std::uint32_t>(blocks));
  reply.be32(deallocated ? 0x01000000 : 0x00000000);
  finish_with_data(task, reply.done(), task.length);
}

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

/// SBC-4 5.6, one descriptor: what the disk says of the run of blocks that begins here. What is not known to be
/// deallocated is reported as mapped. A thick volume has nothing to be asked about. Beyond the capacity nothing is
/// asked but what lies there: the disk may not have it yet, and then refuses all.
void get_lba_status(Task& task) {
  const LogicalUnit& unit = task.unit();
  const std::uint64_t capacity = unit.blocks();
  const std::uint64_t end = task.lba < capacity ? capacity : unit.addressable();
  const std::uint64_t blocks = std::min(end - std::min(task.lba, end), kMax32);
  if (!unit.info().thin || blocks == 0) return answer_lba_status(task, blocks, false);
  if (!take_buffer(task, engine::kRunSize)) return;
  const unsigned shift = unit.block_shift();
  submit(task, engine::DiskOpcode::find_run, {task.lba << shift, blocks << shift}, task.buffer.span(), [](Task& t) {
    const engine::Run run = engine::decode_run(t.buffer.span().first(t.request.transferred));
    answer_lba_status(t, run.length >> t.unit().block_shift(), run.hole);
  });
}

}  // namespace lockstep::iscsi_target::handlers
