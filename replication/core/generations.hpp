#pragma once
// How a replica is told that was set back in time: by a snapshot of its machine, or a copy of its disk.
//
// Each replica has a generation, which rises while the pair runs: when both enter an epoch, every few seconds in which
// something was written, and before any dirty bit is cleared. The other one keeps the highest that it knows to be
// durable there. One that has less than its partner knows was set back: what was written since, and whose bits were
// cleared since, is missing there and nothing else tells. It is no member until its record says so, and then all of it
// is compared: as a target it marks every region before it takes the generation that the partner knows.
//
// Invariant: a generation is durable at its owner before it is told, so that the partner never knows of a higher one.
//
// Alone, it rises only while the witness holds this very epoch, and so hears of it. A copy that was set back to when it
// was the only member, and serves where nobody hears it, would else count past what its partner knows of it.
//
// Callers: the exchange of states, the cleaner, what deals with the witness, and membership with each tick.
#include <algorithm>

#include "replication/core/applier.hpp"
#include "replication/core/local_store.hpp"
#include "replication/core/messages.hpp"
#include "replication/core/outbound.hpp"
#include "replication/core/regions.hpp"
#include "replication/core/standing.hpp"

namespace lockstep::replication {

/// What a replica's generations tell upwards.
class GenerationsUser {
 public:
  virtual ~GenerationsUser() = default;
  /// This replica was set back, and is marked to be compared as a whole now: the partner should know.
  virtual void on_mended() = 0;
  /// The partner knows of a generation that this process, which told it some, has not reached yet: its memory was set
  /// back, too.
  virtual void on_memory_set_back() = 0;
  /// The witness was seen to hold the present epoch.
  [[nodiscard]] virtual bool witness_holds_this_epoch() const = 0;
};

class Generations {
 public:
  /// At most this long a replica is written to in one generation.
  static constexpr engine::Duration kLongest = std::chrono::seconds(5);

  Generations(const engine::Clock& clock, const Standing& standing, LocalStore& store, Outbound& outbound,
              const Regions& regions, Applier& applier, GenerationsUser& user)
      : clock_(clock),
        standing_(standing),
        store_(store),
        outbound_(outbound),
        regions_(regions),
        applier_(applier),
        user_(user) {}

  /// A new one on both, by the node that orders. `done`: whether both have it; perhaps from inside the call.
  void raise(engine::Callback<bool> done);
  /// The partner, which orders, raises its own.
  void take(InboundRequest& request, const Message& message);
  /// What this replica has, and knows of the partner, in a message about its state.
  void tell(Message& state) const;
  /// The partner's answer to a question that was sent when `asked_with` was durable.
  void learn(const Message& answer, const engine::Knowledge& asked_with);
  /// The partner's question tells what it knows of this replica.
  void learn_of_this(const Message& question);
  /// This replica is known to have reached that generation.
  void expect(std::uint64_t generation) { expected_ = std::max(expected_, generation); }
  /// An operator forces it, set back or not: from the next record on it is what it is.
  void accept_as_it_is();
  /// The partner is another process, or its answer is not known.
  void forget_partner() { partner_set_back_ = false; }

  /// This replica was set back, and has not been marked to be compared yet.
  [[nodiscard]] bool set_back() const;
  /// The partner's was.
  [[nodiscard]] bool partner_set_back() const { return partner_set_back_; }
  void tick();

 private:
  /// Rises that the partner and the witness do not know of: far more than an outage of years has.
  static constexpr std::uint64_t kMostUntold = std::uint64_t{1} << 32;

  void mend();
  void pass_expected();
  void raise_alone();
  void told(const engine::IoResult<Message>& result);
  void finish(bool ok);

  const engine::Clock& clock_;
  const Standing& standing_;
  LocalStore& store_;
  Outbound& outbound_;
  const Regions& regions_;
  Applier& applier_;
  GenerationsUser& user_;
  std::uint64_t expected_ = 0;  ///< of this replica, as the partner knows
  bool heard_ = false;          ///< … which it has told since the volume was attached
  bool partner_set_back_ = false;
  bool raising_ = false, mending_ = false;
  bool told_any_ = false;  ///< the partner knows of one that this process has raised: it knew of no higher one before
  engine::TimePoint raised_at_;
  std::uint64_t written_then_ = 0;
  engine::Callback<bool> done_;
};

}  // namespace lockstep::replication
