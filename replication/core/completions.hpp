#pragma once
// How operations end, whoever they came from: an initiator's request when its last piece is over, a forward of the
// partner's by its entry. And where they wait instead of ending: for a transition, or for the sessions to be closed.
//
// Requires: an operation that is given here is in no list. Callers: the parts that carry operations out; front alone
// takes out again what is held.
#include <array>

#include "replication/core/forward_entries.hpp"
#include "replication/core/lu_state_in_force.hpp"
#include "replication/core/operations.hpp"
#include "replication/core/partner.hpp"
#include "replication/core/resync_governor.hpp"
#include "replication/core/standing.hpp"

namespace lockstep::replication {

class Completions {
 public:
  Completions(const Partner& partner, const Standing& standing, Operations& operations, LuStateInForce& in_force,
              ForwardEntries& entries)
      : partner_(partner), standing_(standing), operations_(operations), in_force_(in_force), entries_(entries) {}
  ~Completions();

  List<Op> held;  ///< at the gate, until front routes or drops them

  /// A request with no pieces yet. Each piece is counted by its maker, and given back when it is over.
  [[nodiscard]] Parent& begin(engine::DiskRequest& request);
  void give_back(Parent& parent);
  /// The operation is over, whoever it came from. `op` is gone afterwards, or held.
  void finish(Op& op, std::error_code status);
  void hold(Op& op);
  /// The request ends, `op` goes on without it.
  void end_request_of(Op& op, std::error_code status);
  /// A forward of the partner's is durable here, and ordered; it is not over.
  void half_done(const Op& op);
  /// The request is over: answered, or withheld until the sessions are closed, for good in a process that was set back.
  void conclude(engine::DiskRequest& request);
  /// The sessions were closed: what failed meanwhile ends, too.
  void answer_withheld();
  /// How long operations take is told there from now on; null: nowhere.
  void measure(ResyncGovernor* governor) { governor_ = governor; }
  /// No request is under way that began before the last turn; one turn at a time.
  [[nodiscard]] bool earlier_are_over() const { return under_way_[1 - turn_] == 0; }
  void begin_turn() { turn_ = 1 - turn_; }
  [[nodiscard]] bool holds_something() const { return !held.empty(); }
  [[nodiscard]] bool idle() const { return parents_.in_use() == 0 && !withheld_; }

 private:
  [[nodiscard]] bool waits_for_this_node(const Op& op, std::error_code status) const;
  void note_latency(const Op& op);
  static void note_failure(engine::DiskRequest& request, const Op& op, std::error_code status);

  const Partner& partner_;
  const Standing& standing_;
  Operations& operations_;
  LuStateInForce& in_force_;
  ForwardEntries& entries_;
  ResyncGovernor* governor_ = nullptr;  ///< while a resync is under way
  Pool<Parent> parents_;
  unsigned turn_ = 0;
  std::array<std::size_t, 2> under_way_{};   ///< by the turn that they began in
  engine::DiskRequest* withheld_ = nullptr;  ///< failed while the sessions are about to be closed
};

}  // namespace lockstep::replication
