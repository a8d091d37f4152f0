#include "engine/scsi/ended_tasks.hpp"

#include <algorithm>

namespace lockstep::scsi {
namespace {
bool is_reset(const LuEvent& event) {
  return event.kind == LuAttention::unit_reset || event.kind == LuAttention::bus_reset;
}
}  // namespace

/// PREEMPT raises the same as PREEMPT AND ABORT: who is told of the one has lost nothing by the other, and sends again.
bool ends_tasks(const LuEvent& event) {
  return is_reset(event) || (event.kind == LuAttention::registrations_preempted && !event.nexuses.empty());
}

bool end_tasks_of(std::span<const LuEvent> events, const NexusKey& nexus) {
  return std::ranges::any_of(events,
                             [&](const LuEvent& e) { return is_reset(e) || (ends_tasks(e) && e.concerns(nexus)); });
}

void EndedTasks::note(std::span<const LuEvent> events, engine::TimePoint now) {
  for (const LuEvent& event : events) {
    if (!ends_tasks(event)) continue;
    latest_ = now;
    if (is_reset(event)) {
      of_everybody_ = now;
      ended_.clear();
      continue;
    }
    if (ended_.size() == kMost) {
      of_everybody_ = ended_.front().at;
      ended_.pop_front();
    }
    ended_.push_back({event, now});
  }
}

bool EndedTasks::look(const NexusKey& nexus, engine::TimePoint came) const {
  return came <= of_everybody_ ||
         std::ranges::any_of(ended_, [&](const Ended& each) { return came <= each.at && each.event.concerns(nexus); });
}

}  // namespace lockstep::scsi
