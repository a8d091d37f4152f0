#include "iscsi_target/scsi/logical_unit.hpp"

#include <bit>
#include <cassert>

namespace lockstep::iscsi_target {

LogicalUnit::LogicalUnit(engine::Disk& disk, UnitSettings settings)
    : disk_(disk),
      settings_(std::move(settings)),
      info_(disk.info()),
      block_shift_(static_cast<unsigned>(std::countr_zero(info_.block_size))),
      blocks_(info_.size >> block_shift_),
      known_access_(disk.access_state()) {
  assert(std::has_single_bit(info_.block_size));
  assert(settings_.port_group == 1 || settings_.port_group == 2);
}

void LogicalUnit::set_capacity(std::uint64_t size) {
  const std::uint64_t blocks = size >> block_shift_;
  if (blocks_.exchange(blocks, std::memory_order_relaxed) != blocks) events_.raise(UnitAttention::capacity_changed);
}

void LogicalUnit::set_partner_access(engine::AccessState state) {
  if (partner_access_.exchange(state, std::memory_order_relaxed) == state) return;
  events_.raise(UnitAttention::access_state_changed);
}

void LogicalUnit::note_access(engine::AccessState state) {
  // Several reactors may see the change at once; one of them raises it.
  if (known_access_.exchange(state, std::memory_order_relaxed) == state) return;
  events_.raise(UnitAttention::access_state_changed);
}

void LogicalUnit::reset(UnitAttention kind) {
  mode_.store(0, std::memory_order_relaxed);
  events_.raise(kind);
}

}  // namespace lockstep::iscsi_target
