#include "engine/scsi/lu_state.hpp"

#include <algorithm>
#include <cassert>

namespace lockstep::scsi {

bool LuState::allows(const NexusKey& nexus, AccessClass access) const {
  if (access == AccessClass::unrestricted) return true;
  if (reserved_by) return *reserved_by == nexus;
  if (access == AccessClass::status || !reservation) return true;
  const Registration* mine = find(nexus);
  if (mine && (for_registrants(reservation->type) || holds(*mine))) return true;
  return access == AccessClass::read && !excludes_reads(reservation->type);
}

LuMode LuMode::keeping(const LuMode& kept, const LuMode& now) const {
  return {.descriptor_sense = kept.descriptor_sense ? now.descriptor_sense : descriptor_sense,
          .software_write_protect = kept.software_write_protect ? now.software_write_protect : software_write_protect,
          .threshold_off = kept.threshold_off ? now.threshold_off : threshold_off};
}

engine::Errc LuState::check(const NexusKey* nexus, AccessClass access) const {
  using engine::Errc;
  if (access == AccessClass::unrestricted) return Errc::ok;
  assert(nexus);
  if (!allows(*nexus, access)) return Errc::reservation_conflict;
  if (access != AccessClass::read && access != AccessClass::write) return Errc::ok;
  if (ejected || sanitize.phase != SanitizeState::Phase::none) return Errc::not_ready;
  return access == AccessClass::write && mode.software_write_protect ? Errc::write_protected : Errc::ok;
}

const Registration* LuState::find(const NexusKey& nexus) const {
  const Registration* found = nullptr;
  for (const Registration& registration : registrations) {
    if (!registration.nexus.covers(nexus)) continue;
    found = &registration;
    if (!registration.nexus.any_isid) break;
  }
  return found;
}

bool LuState::holds(const Registration& registration) const {
  return reservation && (for_all_registrants(reservation->type) || reservation->holder == registration.nexus);
}

LuState LuState::after_port_lost(std::uint16_t port, std::uint16_t survivor) const {
  LuState next = *this;
  if (next.reserved_by && next.reserved_by->port == port) next.reserved_by.reset();
  std::erase_if(next.preventions, [&](const NexusKey& nexus) { return nexus.port == port; });
  if (is_low(port)) next.low_space ^= static_cast<std::uint8_t>(1u << port);
  if (next.sanitize.phase == SanitizeState::Phase::running && next.sanitize.port == port) {
    next.sanitize.port = survivor;
  }
  if (next != *this) ++next.version;
  return next;
}

LuState LuState::after_power_loss() const {
  LuState next = *this;
  next.generation = 0;
  if (!persistent) {
    next.registrations.clear();
    next.reservation.reset();
  }
  next.reserved_by.reset();
  next.mode = {};
  next.ejected = false;
  next.low_space = 0;
  next.preventions.clear();
  if (next != *this) ++next.version;
  return next;
}

bool LuEvent::concerns(const NexusKey& nexus) const {
  const bool named = std::ranges::any_of(nexuses, [&](const NexusKey& each) { return each.covers(nexus); });
  return named != for_others;
}

}  // namespace lockstep::scsi
