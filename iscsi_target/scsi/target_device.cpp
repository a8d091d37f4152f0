#include "iscsi_target/scsi/target_device.hpp"

#include <algorithm>
#include <cassert>
#include <new>

#include "iscsi_target/scsi/sanitizer.hpp"
#include "iscsi_target/scsi/task.hpp"

namespace lockstep::iscsi_target {
namespace {

using scsi::SenseKey;

scsi::Sense illegal_request(scsi::AdditionalSense additional) {
  return {.key = SenseKey::illegal_request, .additional = additional};
}

/// The row of the CDB's opcode and service action; null with `known_opcode` true when only the service action is
/// unknown.
const CommandEntry* find_entry(const scsi::Command& command, const engine::DiskInfo* unit, bool& known_opcode) {
  const auto rows = commands_of(command.cdb[0]);
  known_opcode = false;
  for (const CommandEntry& entry : rows) {
    if (!exists_on(entry, unit)) continue;
    known_opcode = true;
    if (!entry.has_service_action() || entry.service_action == (command.cdb[1] & kServiceActionMask)) return &entry;
  }
  return nullptr;
}

void fail_unknown(Task& task, bool known_opcode) {
  if (known_opcode) return fail_cdb(task, 1, 4);
  fail(task, illegal_request(scsi::asc::kInvalidCommandOperationCode));
}

std::uint32_t limit_of(const LogicalUnit& unit, BlockLimit limit) {
  switch (limit) {
    case BlockLimit::none:
      break;
    case BlockLimit::transfer:
      return unit.max_blocks(LogicalUnit::kMaxTransfer);
    case BlockLimit::write_same:
      return unit.max_blocks(LogicalUnit::kMaxRange);
    case BlockLimit::compare:
      return unit.compare_blocks();
    case BlockLimit::atomic:
      return unit.atomic_blocks();
    case BlockLimit::or_write:
      return unit.max_blocks(LogicalUnit::kMaxOrWrite);
  }
  return UINT32_MAX;
}

bool check_bits(Task& task) {
  ReservedBit found;
  if (find_reserved_bit(*task.entry, task.command.cdb.data(), found)) {
    fail_cdb(task, found.byte, found.bit);
    return false;
  }
  if (task.entry->thin_bits != 0 && !task.unit().info().thin && (task.cdb(1) & task.entry->thin_bits)) {
    fail_cdb(task, 1, 3);
    return false;
  }
  return true;
}

bool check_range(Task& task) {
  const CommandEntry& entry = *task.entry;
  if (!entry.lba.present()) return true;
  const LogicalUnit& unit = task.unit();
  const std::uint8_t* cdb = task.command.cdb.data();
  const std::uint64_t capacity = unit.blocks();
  task.lba = read_field(cdb, entry.lba);
  task.blocks = read_field(cdb, entry.blocks);
  if (task.blocks == 0 && entry.zero_blocks == ZeroBlocks::is_256) task.blocks = 256;
  const std::uint64_t end = unit.addressable();
  if (task.lba >= end || task.blocks > end - task.lba) [[unlikely]] {
    auto sense = illegal_request(scsi::asc::kLogicalBlockAddressOutOfRange);
    sense.field = scsi::FieldPointer{.in_cdb = true, .byte = entry.lba.offset};
    fail(task, sense);
    return false;
  }
  if (task.blocks == 0 && entry.zero_blocks == ZeroBlocks::to_the_end) {
    task.blocks = capacity - std::min(task.lba, capacity);
  }
  if (task.blocks > limit_of(unit, entry.limit)) [[unlikely]] {
    fail_cdb(task, entry.blocks.offset);
    return false;
  }
  return true;
}

/// The disk looks again, where the command is ordered.
bool check_medium(Task& task) {
  const scsi::Sense sense = medium_sense(task.unit());
  if (sense == scsi::Sense{}) return true;
  if (sense.additional == scsi::asc::kSanitizeInProgress) Sanitizer::resume(task.device, *task.use);
  if (task.entry->has(sense.additional == scsi::asc::kMediumNotPresentTrayOpen ? kWithoutMedium : kWhileSanitizing)) {
    return true;
  }
  fail(task, sense);
  return false;
}

bool check_write_protection(Task& task) {
  if (!task.entry->has(kChangesMedium) || !task.unit().write_protected()) return true;
  fail(task, {.key = SenseKey::data_protect,
              .additional = task.unit().read_only() ? scsi::asc::kWriteProtected
                                                    : scsi::asc::kLogicalUnitSoftwareWriteProtected});
  return false;
}

void run_without_unit(Task& task) {
  bool known_opcode = false;
  task.entry = find_entry(task.command, nullptr, known_opcode);
  const auto needed = task.well_known ? kOnWellKnownUnit : kWithoutUnit;
  if (!task.entry || !task.entry->has(needed)) {
    return fail(task, illegal_request(task.well_known ? scsi::asc::kInvalidCommandOperationCode
                                                      : scsi::asc::kLogicalUnitNotSupported));
  }
  if (!check_bits(task)) return;
  task.length = read_field(task.command.cdb.data(), task.entry->bytes);
  task.entry->handler(task);
}

bool holds_something(const LogicalUnit& unit, const scsi::NexusKey& nexus) {
  const auto state = unit.state();
  return state->reserved_by == nexus || std::ranges::find(state->preventions, nexus) != state->preventions.end();
}

/// Now, or when a change of its own is put in force that nobody waits for any more.
bool may_hold(const NexusUnit& unit, const scsi::NexusKey& nexus) {
  return unit.may_hold || holds_something(*unit.use->unit, nexus);
}

bool sees(const NexusState& state, const UnitUse* use) {
  return std::ranges::find(state.units, use, &NexusUnit::use) != state.units.end();
}

/// What the disk orders may wait there for a transition's end, or is refused there: QEMU's initiator takes NOT READY
/// for the last word. So does TEST UNIT READY, by which hosts judge a path: multipath-tools before 0.9.5 take
/// "transitioning" for a path that is down, perhaps the last one. And so do reservations and MODE SELECT, which
/// programs send that try nothing twice: a fence agent preempts just when a host and a node have died together.
bool may_wait(const CommandEntry& entry, engine::AccessState access) {
  return access == engine::AccessState::transitioning &&
         (entry.serialization != Serialization::none || entry.has(kAwaitsAccess));
}

/// What reservations allow.
void carry_on(Task& task) {
  if (task.unit().restricted() && !check_medium(task)) [[unlikely]]
    return;
  if (!check_bits(task) || !check_write_protection(task) || !check_range(task)) return;
  task.length = read_field(task.command.cdb.data(), task.entry->bytes);
  task.entry->handler(task);
}

/// The unit's copy of its state may be of before: a node that was frozen, or cut off, has not heard of what was
/// released through the other one. Whom a reservation refuses, the disk says, which knows whether it may say anything.
void ask_about_reservations(Task& task) {
  submit(task, engine::DiskOpcode::check_access, {}, {}, [](Task& t) {
    if (may_go_on(t)) carry_on(t);
  });
}

void run(Task& task, NexusUnit& nexus_unit) {
  LogicalUnit& unit = task.unit();
  const auto access = unit.access_state();
  bool known_opcode = false;
  const CommandEntry* entry = task.entry = find_entry(task.command, &unit.info(), known_opcode);
  if (nexus_unit.attentions.refresh(unit.events(), task.nexus.key) && !(entry && entry->has(kKeepsAttention)))
      [[unlikely]] {
    return fail(task, sense_of(*nexus_unit.attentions.take()));
  }
  if (!entry) [[unlikely]]
    return fail_unknown(task, known_opcode);
  if (access != engine::AccessState::active_optimized && !may_wait(*entry, access) && !entry->has(kWhileUnavailable))
      [[unlikely]] {
    return fail_not_accessible(task, access);
  }
  if (unit.losses().are_due() && access == engine::AccessState::active_optimized) [[unlikely]]
    task.device.send_due_losses(*task.use);
  if (unit.restricted() && !unit.state()->allows(task.nexus.key, entry->access_of(task.command.cdb.data())))
      [[unlikely]]
    return ask_about_reservations(task);
  carry_on(task);
}

}  // namespace

TargetDevice::TargetDevice(engine::BufferPool& buffers, engine::Clock& clock)
    : buffers_(buffers), clock_(clock), map_(std::make_shared<const LunMap>()) {}

TargetDevice::~TargetDevice() { assert(nexuses_.empty() && retired_.empty()); }

void TargetDevice::adopt(std::shared_ptr<const LunMap> map, engine::Callback<> drained) {
  ++adoptions_;
  std::vector<std::unique_ptr<UnitUse>> uses;
  for (const LunEntry& entry : map->entries()) {
    const auto same = [&](const std::unique_ptr<UnitUse>& use) { return use && use->unit == entry.unit; };
    auto known = std::ranges::find_if(uses_, same);
    if (known == uses_.end()) {
      known = std::ranges::find_if(retired_, same);
      if (known == retired_.end()) {
        uses.push_back(std::make_unique<UnitUse>(entry.unit));
        continue;
      }
    }
    uses.push_back(std::move(*known));
    uses.back()->retired = 0;
  }
  std::swap(uses_, uses);
  map_ = std::move(map);
  for (const auto& state : nexuses_) refresh_view(*state);
  for (auto& old : uses) {
    if (!old) continue;
    old->retired = adoptions_;
    retired_.push_back(std::move(old));
  }
  if (drained) drains_.push_back({adoptions_, std::nullopt, std::move(drained)});
  stop_sanitizing_what_is_gone();
  sweep();
}

/// What stops ends perhaps at once, and may call back whoever adopts the next map.
void TargetDevice::stop_sanitizing_what_is_gone() {
  for (;;) {
    const auto goes_on = [](const auto& use) { return use && use->sanitizer && !use->sanitizer->is_stopping(); };
    const auto found = std::ranges::find_if(retired_, goes_on);
    if (found == retired_.end()) return;
    (*found)->sanitizer->stop();
  }
}

void TargetDevice::when_unused(const engine::Uuid& volume, engine::Callback<> done) {
  drains_.push_back({adoptions_, volume, std::move(done)});
  sweep();
}

void TargetDevice::finished(UnitUse* use) {
  if (use->retired != 0 && use->in_flight == 0) sweep();
}

void TargetDevice::sweep() {
  std::erase_if(retired_, [](const auto& use) { return !use || use->in_flight == 0; });
  for (;;) {
    const auto over = std::ranges::find_if(drains_, [this](const Drain& drain) { return is_over(drain); });
    if (over == drains_.end()) return;
    auto done = std::move(over->done);
    drains_.erase(over);
    done();
  }
}

bool TargetDevice::is_over(const Drain& drain) const {
  return std::ranges::none_of(retired_, [&](const std::unique_ptr<UnitUse>& use) {
    return use->retired <= drain.adoption && (!drain.volume || use->unit->volume() == *drain.volume);
  });
}

void TargetDevice::refresh_view(NexusState& state) {
  std::vector<NexusUnit> old = std::move(state.units);
  state.units.clear();
  bool changed = false;
  const auto entries = map_->entries();
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (!map_->visible(entries[i], state.nexus->initiator_name)) continue;
    const std::uint16_t lun = entries[i].lun;
    state.units.resize(std::size_t{lun} + 1);
    NexusUnit& now = state.units[lun];
    if (lun < old.size() && old[lun].use == uses_[i].get()) {
      now = old[lun];
      continue;
    }
    now.use = uses_[i].get();
    state.key.port = now.use->unit->settings().port_group;
    now.attentions.begin(now.use->unit->events(), true);
    const auto moved = std::ranges::find(old, now.use, &NexusUnit::use);
    now.may_hold = now.use->unit->losses().has(state.key) || (moved != old.end() && moved->may_hold);
    changed = true;
  }
  for (std::size_t lun = 0; lun < old.size(); ++lun) {
    UnitUse* const before = old[lun].use;
    const NexusUnit* const now = state.find(static_cast<std::uint16_t>(lun));
    changed |= before && !now;
    if (!before || (now && now->use == before) || sees(state, before)) continue;
    // A RESERVE of its own may be under way to a unit that others go on with.
    const bool stays = std::ranges::any_of(uses_, [&](const auto& use) { return use.get() == before; });
    if ((stays && state.in_flight != 0) || may_hold(old[lun], state.key)) lose(*before, state.key);
  }
  if (!changed) return;
  for (NexusUnit& unit : state.units) {
    if (unit.use) unit.attentions.add(UnitAttention::luns_changed);
  }
}

void TargetDevice::on_nexus_opened(scsi::Nexus& nexus) {
  auto state = std::make_unique<NexusState>();
  state->nexus = &nexus;
  state->key.initiator = nexus.initiator_name;
  std::ranges::transform(state->key.initiator, state->key.initiator.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  state->key.isid = nexus.isid;
  refresh_view(*state);
  for (NexusUnit& unit : state->units) unit.attentions.remove(UnitAttention::luns_changed);  // all of it is new
  nexus.device_state = state.get();
  nexuses_.push_back(std::move(state));
}

void TargetDevice::on_nexus_closed(scsi::Nexus& nexus) {
  const auto* state = static_cast<NexusState*>(nexus.device_state);
  assert(state && state->in_flight == 0);
  for (const NexusUnit& unit : state->units) {
    if (unit.use && may_hold(unit, state->key)) lose(*unit.use, state->key);
  }
  nexus.device_state = nullptr;
  std::erase_if(nexuses_, [&](const auto& n) { return n.get() == state; });
}

void TargetDevice::execute(scsi::Command& command) {
  auto& nexus = *static_cast<NexusState*>(command.nexus->device_state);
  command.wanted_in = command.wanted_out = 0;
  command.sense_length = 0;
  Task& task = *new (command.server_state.data()) Task{.command = command, .device = *this, .nexus = nexus};
  ++nexus.in_flight;
  const auto lun = decode_lun(command.lun);
  NexusUnit* unit = lun ? nexus.find(*lun) : nullptr;
  if (!unit) [[unlikely]] {
    task.well_known = command.lun == kReportLunsWellKnownLun;
    return run_without_unit(task);
  }
  task.use = unit->use;
  ++task.use->in_flight;
  run(task, *unit);
}

std::size_t TargetDevice::data_bytes(const scsi::Command& command) const {
  const std::size_t moved = DeviceServer::data_bytes(command);
  const auto at_most = [moved](std::uint64_t most) { return std::min<std::size_t>(moved, most); };
  switch (command.cdb[0]) {
    case 0x2F:  // VERIFY(10), (16) and (12)
    case 0x8F:
    case 0xAF:
    case 0x83:  // EXTENDED COPY
      return std::max(moved, kPiece);
    case 0x8B:  // ORWRITE(16)
      return moved == 0 ? 0 : at_most(LogicalUnit::kMaxOrWrite) + 2 * at_most(LogicalUnit::kMaxCompare);
    case 0x5E:  // PERSISTENT RESERVE IN: the whole state is read, however little of it is wanted
      return std::max(moved, scsi::kMaxLuState);
    case 0x48:  // SANITIZE
    case 0x5F:  // PERSISTENT RESERVE OUT
      return std::max(moved, scsi::kMaxLuRequest);
    default:
      return moved;
  }
}

void TargetDevice::abort(scsi::Command& command) {
  Task& task = *std::launder(reinterpret_cast<Task*>(command.server_state.data()));
  task.given_up = true;
  if (task.disk) return task.disk->cancel(task.request);  // may end the task
  if (task.use && task.use->sanitizer) task.use->sanitizer->give_up(task);
}

/// A change_state of the device's own, on its way.
struct TargetDevice::Errand {
  TargetDevice& device;
  UnitUse* use;
  std::vector<std::byte> data;
  engine::IoCallback done;
  engine::DiskRequest request{};
};

void TargetDevice::start_errand(UnitUse& use, const scsi::LuRequest& request, engine::IoCallback done) {
  auto* errand = new Errand{*this, &use, request.encode(), std::move(done)};
  errand->data.resize(std::max(errand->data.size(), scsi::kLuAnswerSize));
  ++use.in_flight;
  engine::DiskRequest& r = errand->request;
  r.opcode = engine::DiskOpcode::change_state;
  r.data = errand->data;
  r.owner = errand;
  r.done = [](engine::DiskRequest& finished) {
    const std::unique_ptr<Errand> over(static_cast<Errand*>(finished.owner));
    over->done(finished.status);  // may end the last command of a unit that is gone
    --over->use->in_flight;
    over->device.finished(over->use);
  };
  use.unit->disk().submit(r);
}

void TargetDevice::send(UnitUse& use, const scsi::LuRequest& request, engine::Callback<> done) {
  start_errand(use, request, [done = std::move(done)](std::error_code) mutable {
    if (done) done();
  });
}

void TargetDevice::lose(UnitUse& use, const scsi::NexusKey& nexus) {
  LogicalUnit& unit = *use.unit;
  send_loss(use, unit.losses().begin(unit.request(scsi::LuRequestKind::nexus_lost, nexus)));
}

/// It is sent again until it is in force: the request has a number, and is carried out once.
void TargetDevice::send_loss(UnitUse& use, const OwedLosses::Loss& loss) {
  if (use.losses >= kMostLosses) return use.unit->losses().answered(loss.number, false);
  ++use.losses;
  start_errand(use, loss.request, [&use, number = loss.number](std::error_code status) {
    --use.losses;
    use.unit->losses().answered(number, !status);
  });
}

void TargetDevice::send_due_losses(UnitUse& use) {
  if (use.losses >= kMostLosses) return;
  for (const auto& loss : use.unit->losses().take_due(kMostLosses - use.losses)) send_loss(use, loss);
}

void TargetDevice::reset(UnitUse& use, const scsi::LuRequest& request, engine::IoCallback done) {
  const std::string& who = request.nexus.initiator;
  std::size_t& under_way = use.resets[who];
  if (under_way >= kMostResets) return done(make_error_code(engine::Errc::resource_exhausted));
  ++under_way;
  start_errand(use, request, [&use, name = who, done = std::move(done)](std::error_code error) mutable {
    if (--use.resets.at(name) == 0) use.resets.erase(name);
    done(error);
  });
}

bool TargetDevice::send(const LogicalUnit& unit, const scsi::LuRequest& request, engine::Callback<> done) {
  const auto use = std::ranges::find_if(uses_, [&](const auto& each) { return each->unit.get() == &unit; });
  if (use == uses_.end()) return false;
  send(**use, request, std::move(done));
  return true;
}

std::vector<std::uint64_t> TargetDevice::units(const scsi::Nexus& nexus) const {
  const auto& state = *static_cast<const NexusState*>(nexus.device_state);
  std::vector<std::uint64_t> out;
  for (std::size_t lun = 0; lun < state.units.size(); ++lun) {
    if (state.units[lun].use) out.push_back(encode_lun(static_cast<std::uint16_t>(lun)));
  }
  return out;
}

std::optional<std::uint64_t> TargetDevice::unit_at(const scsi::Nexus& nexus, std::uint64_t lun) const {
  const auto number = decode_lun(lun);
  auto& state = *static_cast<NexusState*>(nexus.device_state);
  if (!number || !state.find(*number)) return std::nullopt;
  return encode_lun(*number);
}

bool TargetDevice::task_management(scsi::Nexus& nexus, scsi::TaskManagement function, std::uint64_t lun) {
  const auto& state = *static_cast<NexusState*>(nexus.device_state);
  const auto number = decode_lun(lun);
  const bool whole =
      function == scsi::TaskManagement::target_warm_reset || function == scsi::TaskManagement::target_cold_reset;
  const bool there = whole || (number && *number < state.units.size() && state.units[*number].use);
  manage(nexus, function, lun, [](scsi::Managed) {});
  return there;
}

void TargetDevice::manage(scsi::Nexus& nexus, scsi::TaskManagement function, std::uint64_t lun,
                          engine::Callback<scsi::Managed> done) {
  using scsi::Managed;
  auto& state = *static_cast<NexusState*>(nexus.device_state);
  std::vector<UnitUse*> units;
  auto kind = scsi::LuRequestKind::target_reset;
  if (function == scsi::TaskManagement::target_warm_reset || function == scsi::TaskManagement::target_cold_reset) {
    for (const NexusUnit& unit : state.units) {
      if (unit.use) units.push_back(unit.use);
    }
  } else {
    const auto number = decode_lun(lun);
    NexusUnit* unit = number ? state.find(*number) : nullptr;
    if (!unit) return done(Managed::no_such_unit);
    if (function != scsi::TaskManagement::logical_unit_reset) return done(Managed::complete);
    units.push_back(unit->use);
    kind = scsi::LuRequestKind::unit_reset;
  }
  struct All {
    std::size_t left;
    Managed result;
    engine::Callback<Managed> done;
  };
  auto all = std::make_shared<All>(units.size() + 1, Managed::complete, std::move(done));
  const auto one_less = [all](std::error_code error) {
    if (error) all->result = Managed::failed;
    if (--all->left == 0) all->done(all->result);
  };
  for (UnitUse* use : units) reset(*use, use->unit->request(kind, state.key), one_less);
  one_less({});
}

}  // namespace lockstep::iscsi_target
