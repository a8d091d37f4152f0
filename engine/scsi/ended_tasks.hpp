#pragma once
// Which commands changes of a unit's state have ended: a reset those of every nexus (SAM-5 6.3.3), PREEMPT AND ABORT
// those of the nexuses whose registrations it removed (SPC-4 5.12.11.5). What such a command has waiting ends with the
// change; of one that goes on by further requests, or waits in its session, nothing more is to begin after it.
//
// Both moments are the clock's of one node: when the command came to it, and when the change did. Guarantees: what came
// before a change that ends it is covered for as long as this lives. It takes a bounded amount of memory.
#include <deque>
#include <span>

#include "engine/scsi/lu_state.hpp"
#include "engine/seams/clock.hpp"

namespace lockstep::scsi {

/// `event` is of a change that ends commands, of whomever.
[[nodiscard]] bool ends_tasks(const LuEvent& event);
/// The same of one of `events`, and of commands of `nexus`.
[[nodiscard]] bool end_tasks_of(std::span<const LuEvent> events, const NexusKey& nexus);

class EndedTasks {
 public:
  /// Of what came by `begun`, before anybody here noted what changes ended: it counts as ended.
  explicit EndedTasks(engine::TimePoint begun) : latest_(begun), of_everybody_(begun) {}
  /// What has come by `now` is ended by a change with these events.
  void note(std::span<const LuEvent> events, engine::TimePoint now);
  [[nodiscard]] bool covers(const NexusKey& nexus, engine::TimePoint came) const {
    return came <= latest_ && look(nexus, came);
  }

 private:
  struct Ended {
    LuEvent event;
    engine::TimePoint at;
  };
  /// Changes that ended some nexuses' commands. More: the oldest counts as one that ended everybody's.
  static constexpr std::size_t kMost = 64;
  [[nodiscard]] bool look(const NexusKey& nexus, engine::TimePoint came) const;

  engine::TimePoint latest_;        ///< of all changes,
  engine::TimePoint of_everybody_;  ///< … and of those that ended everybody's
  std::deque<Ended> ended_;         ///< the others, oldest first
};

}  // namespace lockstep::scsi
