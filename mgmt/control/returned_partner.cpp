#include "mgmt/control/returned_partner.hpp"

#include <algorithm>

#include "mgmt/control/volume_edits.hpp"

namespace lockstep::mgmt {

bool ReturnedPartner::is_due(const Volume& volume) {
  const auto now = std::chrono::steady_clock::now();
  const auto begun = begun_.find(volume.id);
  if (begun != begun_.end() && now - begun->second < kTryAgain) return false;
  const auto unfinished = core_.jobs.unfinished();
  if (std::ranges::find(unfinished, std::optional(volume.id), &Job::volume) != unfinished.end()) return false;
  begun_[volume.id] = now;
  return true;
}

void ReturnedPartner::turn() {
  const auto configuration = core_.configuration();
  if (configuration->nodes.size() != 2 || !core_.revisions.state().epoch.members.is_both()) return;
  if (!core_.orders_changes() || core_.revisions.conflict()) return;
  std::erase_if(begun_, [&](const auto& entry) { return !configuration->volume(entry.first); });
  for (const auto& volume : configuration->volumes) {
    for (const NodeSide side : {NodeSide::a, NodeSide::b}) {
      const Owed owed = owed_on(volume, side);
      if (owed == Owed::nothing || !is_due(volume)) continue;
      owed == Owed::copy ? replacing_.make_first(volume, side) : pair_.begin_deleting(volume);
    }
  }
}

}  // namespace lockstep::mgmt
