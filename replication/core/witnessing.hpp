#pragma once
// One volume's dealings with the witness: asking for {me} when the partner is lost, and raising its record to the epoch
// that this node serves.
//
// What it says counts only beside what was learnt of it before (witness_memory.hpp): a witness that was set back,
// emptied or replaced grants nothing. In sync both nodes look at it now and then, and put it right together: the one
// that orders writes their epoch there, and each takes the witness as it stands when it sees that very epoch, and the
// partner has granted a lease since. Both take the same one (witness_agreement.hpp).
//
// An attempt's number stays undecided (attempted()) until an epoch above it is entered or the witness named another:
// whatever an abandoned attempt still does there is at or below a later agreement's number, and void.
//
// Callers: GoingAlone asks; membership abandons what was asked when both nodes agree, PhaseRunner when an epoch is
// entered.
#include <functional>
#include <optional>
#include <string>

#include "replication/core/arbiter.hpp"
#include "replication/core/generations.hpp"
#include "replication/core/local_store.hpp"
#include "replication/core/look_times.hpp"
#include "replication/core/replica_state.hpp"
#include "replication/core/standing.hpp"
#include "replication/core/witness_agreement.hpp"

namespace lockstep::replication {

/// What the witness's word is judged beside.
class WitnessingUser {
 public:
  virtual ~WitnessingUser() = default;
  [[nodiscard]] virtual ReplicaState state() const = 0;  ///< this replica's
  [[nodiscard]] virtual bool agreed() const = 0;         ///< the partner is known to have recorded this node's epoch
  virtual void tell_partner() = 0;                       ///< which witness this node knows
};

class Witnessing {
 public:
  Witnessing(const NodeSettings& settings, engine::Clock& clock, engine::Random& random, Witness* witness,
             const Standing& standing, LocalStore& store, Generations& generations, WitnessAgreement& agreement,
             WitnessingUser& user, const std::function<void()>& changed)
      : settings_(settings),
        clock_(clock),
        random_(random),
        witness_(witness),
        standing_(standing),
        store_(store),
        generations_(generations),
        agreement_(agreement),
        user_(user),
        changed_(changed) {}
  ~Witnessing();

  /// Asks for {me} until it is won, lost or abandoned. `won` gets the record that the witness holds then.
  void ask(engine::Callback<WitnessRecord> won);
  /// A record {me} starts: only a record of somebody else's above it forbids that.
  enum class StartWord : std::uint8_t { may, may_not, none };  ///< none: it could not be asked
  void confirm(engine::Callback<StartWord> answered);
  /// What it said last, perhaps to an earlier process, forbids it: that holds while it says nothing, too.
  [[nodiscard]] bool forbade_start();
  /// A later state of this replica may be known there. False: it is asked, and `told` says when it has answered; where
  /// it could not be, ask again.
  [[nodiscard]] bool has_told_of_this_replica(engine::Callback<> told);
  /// The nodes agree between themselves, or the partner is back.
  void abandon();
  /// A new epoch is entered: what was asked before is void.
  void settled();
  /// The witness is another one now, or is asked in another way: what it was seen to hold counts no more.
  void look_again();
  void tick();
  /// The witness owes it no answer.
  [[nodiscard]] bool idle() const { return owed_ == 0; }

  [[nodiscard]] bool asking() const { return asking_; }
  [[nodiscard]] std::uint64_t attempted() const { return attempted_; }
  /// It was asked, and let the partner go on alone.
  [[nodiscard]] bool lost() const { return asking_ && lost_; }
  /// It was asked, and did not answer the last time.
  [[nodiscard]] bool unreachable() const { return asking_ && unreachable_; }
  /// It was seen to hold the present epoch; of one that was taken as it stands, that is durable here.
  [[nodiscard]] bool raised() const;
  /// The witness holds a number that the present epoch does not exceed: agree a higher one. 0: no.
  [[nodiscard]] std::uint64_t above() const { return above_; }
  /// The only member, and the witness holds somebody else's epoch above its own: by all that it knows, the partner went
  /// on without it.
  [[nodiscard]] bool overruled() const { return overruled_; }
  [[nodiscard]] const std::string& reason() const { return reason_; }
  /// Why a replica goes on with nobody that was set back (Generations::set_back()).
  [[nodiscard]] static const char* why_set_back();

 private:
  void ask_for_record(engine::Callback<const engine::IoResult<WitnessView>&> answered);
  void ask_to_swap(const WitnessView& seen, const WitnessRecord& record, bool trusted,
                   engine::Callback<const engine::IoResult<SwapOutcome>&> answered);
  void read();
  void consider(const WitnessView& view);
  void swap(const WitnessView& view);
  void win(const WitnessRecord& record);
  void again_after(engine::Duration delay);
  void learn(const WitnessView& view);
  void keep(const WitnessView& view);
  [[nodiscard]] bool is_trusted(const engine::Knowledge& asked_with, const WitnessView& view);
  void raise();
  void raise_over(const WitnessView& view);
  [[nodiscard]] bool serves_against(const WitnessView& view, bool trusted);
  [[nodiscard]] bool is_lost(const std::optional<WitnessRecord>& record) const;
  [[nodiscard]] engine::Duration pause_alone() const;
  void note_raised(const WitnessView& view, bool trusted);
  void believe_when_confirmed();
  void agree_with_partner();
  [[nodiscard]] bool may_take(const WitnessView& view);
  [[nodiscard]] bool beside_partner();
  void let_go_of_old(const WitnessView& view);
  void believe(const WitnessView& view);
  [[nodiscard]] WitnessRecord record_for(std::uint64_t number, const engine::Uuid& epoch,
                                         engine::MemberSet members) const;
  [[nodiscard]] bool is_set_back();
  [[nodiscard]] bool may_refresh(const WitnessRecord& there) const;
  void refresh(const WitnessView& view, const WitnessRecord& record);
  [[nodiscard]] bool mine_was_there() const;
  [[nodiscard]] const engine::Uuid& volume() const { return store_.info.id; }

  const NodeSettings& settings_;
  engine::Clock& clock_;
  engine::Random& random_;
  Witness* witness_;
  const Standing& standing_;
  LocalStore& store_;
  Generations& generations_;
  WitnessAgreement& agreement_;
  WitnessingUser& user_;
  const std::function<void()>& changed_;
  bool asking_ = false, lost_ = false, unreachable_ = false, raising_ = false, raised_ = false, overruled_ = false;
  bool told_of_this_replica_ = false, asking_of_this_replica_ = false;
  std::optional<engine::TimePoint> asked_of_this_replica_;
  /// What it said, in sync, that can't be believed by what was seen of it before.
  struct Unconfirmed {
    WitnessView view;
    engine::TimePoint came;
  };
  std::optional<Unconfirmed> unconfirmed_;
  std::uint64_t run_ = 0, raise_run_ = 0;
  std::uint64_t attempted_ = 0, above_ = 0;
  unsigned owed_ = 0;        ///< answers of the witness's
  unsigned unanswered_ = 0;  ///< looks, one after the other
  WitnessRecord mine_;
  /// What was known when the question was sent: answers may overtake one another.
  engine::Knowledge asked_with_, raised_with_;
  engine::Callback<WitnessRecord> won_;
  engine::TimerId timer_{};
  const LookTimes look_times_{settings_.pair, settings_.side};
  engine::TimePoint next_raise_, looked_at_, next_refresh_;
  std::string reason_;
};

}  // namespace lockstep::replication
