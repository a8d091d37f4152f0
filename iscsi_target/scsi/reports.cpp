// What the target says about itself: LUNs, port groups, commands, task management.
#include "iscsi_target/scsi/handlers.hpp"
#include "iscsi_target/scsi/reply.hpp"
#include "iscsi_target/scsi/task.hpp"

namespace lockstep::iscsi_target {
namespace {

constexpr std::uint8_t kReturnTimeouts = 0x80;     // RCTD
constexpr std::uint32_t kRecommendedTimeout = 30;  // seconds: the longest pause that a failover makes, many times over

void timeouts_descriptor(Reply& reply) {  // SPC-4 6.35.4
  reply.be16(0x000A);
  reply.be16(0);
  reply.be32(0);  // nominal time: not said
  reply.be32(kRecommendedTimeout);
}

void all_commands(Reply& reply, const LogicalUnit& unit, bool timeouts) {
  reply.be32(0);
  for (const CommandEntry& entry : command_table()) {
    if (!exists_on(entry, &unit.info())) continue;
    reply.u8(entry.opcode);
    reply.u8(0);
    reply.be16(entry.has_service_action() ? static_cast<std::uint16_t>(entry.service_action) : 0);
    reply.u8(0);
    reply.u8(static_cast<std::uint8_t>((timeouts ? 0x02 : 0) | (entry.has_service_action() ? 0x01 : 0)));
    reply.be16(entry.cdb_length);
    if (timeouts) timeouts_descriptor(reply);
  }
  reply.set_be32(0, static_cast<std::uint32_t>(reply.size() - 4));
}

void one_command(Reply& reply, const CommandEntry* entry, const LogicalUnit& unit, bool timeouts) {
  constexpr std::uint8_t kSupported = 0x03;
  constexpr std::uint8_t kNotSupported = 0x01;
  reply.u8(0);
  if (!entry) {
    reply.u8(kNotSupported);
    reply.be16(0);
    return;
  }
  reply.u8(static_cast<std::uint8_t>((timeouts ? 0x80 : 0) | kSupported));
  reply.be16(entry->cdb_length);
  const std::size_t usage = reply.size();
  for (std::size_t i = 0; i < entry->cdb_length; ++i) reply.u8(entry->usage[i]);
  std::uint8_t second = entry->usage[1];
  if (entry->has_service_action()) {
    second = static_cast<std::uint8_t>((second & ~kServiceActionMask) | entry->service_action);
  }
  if (!unit.info().thin) second &= static_cast<std::uint8_t>(~entry->thin_bits);
  reply.set_u8(usage + 1, second);
  if (timeouts) timeouts_descriptor(reply);
}

const CommandEntry* find(std::span<const CommandEntry> rows, std::uint16_t service_action, const LogicalUnit& unit) {
  for (const CommandEntry& entry : rows) {
    if (exists_on(entry, &unit.info()) && (!entry.has_service_action() || entry.service_action == service_action))
      return &entry;
  }
  return nullptr;
}

void port_group(Reply& reply, std::uint16_t group, engine::AccessState state) {  // SPC-4 6.37
  constexpr std::uint8_t kSupports = 0x89;                                       // T_SUP, U_SUP, AO_SUP
  constexpr std::uint8_t kImplicitly = 0x02;
  const std::uint8_t access = state == engine::AccessState::active_optimized ? 0x0
                              : state == engine::AccessState::unavailable    ? 0x3
                                                                             : 0xF;
  reply.u8(access);
  reply.u8(kSupports);
  reply.be16(group);
  reply.u8(0);
  reply.u8(kImplicitly);
  reply.u8(0);
  reply.u8(1);  // one target port a group
  reply.be16(0);
  reply.be16(group);  // its relative target port identifier
}

}  // namespace

/// SPC-4 6.33. There is one well known logical unit, this command's own; administrative units there are none.
void handlers::report_luns(Task& task) {
  const std::uint8_t select = task.cdb(2);
  if (select > 0x02) return fail_cdb(task, 2);
  Reply reply;
  reply.be64(0);
  if (select != 0x00) reply.be64(kReportLunsWellKnownLun);
  if (select != 0x01) {
    for (std::size_t lun = 0; lun < task.nexus.units.size(); ++lun) {
      if (task.nexus.units[lun].use && reply.room() >= 8) reply.be64(encode_lun(static_cast<std::uint16_t>(lun)));
    }
  }
  reply.set_be32(0, static_cast<std::uint32_t>(reply.size() - 8));
  for (NexusUnit& unit : task.nexus.units) unit.attentions.remove(UnitAttention::luns_changed);
  finish_with_data(task, reply.done(), task.length);
}

// SPC-4 6.32. Nobody can set any: the text is the volume's name, which its operator gave it.
void handlers::report_identifying_information(Task& task) {
  constexpr std::uint8_t kBinary = 0x00, kText = 0x02, kTypes = 0x7F;
  constexpr std::size_t kLongestText = 255;  // without its NUL
  const std::uint8_t type = task.cdb(10) >> 1;
  const auto whole_name = task.unit().name();
  const auto name = std::string_view(*whole_name).substr(0, kLongestText);
  Reply reply;
  reply.be32(0);
  switch (type) {
    case kBinary:
      break;
    case kText:
      reply.padded(name, name.size() + 1, '\0');
      break;
    case kTypes:
      reply.u8(kBinary << 1), reply.u8(0), reply.be16(0);
      reply.u8(kText << 1), reply.u8(0), reply.be16(kLongestText + 1);
      break;
    default:
      return fail_cdb(task, 10, 7);
  }
  reply.set_be16(2, static_cast<std::uint16_t>(reply.size() - 4));
  finish_with_data(task, reply.done(), task.length);
}

void handlers::report_target_port_groups(Task& task) {
  constexpr std::uint8_t kTransitionTime = 60;  // seconds that an initiator should wait at least
  const std::uint8_t format = task.cdb(1) >> 5;
  if (format > 1) return fail_cdb(task, 1, 7);
  LogicalUnit& unit = task.unit();
  const std::uint16_t mine = unit.settings().port_group;
  Reply reply;
  reply.be32(0);
  if (format == 1) {
    reply.u8(0x10);
    reply.u8(kTransitionTime);
    reply.be16(0);
  }
  for (const std::uint16_t group : {std::uint16_t{1}, std::uint16_t{2}}) {
    if (group == mine) port_group(reply, group, unit.access_state());
    if (group != mine && unit.paired()) port_group(reply, group, unit.partner_access());
  }
  reply.set_be32(0, static_cast<std::uint32_t>(reply.size() - 4));
  finish_with_data(task, reply.done(), task.length);
}

void handlers::report_supported_operation_codes(Task& task) {
  const LogicalUnit& unit = task.unit();
  const bool timeouts = task.cdb(2) & kReturnTimeouts;
  const std::uint8_t option = task.cdb(2) & 0x07;
  const auto rows = commands_of(task.cdb(3));
  const auto service_action = engine::load_be<std::uint16_t>(&task.command.cdb[4]);
  const bool has_service_actions = !rows.empty() && rows.front().has_service_action();
  Reply reply;
  switch (option) {
    case 0:
      all_commands(reply, unit, timeouts);
      break;
    case 1:
      if (has_service_actions) return fail_cdb(task, 2, 2);
      one_command(reply, find(rows, 0, unit), unit, timeouts);
      break;
    case 2:
      if (!rows.empty() && !has_service_actions) return fail_cdb(task, 2, 2);
      one_command(reply, find(rows, service_action, unit), unit, timeouts);
      break;
    case 3:
      one_command(reply, !has_service_actions && service_action != 0 ? nullptr : find(rows, service_action, unit), unit,
                  timeouts);
      break;
    default:
      return fail_cdb(task, 2, 2);
  }
  finish_with_data(task, reply.done(), task.length);
}

void handlers::report_supported_task_management_functions(Task& task) {
  constexpr std::uint8_t kFunctions = 0xDA;  // ATS, ATSS, CTSS, LURS, TRS
  const bool extended = task.cdb(2) & 0x80;
  if (task.length < 4) return fail_cdb(task, 6);
  Reply reply;
  reply.u8(kFunctions);
  reply.be16(0);
  reply.u8(extended ? 0x0C : 0x00);
  if (extended) reply.zeros(12);
  finish_with_data(task, reply.done(), task.length);
}

}  // namespace lockstep::iscsi_target
