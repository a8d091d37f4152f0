#include "iscsi_target/scsi/owed_losses.hpp"

#include <algorithm>
#include <utility>

#include "iscsi_target/scsi/published.hpp"

namespace lockstep::iscsi_target {

namespace {

bool is_reset(const OwedLosses::Loss& loss) { return loss.request.kind == scsi::LuRequestKind::unit_reset; }

}  // namespace

OwedLosses::Loss OwedLosses::begin(scsi::LuRequest request) {
  const Turn turn(busy_);
  const auto reset = std::ranges::find_if(owed_, [](const Owed& each) { return each.is_due && is_reset(each); });
  if (reset != owed_.end()) {
    reset->is_due = false;
    note();
    return *reset;
  }
  std::erase_if(owed_, [&](const Owed& each) { return each.is_due && each.request.nexus == request.nexus; });
  if (owed_.size() == kMost) return begin_reset(std::move(request));
  owed_.push_back({{++last_, std::move(request)}, false});
  note();
  return owed_.back();
}

/// Those that are on their way are made good by it, too, whatever comes of them.
OwedLosses::Loss OwedLosses::begin_reset(scsi::LuRequest request) {
  request.kind = scsi::LuRequestKind::unit_reset;
  owed_.clear();
  owed_.push_back({{++last_, std::move(request)}, false});
  note();
  return owed_.back();
}

void OwedLosses::answered(std::uint64_t number, bool settled) {
  const Turn turn(busy_);
  const auto owed = std::ranges::find(owed_, number, &Owed::number);
  if (owed == owed_.end()) return;  // a reset stands for it
  owed->is_due = !settled;
  if (settled) owed_.erase(owed);
  note();
}

std::vector<OwedLosses::Loss> OwedLosses::take_due(std::size_t most) {
  const Turn turn(busy_);
  std::vector<Loss> due;
  for (Owed& each : owed_) {
    if (due.size() == most) break;
    if (std::exchange(each.is_due, false)) due.push_back(each);
  }
  note();
  return due;
}

bool OwedLosses::has(const scsi::NexusKey& nexus) const {
  if (!any_.load(std::memory_order_acquire)) return false;
  const Turn turn(busy_);
  return std::ranges::any_of(owed_, [&](const Owed& each) { return is_reset(each) || each.request.nexus == nexus; });
}

void OwedLosses::note() {
  any_.store(!owed_.empty(), std::memory_order_release);
  due_.store(std::ranges::any_of(owed_, &Owed::is_due), std::memory_order_relaxed);
}

}  // namespace lockstep::iscsi_target
