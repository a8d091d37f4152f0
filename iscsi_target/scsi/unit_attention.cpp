#include "iscsi_target/scsi/unit_attention.hpp"

#include <algorithm>
#include <bit>

#include "iscsi_target/scsi/space_threshold.hpp"

namespace lockstep::iscsi_target {
namespace {

UnitAttention attention_of(scsi::LuAttention kind) {
  switch (kind) {
    case scsi::LuAttention::bus_reset:
      return UnitAttention::bus_reset;
    case scsi::LuAttention::unit_reset:
      return UnitAttention::unit_reset;
    case scsi::LuAttention::mode_parameters_changed:
      return UnitAttention::mode_parameters_changed;
    case scsi::LuAttention::reservations_preempted:
      return UnitAttention::reservations_preempted;
    case scsi::LuAttention::reservations_released:
      return UnitAttention::reservations_released;
    case scsi::LuAttention::registrations_preempted:
      return UnitAttention::registrations_preempted;
    case scsi::LuAttention::medium_may_have_changed:
      return UnitAttention::medium_changed;
    case scsi::LuAttention::soft_threshold_reached:
      return UnitAttention::soft_threshold_reached;
  }
  return UnitAttention::bus_reset;
}

scsi::AdditionalSense additional_sense(UnitAttention attention) {
  switch (attention) {
    case UnitAttention::power_on:
      return scsi::asc::kPowerOnOccurred;
    case UnitAttention::bus_reset:
      return scsi::asc::kScsiBusResetOccurred;
    case UnitAttention::unit_reset:
      return scsi::asc::kBusDeviceResetFunctionOccurred;
    case UnitAttention::nexus_loss:
      return scsi::asc::kITNexusLossOccurred;
    case UnitAttention::cleared_by_another:
      return scsi::asc::kCommandsClearedByAnotherInitiator;
    case UnitAttention::medium_changed:
      return scsi::asc::kNotReadyToReadyChange;
    case UnitAttention::reservations_preempted:
      return scsi::asc::kReservationsPreempted;
    case UnitAttention::reservations_released:
      return scsi::asc::kReservationsReleased;
    case UnitAttention::registrations_preempted:
      return scsi::asc::kRegistrationsPreempted;
    case UnitAttention::luns_changed:
      return scsi::asc::kReportedLunsDataHasChanged;
    case UnitAttention::mode_parameters_changed:
      return scsi::asc::kModeParametersChanged;
    case UnitAttention::capacity_changed:
      return scsi::asc::kCapacityDataHasChanged;
    case UnitAttention::access_state_changed:
      return scsi::asc::kAsymmetricAccessStateChanged;
    case UnitAttention::soft_threshold_reached:
      return scsi::asc::kThinProvisioningSoftThresholdReached;
  }
  return scsi::asc::kNoAdditionalSenseInformation;
}

}  // namespace

scsi::Sense sense_of(UnitAttention attention) {
  scsi::Sense sense{.key = scsi::SenseKey::unit_attention, .additional = additional_sense(attention)};
  // Where in the mode page the threshold stands (SBC-3 4.7.3.7).
  if (attention == UnitAttention::soft_threshold_reached) sense.information = kThresholdDescriptor;
  return sense;
}

void UnitEvents::raise(std::span<const scsi::LuEvent> events) {
  for (const scsi::LuEvent& event : events) {
    if (event.for_others && event.nexuses.empty()) {
      raise(attention_of(event.kind));
      continue;
    }
    auto named = std::make_shared<Named>(*named_.load());
    if (named->events.size() == kKept) named->events.erase(named->events.begin());
    named->events.push_back(event);
    ++named->end;
    named_.store(std::move(named));
    total_.fetch_add(1, std::memory_order_release);
  }
}

void PendingAttentions::begin(const UnitEvents& events, bool power_on) {
  (void)refresh(events, {});
  pending_ = power_on ? bit(UnitAttention::power_on) : 0;
}

void PendingAttentions::add(UnitAttention kind) {
  if (kind == UnitAttention::power_on) pending_ = 0;
  pending_ |= bit(kind);
}

void PendingAttentions::collect(const UnitEvents& events, const scsi::NexusKey& nexus) {
  seen_total_ = events.total_.load(std::memory_order_acquire);
  for (std::size_t i = 0; i < kUnitAttentions; ++i) {
    const std::uint32_t count = events.counts_[i].load(std::memory_order_relaxed);
    if (count == seen_[i]) continue;
    seen_[i] = count;
    add(static_cast<UnitAttention>(i));
  }
  const auto named = events.named_.load();
  const std::uint64_t oldest = named->end - named->events.size();
  if (seen_named_ < oldest) add(UnitAttention::bus_reset);
  for (std::uint64_t i = std::max(seen_named_, oldest); i < named->end; ++i) {
    const scsi::LuEvent& event = named->events[i - oldest];
    if (event.concerns(nexus)) add(attention_of(event.kind));
  }
  seen_named_ = named->end;
}

std::optional<UnitAttention> PendingAttentions::take() {
  if (pending_ == 0) return std::nullopt;
  const auto kind = static_cast<UnitAttention>(std::countr_zero(pending_));
  remove(kind);
  return kind;
}

}  // namespace lockstep::iscsi_target
