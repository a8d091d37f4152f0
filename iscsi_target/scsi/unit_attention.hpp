#pragma once
// Unit attentions (SAM-5 5.14): what a nexus must be told about a logical unit before its next command is carried out.
//
// Events that concern every nexus are counted by the unit, on any thread; those that concern some are kept for a while
// with their names. Each nexus remembers how far it has seen and finds out when its next command comes. Nothing is sent
// between reactors, and what a nexus may have pending is one bit for each kind.
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/scsi/lu_state.hpp"
#include "engine/scsi/sense.hpp"
#include "iscsi_target/scsi/published.hpp"

namespace lockstep::iscsi_target {

/// In the order in which they are reported.
enum class UnitAttention : std::uint8_t {
  power_on,    ///< the nexus is new to the unit; replaces everything before it
  bus_reset,   ///< target reset
  unit_reset,  ///< logical unit reset
  nexus_loss,
  cleared_by_another,  ///< commands were cleared by another initiator
  medium_changed,
  luns_changed,
  mode_parameters_changed,
  reservations_preempted,
  reservations_released,
  registrations_preempted,
  capacity_changed,
  access_state_changed,
  soft_threshold_reached,
};
constexpr std::size_t kUnitAttentions = 14;

/// As it is told.
[[nodiscard]] scsi::Sense sense_of(UnitAttention attention);

/// The events of one logical unit. Any thread.
class UnitEvents {
 public:
  static constexpr std::size_t kKept = 128;  ///< named events; who slept through more is told of a reset

  /// What a step of the unit's state raised. One thread at a time.
  void raise(std::span<const scsi::LuEvent> events);
  void raise(UnitAttention kind) {
    counts_[index(kind)].fetch_add(1, std::memory_order_relaxed);
    total_.fetch_add(1, std::memory_order_release);
  }

 private:
  friend class PendingAttentions;
  static constexpr std::size_t index(UnitAttention kind) { return static_cast<std::size_t>(kind); }
  /// The last named events; the newest has the number `end` - 1.
  struct Named {
    std::uint64_t end = 0;
    std::vector<scsi::LuEvent> events;
  };
  std::atomic<std::uint32_t> total_{0};
  Published<Named> named_;
  std::array<std::atomic<std::uint32_t>, kUnitAttentions> counts_{};
};

/// What one nexus has pending on one unit. Owned by the nexus's reactor.
class PendingAttentions {
 public:
  /// Events so far are not news; the nexus itself may be (power_on).
  void begin(const UnitEvents& events, bool power_on);
  /// For this nexus alone.
  void add(UnitAttention kind);
  void remove(UnitAttention kind) { pending_ &= static_cast<std::uint16_t>(~bit(kind)); }
  /// Brings in what was raised since. True when anything is pending.
  [[nodiscard]] bool refresh(const UnitEvents& events, const scsi::NexusKey& nexus) {
    if (events.total_.load(std::memory_order_acquire) != seen_total_) collect(events, nexus);
    return pending_ != 0;
  }
  /// The next to report; it is not pending any more.
  [[nodiscard]] std::optional<UnitAttention> take();

 private:
  static constexpr std::uint16_t bit(UnitAttention kind) {
    return static_cast<std::uint16_t>(1u << static_cast<unsigned>(kind));
  }
  void collect(const UnitEvents& events, const scsi::NexusKey& nexus);

  std::uint32_t seen_total_ = 0;
  std::uint64_t seen_named_ = 0;
  std::array<std::uint32_t, kUnitAttentions> seen_{};
  std::uint16_t pending_ = 0;
};

}  // namespace lockstep::iscsi_target
