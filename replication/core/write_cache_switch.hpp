#pragma once
// A volume's write cache, put on and off in use. Hosts may be told that it is off when nothing that was acknowledged to
// this node's is cached any more, in either store: what was under way then is over, and all was flushed after that.
// Where a store refuses writes since a flush failed they are not before it is opened anew.
//
// Callers: the mirror, for the operator's word, and with each tick.
#include "replication/core/completions.hpp"
#include "replication/core/front.hpp"
#include "replication/core/local_store.hpp"
#include "replication/core/membership.hpp"

namespace lockstep::replication {

class WriteCacheSwitch {
 public:
  static constexpr engine::Duration kFlushAgain = std::chrono::seconds(1);  ///< where a store failed it

  WriteCacheSwitch(const engine::Clock& clock, LocalStore& store, Completions& completions, Front& front,
                   Membership& membership)
      : clock_(clock), store_(store), completions_(completions), front_(front), membership_(membership) {}

  /// From now on. `told`: hosts may be, perhaps from inside the call; never, where it is put on or off again before.
  void set(bool on, engine::Callback<> told);
  /// A flush that could not be had is tried again.
  void tick();

 private:
  enum class Stage : std::uint8_t {
    settled,
    waits_for_turn,     ///< an earlier switch's requests are under way
    waits_for_earlier,  ///< those that began before this one are
    flushing,           ///< this store, and then both
    waits_for_service,  ///< a flush was not to be had
  };
  void flush();
  void flush_both();
  static void on_flushed(engine::DiskRequest& request);
  void end_flush(std::error_code error);

  const engine::Clock& clock_;
  LocalStore& store_;
  Completions& completions_;
  Front& front_;
  Membership& membership_;
  Stage stage_ = Stage::settled;
  bool again_ = false;  ///< it was switched during a flush: another one counts
  engine::TimePoint again_at_;
  engine::DiskRequest request_;
  engine::Callback<> told_;
};

}  // namespace lockstep::replication
