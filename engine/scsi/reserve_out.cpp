#include "engine/scsi/reserve_out.hpp"

#include <algorithm>

#include "engine/base/byte_order.hpp"
#include "engine/scsi/transport_id.hpp"

namespace lockstep::scsi {
namespace {

constexpr std::size_t kListSize = 24;
constexpr std::uint8_t kSpecifyPorts = 0x08;  // SPEC_I_PT, of the list's byte 20
constexpr std::uint8_t kAllPorts = 0x04;      // ALL_TG_PT
constexpr std::uint8_t kPersist = 0x01;       // APTPL; of byte 17 with REGISTER AND MOVE
constexpr std::uint8_t kUnregister = 0x02;    // UNREG, of byte 17

std::optional<ReservationType> type_of(std::uint8_t scope_and_type) {
  switch (scope_and_type) {  // the scope, in the upper half, is zero: the logical unit
    case 1:
    case 3:
    case 5:
    case 6:
    case 7:
    case 8:
      return static_cast<ReservationType>(scope_and_type);
    default:
      return std::nullopt;
  }
}

class Step {
 public:
  Step(LuOutcome& outcome, const LuRequest& request)
      : outcome_(outcome), state_(outcome.next), request_(request), list_(request.parameters) {}

  void run() {
    if (state_.reserved_by) return conflict();  // SPC-2 5.5.1: the two kinds of reservation exclude one another
    switch (static_cast<ReserveOut>(request_.service_action)) {
      case ReserveOut::register_key:
        return register_key(false);
      case ReserveOut::register_and_ignore:
        return register_key(true);
      case ReserveOut::register_and_move:
        return register_and_move();
      case ReserveOut::reserve:
        return with_registration(&Step::reserve);
      case ReserveOut::release:
        return with_registration(&Step::release);
      case ReserveOut::clear:
        return with_registration(&Step::clear);
      case ReserveOut::preempt:
      case ReserveOut::preempt_and_abort:  // what it aborts has ended when the step is in force
        return with_registration(&Step::preempt);
    }
    refuse(asc::kInvalidFieldInCdb, FieldPointer{.in_cdb = true, .byte = 1, .bit = 4});
  }

 private:
  using Nexuses = std::vector<NexusKey>;

  // ---- answers
  void conflict() { outcome_.answer = {.status = Status::reservation_conflict}; }
  void refuse(AdditionalSense additional, std::optional<FieldPointer> field = {}) {
    outcome_.answer = {.status = Status::check_condition,
                       .sense = {.key = SenseKey::illegal_request, .additional = additional, .field = field}};
  }
  void refuse_list(std::size_t byte, std::int8_t bit = 7) {
    refuse(asc::kInvalidFieldInParameterList,
           FieldPointer{.in_cdb = false, .byte = static_cast<std::uint16_t>(byte), .bit = bit});
  }
  void refuse_type() { refuse(asc::kInvalidFieldInCdb, FieldPointer{.in_cdb = true, .byte = 2, .bit = 7}); }
  void refuse_length() { refuse(asc::kParameterListLengthError); }

  void tell(LuAttention kind, Nexuses nexuses) {
    if (!nexuses.empty()) outcome_.events.push_back({.kind = kind, .for_others = false, .nexuses = std::move(nexuses)});
  }

  // ---- the parameter list
  [[nodiscard]] std::uint64_t key() const { return engine::load_be<std::uint64_t>(list_.data()); }
  [[nodiscard]] std::uint64_t service_key() const { return engine::load_be<std::uint64_t>(list_.data() + 8); }
  [[nodiscard]] bool flag(std::size_t byte, std::uint8_t bit) const {
    return (std::to_integer<std::uint8_t>(list_[byte]) & bit) != 0;
  }
  [[nodiscard]] bool specifies_ports() const { return flag(20, kSpecifyPorts); }

  bool check_plain_list() {
    if (list_.size() != kListSize) return refuse_length(), false;
    if (specifies_ports()) return refuse_list(20, 3), false;
    return true;
  }

  bool check_persistence(std::size_t byte) {
    if (!flag(byte, kPersist) || request_.may_persist) return true;
    return refuse_list(byte, 0), false;
  }

  /// The initiator ports that SPEC_I_PT names, without target ports.
  bool read_transport_ids(Nexuses& into) {
    if (list_.size() < kListSize + 4) return refuse_length(), false;
    const std::size_t length = engine::load_be<std::uint32_t>(list_.data() + kListSize);
    if (length != list_.size() - kListSize - 4) return refuse_length(), false;
    for (std::size_t at = kListSize + 4; at < list_.size();) {
      const auto id = read_transport_id(std::span(list_).subspan(at));
      if (!id) return refuse_list(at), false;
      into.push_back(id->nexus);
      at += id->size;
    }
    return true;
  }

  // ---- registrations
  [[nodiscard]] Registration* mine() { return const_cast<Registration*>(state_.find(request_.nexus)); }

  void set_registration(const NexusKey& nexus, std::uint64_t key) {
    const auto known = std::ranges::find(state_.registrations, nexus, &Registration::nexus);
    if (known != state_.registrations.end()) {
      known->key = key;
    } else {
      state_.registrations.push_back({nexus, key});
    }
  }

  /// All registrations but the one of `keep`.
  [[nodiscard]] Nexuses others(const NexusKey* keep) const {
    Nexuses out;
    for (const Registration& each : state_.registrations) {
      if (!keep || each.nexus != *keep) out.push_back(each.nexus);
    }
    return out;
  }

  /// SPC-4 5.12.11.3: what unregistering does to the reservation.
  void unregister(const NexusKey& nexus) {
    std::erase_if(state_.registrations, [&](const Registration& each) { return each.nexus == nexus; });
    auto& reservation = state_.reservation;
    if (!reservation) return;
    if (for_all_registrants(reservation->type)) {
      if (state_.registrations.empty()) reservation.reset();
      return;
    }
    if (reservation->holder != nexus) return;
    if (for_registrants(reservation->type)) tell(LuAttention::reservations_released, others(nullptr));
    reservation.reset();
  }

  // ---- service actions
  void register_key(bool ignore) {
    const bool specifies = list_.size() >= kListSize && specifies_ports();
    if (list_.size() < kListSize || (!specifies && list_.size() != kListSize)) return refuse_length();
    if (specifies && ignore) return refuse_list(20, 3);
    Nexuses ports;
    if (specifies && !read_transport_ids(ports)) return;
    if (!check_persistence(20)) return;
    const Registration* me = mine();
    if (!ignore && key() != (me ? me->key : 0)) return conflict();
    if (me && specifies) return refuse(asc::kInvalidFieldInCdb);
    if (!me && service_key() == 0) return;  // SPC-4 table 61: nothing to do
    ports.push_back(me ? me->nexus : request_.nexus);
    spread_over_target_ports(ports);
    for (const NexusKey& each : ports) {
      const auto known = std::ranges::find(state_.registrations, each, &Registration::nexus);
      if (!ignore && known != state_.registrations.end() && known->key != key() && !specifies) return conflict();
    }
    const LuState before = state_;
    for (const NexusKey& each : ports) {
      if (service_key() == 0) {
        unregister(each);
      } else {
        set_registration(each, service_key());
      }
    }
    if (state_.registrations.size() > kMaxRegistrations) {
      state_ = before;
      return refuse(asc::kInsufficientRegistrationResources);
    }
    state_.persistent = flag(20, kPersist);
    ++state_.generation;
  }

  /// `ports` come without a target port, but for the last.
  void spread_over_target_ports(Nexuses& ports) {
    if (!flag(20, kAllPorts)) {
      for (NexusKey& each : ports) each.port = request_.nexus.port;
      return;
    }
    Nexuses out;
    for (std::uint16_t port = 0; port < 16; ++port) {
      if ((request_.target_ports >> port & 1) == 0) continue;
      for (NexusKey each : ports) {
        each.port = port;
        out.push_back(std::move(each));
      }
    }
    ports = std::move(out);
  }

  void with_registration(void (Step::*act)(const Registration&)) {
    if (!check_plain_list()) return;
    const Registration* me = mine();
    if (!me || me->key != key()) return conflict();
    (this->*act)(Registration(*me));
  }

  void reserve(const Registration& me) {
    const auto type = type_of(request_.scope_and_type);
    if (!type) return refuse_type();
    if (!state_.reservation) {
      state_.reservation = Reservation{.type = *type, .holder = me.nexus};
    } else if (!state_.holds(me) || state_.reservation->type != *type) {
      conflict();
    }
  }

  void release(const Registration& me) {
    if (!state_.reservation || !state_.holds(me)) return;
    const auto type = state_.reservation->type;
    if (type_of(request_.scope_and_type) != type) return refuse(asc::kInvalidReleaseOfPersistentReservation);
    state_.reservation.reset();
    if (for_registrants(type)) tell(LuAttention::reservations_released, others(&me.nexus));
  }

  void clear(const Registration& me) {
    tell(LuAttention::reservations_preempted, others(&me.nexus));
    state_.registrations.clear();
    state_.reservation.reset();
    ++state_.generation;
  }

  void preempt(const Registration& me) {
    const std::uint64_t victim = service_key();
    const auto& reservation = state_.reservation;
    const bool of_all = reservation && for_all_registrants(reservation->type);
    if (victim == 0 && !of_all) return refuse_list(8);
    if (of_all ? victim == 0 : reservation && holder_key() == victim) return take_over(me, victim);
    Nexuses removed;
    for (const Registration& each : state_.registrations) {
      if (each.key == victim) removed.push_back(each.nexus);
    }
    if (removed.empty()) return conflict();
    for (const NexusKey& each : removed) unregister(each);
    std::erase(removed, me.nexus);
    tell(LuAttention::registrations_preempted, std::move(removed));
    ++state_.generation;
  }

  [[nodiscard]] std::uint64_t holder_key() const {
    const auto held = std::ranges::find(state_.registrations, state_.reservation->holder, &Registration::nexus);
    return held->key;
  }

  /// SPC-4 5.12.11.4.3: the reservation changes hands; with `victim` zero every other registration goes.
  void take_over(const Registration& me, std::uint64_t victim) {
    const auto type = type_of(request_.scope_and_type);
    if (!type) return refuse_type();
    const bool other_type = state_.reservation->type != *type;
    Nexuses removed, kept;
    for (const Registration& each : state_.registrations) {
      if (each.nexus == me.nexus) continue;
      (victim == 0 || each.key == victim ? removed : kept).push_back(each.nexus);
    }
    std::erase_if(state_.registrations,
                  [&](const Registration& each) { return std::ranges::find(removed, each.nexus) != removed.end(); });
    state_.reservation = Reservation{.type = *type, .holder = me.nexus};
    tell(LuAttention::registrations_preempted, std::move(removed));
    if (other_type) tell(LuAttention::reservations_released, std::move(kept));
    ++state_.generation;
  }

  void register_and_move() {
    if (list_.size() < kListSize) return refuse_length();
    if (engine::load_be<std::uint32_t>(list_.data() + 20) != list_.size() - kListSize) return refuse_length();
    if (!check_persistence(17)) return;
    const Registration* found = mine();
    if (!found || found->key != key()) return conflict();
    const Registration me = *found;
    if (!state_.holds(me) || for_all_registrants(state_.reservation->type)) return conflict();
    if (service_key() == 0) return refuse_list(8);
    const auto port = engine::load_be<std::uint16_t>(list_.data() + 18);
    if (port >= 16 || (request_.target_ports >> port & 1) == 0) return refuse_list(18);
    const auto id = read_transport_id(std::span(list_).subspan(kListSize));
    if (!id || id->size != list_.size() - kListSize || id->nexus.any_isid) return refuse_list(kListSize);
    NexusKey to = id->nexus;
    to.port = port;
    if (me.nexus.covers(to)) return refuse_list(kListSize);
    const bool unregisters = flag(17, kUnregister);
    const Registration* there = state_.find(to);
    if (there) to = there->nexus;
    if (!there && !unregisters && state_.registrations.size() == kMaxRegistrations) {
      return refuse(asc::kInsufficientRegistrationResources);
    }
    state_.reservation->holder = to;
    if (unregisters) unregister(me.nexus);
    set_registration(to, service_key());
    state_.persistent = flag(17, kPersist);
    ++state_.generation;
  }

  LuOutcome& outcome_;
  LuState& state_;
  const LuRequest& request_;
  const std::vector<std::byte>& list_;
};

}  // namespace

void reserve_out(LuOutcome& outcome, const LuRequest& request) { Step(outcome, request).run(); }

}  // namespace lockstep::scsi
