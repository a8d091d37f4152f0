#include "iscsi_target/scsi/owed_losses.hpp"

#include <algorithm>
#include <utility>

#include "iscsi_target/scsi/published.hpp"

namespace lockstep::iscsi_target {

OwedLosses::Loss OwedLosses::begin(scsi::LuRequest request) {
  const Turn turn(busy_);
  std::erase_if(owed_, [&](const Owed& each) { return each.is_due && each.request.nexus == request.nexus; });
  if (owed_.size() == kMost) owed_.erase(owed_.begin());
  owed_.push_back({{++last_, std::move(request)}, false});
  note();
  return owed_.back();
}

void OwedLosses::answered(std::uint64_t number, bool settled) {
  const Turn turn(busy_);
  const auto owed = std::ranges::find(owed_, number, &Owed::number);
  if (owed == owed_.end()) return;  // it gave way
  owed->is_due = !settled;
  if (settled) owed_.erase(owed);
  note();
}

std::vector<OwedLosses::Loss> OwedLosses::take_due() {
  const Turn turn(busy_);
  std::vector<Loss> due;
  for (Owed& each : owed_) {
    if (std::exchange(each.is_due, false)) due.push_back(each);
  }
  note();
  return due;
}

bool OwedLosses::has(const scsi::NexusKey& nexus) const {
  if (!any_.load(std::memory_order_acquire)) return false;
  const Turn turn(busy_);
  return std::ranges::any_of(owed_, [&](const Owed& each) { return each.request.nexus == nexus; });
}

void OwedLosses::note() {
  any_.store(!owed_.empty(), std::memory_order_release);
  due_.store(std::ranges::any_of(owed_, &Owed::is_due), std::memory_order_relaxed);
}

}  // namespace lockstep::iscsi_target
