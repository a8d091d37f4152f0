// What a disk loses: sectors for good, and what was under way or in its cache when a process or the power ended.
#include <algorithm>
#include <array>
#include <cstring>

#include "tests/simulation/sim_store.hpp"

namespace lockstep::simulation {

using engine::Extent;
using engine::IoCallback;

void SimStore::lose_sector(std::uint64_t sector) {
  if (lost_[sector]) return;
  trace_.add(letter(owner_), "store.loses_sector", {{"sector", sector}});
  lost_[sector] = lost_if_power_fails_[sector] = true;
  static constexpr std::array<std::byte, kSector> kNothing = [] {
    std::array<std::byte, kSector> bytes{};
    bytes.fill(std::byte{0xbd});
    return bytes;
  }();
  poke(sector * kSector, kNothing);
}

bool SimStore::loses_some_of(Extent extent) const {
  const auto first = lost_.begin() + static_cast<std::ptrdiff_t>(extent.offset / kSector);
  const auto end = lost_.begin() + static_cast<std::ptrdiff_t>(extent.end() / kSector);
  return std::find(first, end, true) != end;
}

bool SimStore::lacks_the_rest(Extent extent) const {
  const std::uint64_t first = extent.offset / physical_block_ * physical_block_;
  const std::uint64_t last = extent.end() / physical_block_ * physical_block_;
  const bool begins_within = first != extent.offset, ends_within = last != extent.end();
  return (begins_within && loses_some_of({first, physical_block_})) ||
         (ends_within && loses_some_of({last, physical_block_}));
}

std::optional<std::uint64_t> SimStore::next_lost(std::uint64_t from) const {
  const auto found = std::find(lost_.begin() + static_cast<std::ptrdiff_t>(from), lost_.end(), true);
  if (found == lost_.end()) return {};
  return static_cast<std::uint64_t>(found - lost_.begin());
}

void SimStore::process_died() {
  for (std::uint32_t slot = 0; slot < ops_.size(); ++slot) {
    Op& op = ops_[slot];
    if (!op.live) continue;
    if (op.kind == Kind::flush) --flushing_;
    if (op.kind != Kind::read && op.kind != Kind::flush) {
      for (unsigned half = 0; half < 2; ++half) {
        if (random_.chance(500'000)) apply(op, half);
      }
    }
    const IoCallback dropped = std::move(op.done);
    release(slot);
  }
  opened_anew();
}

void SimStore::opened_anew() {
  refuses_writes_ = false;
  for (const std::uint32_t sector : dirty_) {
    if (state_[sector] == Sector::applied) state_[sector] = Sector::completed;
  }
}

void SimStore::power_cut() {
  process_died();
  static constexpr std::uint32_t kSurvives[] = {0, 0, 500'000, 900'000, 1'000'000};
  const std::uint32_t survives = kSurvives[random_.below(std::size(kSurvives))];
  for (const std::uint32_t sector : dirty_) {
    listed_[sector] = false;
    if (state_[sector] == Sector::clean) continue;
    if (state_[sector] != Sector::ghost && random_.chance(survives)) settle(sector);
    std::memcpy(cached_.data() + std::size_t{sector} * kSector, stable_.data() + std::size_t{sector} * kSector,
                kSector);
    state_[sector] = Sector::clean;
    lost_[sector] = lost_if_power_fails_[sector];
    ++version_[sector];
  }
  dirty_.clear();
  for (std::size_t g = 0; g < set_aside_.size(); ++g) {
    if (!set_aside_[g]) continue;
    set_aside_[g] = false;
    if (random_.chance(500'000)) allocated_[g] = false;
  }
}

void SimStore::poke(std::uint64_t offset, std::span<const std::byte> bytes) {
  std::memcpy(cached_.data() + offset, bytes.data(), bytes.size());
  std::memcpy(stable_.data() + offset, bytes.data(), bytes.size());
}

void SimStore::set_back(const StoreSnapshot& to) {
  cached_ = stable_ = to.bytes;
  allocated_ = to.allocated;
  std::fill(set_aside_.begin(), set_aside_.end(), false);
  std::fill(lost_.begin(), lost_.end(), false);
  std::fill(lost_if_power_fails_.begin(), lost_if_power_fails_.end(), false);
  for (const std::uint32_t sector : dirty_) {
    state_[sector] = Sector::clean;
    listed_[sector] = false;
    ++version_[sector];
  }
  dirty_.clear();
}

void SimStore::become_new() {
  faults_.hang = faults_.read_error = faults_.write_error = faults_.flush_error = 0;
  set_back({Image(cached_.size()), std::vector<bool>(allocated_.size())});
}

}  // namespace lockstep::simulation
