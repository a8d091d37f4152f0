#pragma once
// Without the partner: what the arbiter lets this node do, and when it may. Until then its initiators' sessions are
// kept, as long as it may still be this node that goes on.
//
// Requires: a replica that serves nothing. Guarantees: it goes on alone only by its own record, the arbiter's word or
// an operator's, with a store that returned everything, and when every lease that it granted has run out. Callers:
// membership, with each tick, and for an operator's force.
#include <optional>
#include <string>

#include "replication/core/epoch_steps.hpp"
#include "replication/core/mirror_parts.hpp"
#include "replication/core/phase_runner.hpp"
#include "replication/core/state_exchange.hpp"
#include "replication/core/store_watch.hpp"
#include "replication/core/verdict.hpp"

namespace lockstep::replication {

/// What is asked of membership, and told.
class AloneUser {
 public:
  virtual ~AloneUser() = default;
  [[nodiscard]] virtual ReplicaState state() const = 0;     ///< this replica's
  [[nodiscard]] virtual bool sees_split_brain() const = 0;  ///< with the partner as it is connected now
  /// What this process asked for is done; `forced`: by an operator.
  virtual void on_gone_alone(bool forced) = 0;
};

class GoingAlone {
 public:
  /// Leases: for one to run out, then the arbiter's answer; or for a step that may wait for three.
  static constexpr int kDecidesWithin = 4;

  GoingAlone(const MirrorParts& parts, StoreWatch& store_watch, const StateExchange& exchange, EpochSteps& steps,
             PhaseRunner& phases, AloneUser& user);

  /// First of all: a process before this one may have granted leases until now.
  void begin() { attached_ = clock_.now(); }
  [[nodiscard]] engine::TimePoint attached() const { return attached_; }
  /// Nobody to talk to (or nobody that can agree): the record, the witness or the preference decides.
  void decide_without_partner();
  /// The only member by its record, and about to know whether it starts: true for a bounded time only.
  [[nodiscard]] bool starts_soon() const {
    return confirming_ && clock_.now() - attached_ < kDecidesWithin * settings_.lease;
  }
  /// Has the store prove that it works, then decides.
  void prove_store() { static_cast<void>(store_is_proven()); }
  /// The next epoch is this node's alone as soon as leases are over.
  void want(engine::EpochRecord next, bool forced);
  /// … and no other epoch was recorded since.
  [[nodiscard]] bool is_wanted() const;
  /// The nodes agree between themselves, or the volume is detached.
  void forget() { pending_.reset(); }
  void go_when_leases_are_over();
  /// The partner is a member of an epoch that follows the recorded one: by that record this node starts no more.
  void note_left_behind() { left_behind_in_ = standing_.epoch().id; }
  /// As the partner said itself. Whoever is heard of since, another process of its or nobody, takes nothing of that
  /// back.
  [[nodiscard]] bool partner_went_on() const { return left_behind_in_ == standing_.epoch().id; }
  /// … without this replica, the only member by its record: one of the two was set back.
  [[nodiscard]] bool is_left_behind() const {
    return partner_went_on() && standing_.epoch().members == engine::MemberSet::only(standing_.side());
  }
  /// The partner asks for a lease in that epoch. False: it gets none.
  [[nodiscard]] bool grant(const engine::Uuid& epoch);
  void watch_kept_sessions();
  /// The arbiter is `fence`: why this node does not go on.
  [[nodiscard]] std::string why_not_fenced() const;

 private:
  struct Pending {
    engine::Uuid from;  ///< the epoch in which it was decided
    engine::EpochRecord next;
    bool forced = false;
  };
  /// The witness owes a word: since when, and whether a question is under way.
  struct Confirming {
    engine::TimePoint since, looked;
    bool asked = false;
  };
  struct FenceAsked {
    engine::Uuid epoch;  ///< that this node wants to go on from
    engine::TimePoint since;
  };
  [[nodiscard]] Arbiters configured() const { return {witness_ != nullptr, fencing_ && fencing_->configured()}; }
  [[nodiscard]] bool hears_nobody() const;
  /// A process that has just started lets its partner call first.
  [[nodiscard]] engine::TimePoint partner_calls_until() const { return attached_ + settings_.lease; }
  void confirm_start();
  void take_word(Witnessing::StartWord word);
  void start();
  [[nodiscard]] bool store_is_proven();
  [[nodiscard]] bool no_process_is_in_this_epoch();
  [[nodiscard]] bool goes_on_soon() const;

  const NodeSettings& settings_;
  const engine::Clock& clock_;
  engine::Random& random_;
  const Witness* witness_;
  Fencing* fencing_;
  const Partner& partner_;
  const Standing& standing_;
  const LocalStore& store_;
  Witnessing& witnessing_;
  LuStateKeeper& lu_;
  StoreWatch& store_watch_;
  const StateExchange& exchange_;
  EpochSteps& steps_;
  PhaseRunner& phases_;
  AloneUser& user_;
  std::optional<Confirming> confirming_;
  std::uint64_t confirm_run_ = 0;
  engine::TimePoint attached_, confirm_again_;
  engine::TimePoint last_grant_;  ///< when this node last granted a lease, or may have (a process before this one)
  std::optional<Pending> pending_;
  FenceAsked fence_asked_;
  engine::Uuid left_behind_in_;
};

}  // namespace lockstep::replication
