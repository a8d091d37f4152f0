#include "iscsi_target/scsi/logical_unit.hpp"

#include <bit>
#include <cassert>

#include "engine/base/byte_order.hpp"
#include "iscsi_target/scsi/space_threshold.hpp"

namespace lockstep::iscsi_target {

LogicalUnit::LogicalUnit(engine::Disk& disk, UnitSettings settings)
    : disk_(disk),
      settings_(std::move(settings)),
      info_(disk.info()),
      block_shift_(static_cast<unsigned>(std::countr_zero(info_.block_size))),
      blocks_(info_.size >> block_shift_),
      read_only_(info_.read_only),
      write_cache_(info_.write_cache),
      paired_(settings_.paired),
      known_access_(disk.access_state()) {
  assert(std::has_single_bit(info_.block_size));
  set_name(info_.name);
  disk_.set_state_listener(installed_);
  assert(settings_.port_group == 1 || settings_.port_group == 2);
}

bool LogicalUnit::set_capacity(std::uint64_t size) {
  const std::uint64_t blocks = size >> block_shift_;
  const std::uint64_t before = blocks_.exchange(blocks, std::memory_order_relaxed);
  if (before == blocks) return false;
  events().raise(UnitAttention::capacity_changed);
  if (info_.thin && threshold_count(before << block_shift_) != threshold_count(size)) {
    events().raise(UnitAttention::mode_parameters_changed);  // SBC-3 6.4.6
  }
  return true;
}

void LogicalUnit::set_use(bool read_only, bool write_cache) {
  const bool protection = read_only_.exchange(read_only, std::memory_order_relaxed) != read_only;
  const bool cache = write_cache_.exchange(write_cache, std::memory_order_relaxed) != write_cache;
  if (protection || cache) events().raise(UnitAttention::mode_parameters_changed);
}

void LogicalUnit::set_paired(bool paired) {
  if (paired_.exchange(paired, std::memory_order_relaxed) != paired)
    events().raise(UnitAttention::access_state_changed);
}

void LogicalUnit::set_partner_access(engine::AccessState state) {
  if (partner_access_.exchange(state, std::memory_order_relaxed) == state) return;
  events().raise(UnitAttention::access_state_changed);
}

void LogicalUnit::note_access(engine::AccessState state) {
  // Several reactors may see the change at once; one of them raises it.
  if (known_access_.exchange(state, std::memory_order_relaxed) == state) return;
  events().raise(UnitAttention::access_state_changed);
}

scsi::LuRequest LogicalUnit::request(scsi::LuRequestKind kind, const scsi::NexusKey& nexus) {
  scsi::LuRequest request;
  request.kind = kind;
  request.nexus = nexus;
  if (!settings_.instance.is_nil()) {
    request.id = settings_.instance;
    engine::store_be<std::uint64_t>(&request.id.bytes[8], requests_.fetch_add(1, std::memory_order_relaxed));
  }
  return request;
}

void InstalledState::on_state(const scsi::LuState& state, std::span<const scsi::LuEvent> raised) {
  const ModeState mode = state.mode;
  mode_.store(static_cast<std::uint8_t>((mode.descriptor_sense ? 1 : 0) | (mode.software_write_protect ? 2 : 0) |
                                        (mode.threshold_off ? 4 : 0)),
              std::memory_order_relaxed);
  state_.store(std::make_shared<const scsi::LuState>(state));
  restricted_.store(state.restricted(), std::memory_order_release);
  events.raise(raised);
}

}  // namespace lockstep::iscsi_target
