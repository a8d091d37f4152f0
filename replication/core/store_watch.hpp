#pragma once
// What this node's store holds and has not returned, and since when: whether it hangs, may be about to fail, or has
// shown that it works.
//
// Guarantees: nothing changes but its own flushes; what follows from an answer is membership's to do. Callers:
// membership, with each tick and before each decision that rests on the store.
#include <optional>

#include "replication/core/applier.hpp"
#include "replication/core/local_store.hpp"
#include "replication/core/resync.hpp"
#include "replication/core/sequencer.hpp"
#include "replication/core/standing.hpp"

namespace lockstep::replication {

class StoreWatch {
 public:
  StoreWatch(const NodeSettings& settings, const engine::Clock& clock, const Standing& standing, LocalStore& store,
             Sequencer& sequencer, Applier& applier, Resync& resync)
      : settings_(settings),
        clock_(clock),
        standing_(standing),
        store_(store),
        sequencer_(sequencer),
        applier_(applier),
        resync_(resync) {}

  /// First of all: the process is awake from now on.
  void begin() { last_tick_ = clock_.now(); }
  /// With each tick: a process that stood still finds its store's operations as old as that, and some of them done
  /// already.
  void watch_own_ticks(engine::TimePoint now);
  /// Such a process has not read yet what its store completed meanwhile.
  [[nodiscard]] bool unread() const { return clock_.now() < unread_until_; }

  /// Everything that the store was given is made durable. A flush that hangs is not excused by a later one.
  void flush(engine::IoCallback done);
  [[nodiscard]] bool idle() const { return flushing_ == 0; }
  /// It has completed a flush that began after the partner was lost, or need not; and its metadata has taken the
  /// present record once more, since then or, in a process that has not served yet, since that began.
  [[nodiscard]] bool is_proven() const;
  /// Begins both, if they are not under way. `proven` runs only when they went well, and the volume is not detached.
  void prove(engine::Callback<> proven);

  /// What begins with prove() waits for the metadata for longer than a store may be silent.
  [[nodiscard]] bool record_hangs() const;

  /// It holds something for too long, whatever else it completes, or has completed nothing while it held something.
  [[nodiscard]] bool hangs() const;
  /// It has completed nothing for a lease, and holds something: it may be about to fail. Only of interest while this
  /// node serves nothing.
  [[nodiscard]] bool is_suspect() const;
  /// It has something.
  [[nodiscard]] bool owes() const;
  [[nodiscard]] bool owes_since(engine::TimePoint limit) const;
  /// Something that it returned with an error is open: in an epoch of both for as long as that lasts, for neither node
  /// carries it out again.
  [[nodiscard]] bool left_failed_work() const { return sequencer_.has_failed() || applier_.has_failed(); }
  /// A target takes no data before its store has returned what it was given when this replica was a member: that would
  /// land on what the partner sends. It serves meanwhile, through the partner.
  [[nodiscard]] bool owes_old_work() const;
  /// True once, when it owes such work no more.
  [[nodiscard]] bool old_work_ended();
  /// So long ago, or at the beginning of time.
  [[nodiscard]] engine::TimePoint ago(engine::Duration time) const;

 private:
  [[nodiscard]] bool owes_own_work() const;
  void end_proof(bool good);

  const NodeSettings& settings_;
  const engine::Clock& clock_;
  const Standing& standing_;
  LocalStore& store_;
  Sequencer& sequencer_;
  Applier& applier_;
  Resync& resync_;
  unsigned proving_ = 0;  ///< what is under way of what shows whether the store, and its metadata, stand still
  bool proof_good_ = false;
  engine::TimePoint proof_began_;
  bool rewriting_ = false;  ///< the record, since then
  engine::Callback<> proven_;
  std::optional<engine::TimePoint> proven_at_;
  unsigned flushing_ = 0;
  engine::TimePoint flush_began_;
  engine::TimePoint last_tick_, unread_until_;
  bool owed_old_work_ = false;  ///< when it was last looked
};

}  // namespace lockstep::replication
