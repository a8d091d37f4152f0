#pragma once
// Which witness each of the two nodes knows, as they tell one another. Two that know different ones could both win, so
// the node that orders chooses: it takes a witness when its partner knows none or that one, and the other node takes
// what the one that orders has. A node that is to know another one lets go of the old one first, durably.
//
// Invariant: of two replicas that have told one another of theirs, not both have durably taken witnesses that differ.
// Callers: the exchange of states tells and learns; Witnessing asks.
#include <cstdint>
#include <optional>

#include "replication/core/local_store.hpp"
#include "replication/core/messages.hpp"
#include "replication/core/standing.hpp"

namespace lockstep::replication {

class WitnessAgreement {
 public:
  WitnessAgreement(const Standing& standing, LocalStore& store) : standing_(standing), store_(store) {}

  /// What this node tells: a cluster's id, or that it has taken none. Of one that is about to take the place of
  /// another the old one, as long as that is what is durable.
  [[nodiscard]] std::uint64_t word() const;
  void tell(Message& state) { state.nexus = told_ = word(); }
  /// The partner has not been told of what word() is by now.
  [[nodiscard]] bool is_untold() const { return told_ != word(); }
  /// The partner's question.
  void learn(const Message& question) { hear(question.nexus); }
  /// The partner's answer to a question that said `told`.
  void learn(const Message& answer, std::uint64_t told);

  /// Both have taken one, and not the same.
  [[nodiscard]] bool differs() const;
  /// This node, which knows no witness or is to know another one than before, may take that one.
  [[nodiscard]] bool may_take(std::uint64_t cluster) const;
  /// A witness answers that is not the one that this node has taken: whether to let go of that.
  [[nodiscard]] bool is_to_let_go() const;
  void let_go();
  /// What either node says has changed since the last call.
  [[nodiscard]] bool take_news();

 private:
  struct Answer {
    std::uint64_t word, told;
  };
  void hear(std::uint64_t word);
  [[nodiscard]] bool chooses() const;

  const Standing& standing_;
  LocalStore& store_;
  std::uint64_t told_ = 0;
  std::uint64_t heard_ = 0;  ///< the partner's word; 0: it tells none, as a version before this
  std::optional<Answer> answer_;
  std::pair<std::uint64_t, std::uint64_t> seen_{};  ///< of take_news(): this node's word, and the partner's
};

}  // namespace lockstep::replication
