#include <algorithm>

#include "engine/scsi/lu_state.hpp"
#include "engine/scsi/reserve_out.hpp"

namespace lockstep::scsi {
namespace {

using Phase = SanitizeState::Phase;

LuAnswer conflict() { return {.status = Status::reservation_conflict}; }
LuAnswer check_condition(SenseKey key, AdditionalSense additional) {
  return {.status = Status::check_condition, .sense = {.key = key, .additional = additional}};
}

void tell_others(LuOutcome& out, LuAttention kind, const NexusKey& but) {
  out.events.push_back({.kind = kind, .for_others = true, .nexuses = {but}});
}

/// SPC-3 5.6.3: with CRH, whoever may do as a persistent reservation lets it is told GOOD, and nothing else happens.
bool handled_as_persistent(LuOutcome& out, const NexusKey& nexus) {
  const LuState& state = out.next;
  if (state.registrations.empty()) return false;
  const Registration* mine = state.find(nexus);
  const bool may = mine && state.reservation && (for_registrants(state.reservation->type) || state.holds(*mine));
  if (!may) out.answer = conflict();
  return true;
}

void reserve(LuOutcome& out, const LuRequest& request) {
  if (handled_as_persistent(out, request.nexus)) return;
  if (out.next.reserved_by && *out.next.reserved_by != request.nexus) {
    out.answer = conflict();
  } else {
    out.next.reserved_by = request.nexus;
  }
}

void release(LuOutcome& out, const LuRequest& request) {
  if (handled_as_persistent(out, request.nexus)) return;
  if (out.next.reserved_by == request.nexus) out.next.reserved_by.reset();
}

void mode_select(LuOutcome& out, const LuRequest& request) {
  const LuMode wanted = request.mode.keeping(request.kept, out.next.mode);
  if (out.next.mode == wanted) return;
  out.next.mode = wanted;
  tell_others(out, LuAttention::mode_parameters_changed, request.nexus);
}

/// SAM-5 6.3.3; persistent reservations and what SANITIZE does are not touched. The issuer is told, too.
void reset(LuOutcome& out, LuAttention kind) {
  out.next.reserved_by.reset();
  out.next.mode = {};
  out.next.preventions.clear();
  out.events.push_back({.kind = kind, .for_others = true, .nexuses = {}});
}

void lose_nexus(LuOutcome& out, const LuRequest& request) {
  if (out.next.reserved_by == request.nexus) out.next.reserved_by.reset();
  std::erase(out.next.preventions, request.nexus);
}

void prevent(LuOutcome& out, const LuRequest& request) {
  auto& preventions = out.next.preventions;
  if (std::ranges::find(preventions, request.nexus) != preventions.end()) return;
  if (preventions.size() == kMaxPreventions) {
    out.answer = check_condition(SenseKey::illegal_request, asc::kInsufficientResources);
  } else {
    preventions.push_back(request.nexus);
  }
}

void eject(LuOutcome& out) {
  if (out.next.preventions.empty()) {
    out.next.ejected = true;
  } else {
    out.answer = check_condition(SenseKey::illegal_request, asc::kMediumRemovalPrevented);
  }
}

void load(LuOutcome& out, const LuRequest& request) {
  if (!out.next.ejected) return;
  if (!out.next.preventions.empty()) {
    out.answer = check_condition(SenseKey::illegal_request, asc::kMediumRemovalPrevented);
    return;
  }
  out.next.ejected = false;
  tell_others(out, LuAttention::medium_may_have_changed, request.nexus);
}

void sanitize(LuOutcome& out, const LuRequest& request) {
  if (out.next.ejected) {
    out.answer = check_condition(SenseKey::not_ready, asc::kMediumNotPresentTrayOpen);
  } else if (out.next.sanitize.phase == Phase::running) {
    out.answer = check_condition(SenseKey::not_ready, asc::kSanitizeInProgress);
  } else if (out.next.mode.software_write_protect) {
    out.answer = check_condition(SenseKey::data_protect, asc::kLogicalUnitSoftwareWriteProtected);
  } else {
    out.next.sanitize = request.sanitize;
    out.next.sanitize.phase = Phase::running;
    out.next.sanitize.port = request.nexus.port;
  }
}

void exit_failure_mode(LuOutcome& out) {
  SanitizeState& state = out.next.sanitize;
  if (state.phase == Phase::running) {
    out.answer = check_condition(SenseKey::not_ready, asc::kSanitizeInProgress);
  } else if (state.phase == Phase::failed && !state.unrestricted_exit) {
    out.answer = check_condition(SenseKey::illegal_request, asc::kInvalidFieldInCdb);
    out.answer.sense.field = FieldPointer{.in_cdb = true, .byte = 1, .bit = 4};
  } else {
    state = {};
  }
}

void note_space(LuOutcome& out, const LuRequest& request) {
  if (request.port != 1 && request.port != 2) return;
  const bool low = request.kind == LuRequestKind::space_low;
  if (out.next.is_low(request.port) != low) out.next.low_space ^= static_cast<std::uint8_t>(1u << request.port);
}

AccessClass access_of(LuRequestKind kind) {
  switch (kind) {
    case LuRequestKind::mode_select:
    case LuRequestKind::prevent:
    case LuRequestKind::load:
    case LuRequestKind::eject:
    case LuRequestKind::sanitize:
    case LuRequestKind::exit_failure_mode:
      return AccessClass::configure;
    default:  // what decides by itself, and what no initiator asked for
      return AccessClass::unrestricted;
  }
}

void step(LuOutcome& out, const LuRequest& request) {
  switch (request.kind) {
    case LuRequestKind::reserve_out:
      return reserve_out(out, request);
    case LuRequestKind::reserve:
      return reserve(out, request);
    case LuRequestKind::release:
      return release(out, request);
    case LuRequestKind::mode_select:
      return mode_select(out, request);
    case LuRequestKind::unit_reset:
      return reset(out, LuAttention::unit_reset);
    case LuRequestKind::target_reset:
      return reset(out, LuAttention::bus_reset);
    case LuRequestKind::nexus_lost:
      return lose_nexus(out, request);
    case LuRequestKind::port_lost:
      return void(out.next = out.next.after_port_lost(request.port, request.survivor));
    case LuRequestKind::power_on:
      return void(out.next = out.next.after_power_loss());
    case LuRequestKind::prevent:
      return prevent(out, request);
    case LuRequestKind::allow:
      return void(std::erase(out.next.preventions, request.nexus));
    case LuRequestKind::load:
      return load(out, request);
    case LuRequestKind::eject:
      return eject(out);
    case LuRequestKind::sanitize:
      return sanitize(out, request);
    case LuRequestKind::sanitize_finished:
      if (out.next.sanitize.phase == Phase::running) out.next.sanitize = {};
      return;
    case LuRequestKind::sanitize_failed:
      if (out.next.sanitize.phase == Phase::running) out.next.sanitize.phase = Phase::failed;
      return;
    case LuRequestKind::exit_failure_mode:
      return exit_failure_mode(out);
    case LuRequestKind::space_low:
    case LuRequestKind::space_enough:
      return note_space(out, request);
  }
}

void remember(LuState& state, const engine::Uuid& request, const LuAnswer& answer) {
  if (request.is_nil()) return;
  if (state.replays.size() == kMaxReplays) state.replays.erase(state.replays.begin());
  state.replays.push_back({request, answer});
}

}  // namespace

LuOutcome apply(const LuState& state, const LuRequest& request) {
  LuOutcome out{.next = state};
  if (!request.id.is_nil()) {
    const auto before = std::ranges::find(state.replays, request.id, &Replay::request);
    if (before != state.replays.end()) {
      out.answer = before->answer;
      return out;
    }
  }
  if (!state.allows(request.nexus, access_of(request.kind))) {
    out.answer = conflict();
    return out;
  }
  step(out, request);
  // SBC-3 4.7.3.7, for every nexus. It is told again when it was left meanwhile, by both stores, or was disabled.
  if (out.next.warns_of_space() && !state.warns_of_space()) {
    out.events.push_back({.kind = LuAttention::soft_threshold_reached, .for_others = true, .nexuses = {}});
  }
  out.changed = out.next != state || !out.events.empty();
  if (!out.changed) return out;
  remember(out.next, request.id, out.answer);
  out.next.version = state.version + 1;
  return out;
}

}  // namespace lockstep::scsi
