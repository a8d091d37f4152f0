#pragma once
// The soft threshold of thinly provisioned units (SBC-3 4.7.3.7): initiators are warned while there is still time to
// make space. It is reached when the store under either node's copy has less left than a tenth of the volume.
//
// A share of the volume and not of the store: it is the same on both nodes, whatever disks are under them, so that the
// mode page says one thing; and a small volume on a large disk is not in danger because the disk is nine tenths full.
#include <algorithm>
#include <cstdint>
#include <limits>

namespace lockstep::iscsi_target {

constexpr std::uint64_t kThresholdShare = 10;      ///< the threshold is one in so many of the volume's bytes
constexpr unsigned kThresholdSetShift = 20;        ///< a threshold set is 1 MiB, whatever the block size
constexpr std::uint8_t kThresholdDescriptor = 16;  ///< where it begins in its mode page (SBC-3 6.4.6)

/// THRESHOLD EXPONENT (VPD page B2h): the blocks of a threshold set are two to the power of it.
[[nodiscard]] constexpr std::uint8_t threshold_exponent(unsigned block_shift) {
  return static_cast<std::uint8_t>(kThresholdSetShift - block_shift);
}

/// THRESHOLD COUNT: threshold sets; one at least.
[[nodiscard]] constexpr std::uint32_t threshold_count(std::uint64_t volume_size) {
  const std::uint64_t sets = volume_size / kThresholdShare >> kThresholdSetShift;
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(sets, 1, std::numeric_limits<std::uint32_t>::max()));
}

/// Whether a store with `left` bytes is below the threshold of a volume of `volume_size` bytes, of which `kept` have
/// their space already: what they can't need is not missed. Once it `was`, an eighth more must be there again: a store
/// that breathes is told of once.
[[nodiscard]] constexpr bool is_low_space(std::uint64_t left, std::uint64_t kept, std::uint64_t volume_size, bool was) {
  if (left >= volume_size - std::min(kept, volume_size)) return false;
  const std::uint64_t threshold = std::uint64_t{threshold_count(volume_size)} << kThresholdSetShift;
  return left <= (was ? threshold + threshold / 8 : threshold);
}

}  // namespace lockstep::iscsi_target
