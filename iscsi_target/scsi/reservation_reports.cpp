// PERSISTENT RESERVE IN (SPC-4 6.15): what is registered and reserved, as the disk says it is now.
#include <algorithm>

#include "engine/base/byte_order.hpp"
#include "engine/scsi/transport_id.hpp"
#include "iscsi_target/scsi/handlers.hpp"
#include "iscsi_target/scsi/reply.hpp"
#include "iscsi_target/scsi/task.hpp"

namespace lockstep::iscsi_target::handlers {
namespace {

using engine::ByteWriter;
using scsi::LuState;

enum class Report : std::uint8_t { keys = 0, reservation = 1, capabilities = 2, full_status = 3 };  // service actions

std::uint8_t type_of(const LuState& state) { return static_cast<std::uint8_t>(state.reservation->type); }

void read_keys(ByteWriter& out, const LuState& state) {
  for (const auto& each : state.registrations) out.be64(each.key);
}

void read_reservation(ByteWriter& out, const LuState& state) {
  if (!state.reservation) return;
  const auto holder = std::ranges::find(state.registrations, state.reservation->holder, &scsi::Registration::nexus);
  const bool of_all = scsi::for_all_registrants(state.reservation->type);
  out.be64(of_all ? 0 : holder->key);
  out.be32(0);
  out.u8(0);
  out.u8(type_of(state));
  out.be16(0);
}

void read_full_status(ByteWriter& out, const LuState& state) {
  for (const auto& each : state.registrations) {
    const bool holds = state.holds(each);
    out.be64(each.key);
    out.be32(0);
    out.u8(holds ? 0x01 : 0x00);
    out.u8(holds ? type_of(state) : std::uint8_t{0});
    out.be32(0);
    out.be16(each.nexus.port);
    out.be32(static_cast<std::uint32_t>(scsi::transport_id_size(each.nexus)));
    scsi::write_transport_id(out, each.nexus);
  }
}

constexpr std::size_t kStatusDescriptor = 24;
static_assert(8 + scsi::kMaxRegistrations * (kStatusDescriptor + scsi::kMaxTransportId) <= scsi::kMaxLuState);

/// The state has come into the buffer; the report takes its place.
void write_report(Task& task) {
  const auto state = LuState::decode(task.buffer.span().first(task.request.transferred));
  if (!state) {
    return fail(task, {.key = scsi::SenseKey::hardware_error, .additional = scsi::asc::kInternalTargetFailure});
  }
  ByteWriter out(task.buffer.span());
  out.be32(state->generation);
  out.be32(0);
  switch (static_cast<Report>(task.cdb(1) & kServiceActionMask)) {
    case Report::keys:
      read_keys(out, *state);
      break;
    case Report::reservation:
      read_reservation(out, *state);
      break;
    default:
      read_full_status(out, *state);
      break;
  }
  const std::size_t size = out.size();
  engine::store_be<std::uint32_t>(task.buffer.data() + 4, static_cast<std::uint32_t>(size - 8));
  task.command.wanted_in = std::min(size, task.length);
  finish_with_buffer(task, std::min(size, task.length));
}

void report_capabilities(Task& task) {
  constexpr std::uint8_t kReserveAsWell = 0x10;  // CRH
  constexpr std::uint8_t kSpecifiesPorts = 0x08, kAllPorts = 0x04, kPersists = 0x01;
  const bool persistent = task.unit().info().persistent_state;
  Reply reply;
  reply.be16(8);
  reply.u8(static_cast<std::uint8_t>(kReserveAsWell | kSpecifiesPorts | kAllPorts | (persistent ? kPersists : 0)));
  reply.u8(
      static_cast<std::uint8_t>(0x80 | (persistent && task.unit().state()->persistent ? 0x01 : 0)));  // TMV, PTPL_A
  reply.be16(0xEA01);                                                                                 // every type
  reply.be16(0);
  finish_with_data(task, reply.done(), task.length);
}

}  // namespace

void persistent_reserve_in(Task& task) {
  if (static_cast<Report>(task.cdb(1) & kServiceActionMask) == Report::capabilities) return report_capabilities(task);
  if (!take_buffer(task, scsi::kMaxLuState)) return;
  submit(task, engine::DiskOpcode::read_state, {}, task.buffer.span(), write_report);
}

}  // namespace lockstep::iscsi_target::handlers
