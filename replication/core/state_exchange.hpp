#pragma once
// The states of the two replicas, told to one another: this node's question with its own state, the partner's answer,
// and the answers to the partner's questions.
//
// Guarantees: an answer counts only on the way out on which it was asked for, and the way is ready from the first one
// on. An answer of this node's is its word that nothing that came by older sessions is started any more. Callers:
// membership, which acts on what is learnt.
#include <functional>
#include <optional>
#include <vector>

#include "replication/core/applier.hpp"
#include "replication/core/generations.hpp"
#include "replication/core/growth.hpp"
#include "replication/core/local_store.hpp"
#include "replication/core/lu_state_keeper.hpp"
#include "replication/core/outbound.hpp"
#include "replication/core/partner.hpp"
#include "replication/core/replica_state.hpp"
#include "replication/core/standing.hpp"
#include "replication/core/witness_agreement.hpp"

namespace lockstep::replication {

/// What the exchange asks of membership, and tells it.
class ExchangeUser {
 public:
  virtual ~ExchangeUser() = default;
  [[nodiscard]] virtual ReplicaState state() const = 0;      ///< this replica's
  [[nodiscard]] virtual bool may_tell_state() const = 0;     ///< it is not about to become another one
  [[nodiscard]] virtual bool waits_for_partner() const = 0;  ///< the next step is the partner's
  /// `first`: on this way out.
  virtual void on_partner_state(const ReplicaState& theirs, bool first) = 0;
  virtual void on_partner_unfit(const std::string& why) = 0;
  virtual void on_asked(bool learnt) = 0;  ///< a question was answered, or the way was lost
};

class StateExchange {
 public:
  StateExchange(const engine::Clock& clock, const Partner& partner, const Standing& standing, const LocalStore& store,
                Outbound& outbound, Applier& applier, Generations& generations, WitnessAgreement& witness_agreement,
                LuStateKeeper& lu, Growth& growth, const std::function<void()>& changed, ExchangeUser& user)
      : clock_(clock),
        partner_(partner),
        standing_(standing),
        store_(store),
        outbound_(outbound),
        applier_(applier),
        generations_(generations),
        witness_agreement_(witness_agreement),
        lu_(lu),
        growth_(growth),
        changed_(changed),
        user_(user) {}

  /// Tells the partner where this replica stands, and asks where its own does. One question at a time.
  void ask();
  void take(std::uint64_t session, InboundRequest& request, const Message& message);
  /// What waits for this node's answer gets it, where that may be told.
  void answer_states();
  void refuse_states();  ///< the volume is not served here any more

  /// An answer that is on its way counts no more; ask anew.
  void restart();
  /// The way out is lost, and with it what was known by it.
  void on_disconnected();
  void forget_partner() { partner_state_.reset(); }
  /// Both recorded this epoch.
  void note_agreed() { agreed_ = standing_.epoch().id; }

  /// As it was told last, by this or an earlier process of the pair's; none after another process of the partner's
  /// came.
  [[nodiscard]] const std::optional<ReplicaState>& partner() const { return partner_state_; }
  /// The partner is known to have recorded this node's epoch.
  [[nodiscard]] bool agreed() const { return agreed_ == standing_.epoch().id; }
  /// The partner has no such volume.
  [[nodiscard]] bool partner_unknown() const { return partner_unknown_; }
  /// The volume grew there to more than this replica has room for.
  [[nodiscard]] bool partner_is_larger() const { return partner_is_larger_; }
  [[nodiscard]] engine::TimePoint asked_at() const { return asked_at_; }
  /// Another one after each loss of the way out.
  [[nodiscard]] std::uint64_t run() const { return run_; }
  /// Nobody waits for an answer of this node's.
  [[nodiscard]] bool idle() const { return states_to_answer_.empty(); }

 private:
  struct WaitingState {
    InboundRequest* request;
    Message message;
  };
  [[nodiscard]] Message state_message() const;
  void on_state(std::uint64_t run, const engine::IoResult<Message>& result, std::span<const std::byte> payload);
  [[nodiscard]] bool learn_state(const engine::IoResult<Message>& result, std::span<const std::byte> payload);

  const engine::Clock& clock_;
  const Partner& partner_;
  const Standing& standing_;
  const LocalStore& store_;
  Outbound& outbound_;
  Applier& applier_;
  Generations& generations_;
  WitnessAgreement& witness_agreement_;
  LuStateKeeper& lu_;
  Growth& growth_;
  const std::function<void()>& changed_;
  ExchangeUser& user_;
  bool asking_ = false;
  std::uint64_t run_ = 0;
  engine::TimePoint asked_at_;
  std::optional<ReplicaState> partner_state_;
  bool partner_unknown_ = false, partner_is_larger_ = false;
  engine::Uuid agreed_;  ///< the last epoch that the partner is known to have recorded
  std::vector<WaitingState> states_to_answer_;
};

}  // namespace lockstep::replication
