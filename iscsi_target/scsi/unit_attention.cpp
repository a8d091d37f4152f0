#include "iscsi_target/scsi/unit_attention.hpp"

#include <bit>

namespace lockstep::iscsi_target {

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
    case UnitAttention::luns_changed:
      return scsi::asc::kReportedLunsDataHasChanged;
    case UnitAttention::mode_parameters_changed:
      return scsi::asc::kModeParametersChanged;
    case UnitAttention::capacity_changed:
      return scsi::asc::kCapacityDataHasChanged;
    case UnitAttention::access_state_changed:
      return scsi::asc::kAsymmetricAccessStateChanged;
  }
  return scsi::asc::kNoAdditionalSenseInformation;
}

void PendingAttentions::begin(const UnitEvents& events, bool power_on) {
  (void)refresh(events);
  pending_ = power_on ? bit(UnitAttention::power_on) : 0;
}

void PendingAttentions::add(UnitAttention kind) {
  if (kind == UnitAttention::power_on) pending_ = 0;
  pending_ |= bit(kind);
}

void PendingAttentions::raise_for_others(UnitEvents& events, UnitAttention kind) {
  const auto i = UnitEvents::index(kind);
  const std::uint32_t before = events.counts_[i].fetch_add(1, std::memory_order_relaxed);
  if (seen_[i] != before) add(kind);  // somebody else raised it, too
  seen_[i] = before + 1;
  events.total_.fetch_add(1, std::memory_order_release);
}

void PendingAttentions::collect(const UnitEvents& events) {
  seen_total_ = events.total_.load(std::memory_order_acquire);
  for (std::size_t i = 0; i < kUnitAttentions; ++i) {
    const std::uint32_t count = events.counts_[i].load(std::memory_order_relaxed);
    if (count == seen_[i]) continue;
    seen_[i] = count;
    add(static_cast<UnitAttention>(i));
  }
}

std::optional<UnitAttention> PendingAttentions::take() {
  if (pending_ == 0) return std::nullopt;
  const auto kind = static_cast<UnitAttention>(std::countr_zero(pending_));
  remove(kind);
  return kind;
}

}  // namespace lockstep::iscsi_target
