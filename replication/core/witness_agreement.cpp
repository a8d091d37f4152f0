#include "replication/core/witness_agreement.hpp"

#include <limits>

#include "replication/core/marks.hpp"
#include "replication/core/witness_memory.hpp"

namespace lockstep::replication {
namespace {
constexpr std::uint64_t kTellsNothing = 0;
constexpr std::uint64_t kTakenNone = std::numeric_limits<std::uint64_t>::max();

bool is_cluster(std::uint64_t word) { return word != kTellsNothing && word != kTakenNone; }
}  // namespace

std::uint64_t WitnessAgreement::word() const {
  const engine::Knowledge& durable = store_.meta->knowledge();
  if (has_taken_witness(durable)) return durable.witness_cluster;
  return has_taken_witness(store_.known) ? store_.known.witness_cluster : kTakenNone;
}

void WitnessAgreement::learn(const Message& answer, std::uint64_t told) {
  hear(answer.nexus);
  answer_ = Answer{answer.nexus, told};
}

/// Whoever serves alone, or orders in sync, keeps its own; the other one lets go, before it joins an epoch, and in sync
/// also when the one that orders has.
void WitnessAgreement::hear(std::uint64_t word) {
  if (answer_ && answer_->word != word) answer_.reset();
  const bool had = is_cluster(std::exchange(heard_, word));
  if (standing_.is_alone() || chooses()) return;
  const bool is_left = standing_.in_sync() && had && word == kTakenNone;
  if (is_left || differs()) let_go();
}

bool WitnessAgreement::chooses() const { return standing_.in_sync() && standing_.is_sequencer(); }

bool WitnessAgreement::differs() const {
  const std::uint64_t mine = word();
  return is_cluster(mine) && is_cluster(heard_) && mine != heard_;
}

/// The first of all, which holds what the one that orders wrote there in this epoch, is taken before that says so. The
/// partner's word counts for the choice only when it was given after this node's own: one that has taken none, and
/// has heard that this one has neither, takes none until it hears of one.
bool WitnessAgreement::may_take(std::uint64_t cluster) const {
  if (heard_ == kTellsNothing) return true;
  const bool is_first = store_.known.witness_cluster == 0 && heard_ == kTakenNone;
  if (!chooses()) return heard_ == cluster || is_first;
  return answer_ && answer_->told == word() && (answer_->word == kTakenNone || answer_->word == cluster);
}

bool WitnessAgreement::is_to_let_go() const {
  if (heard_ == kTellsNothing || !has_taken_witness(store_.known)) return false;
  return chooses() || heard_ != store_.known.witness_cluster;
}

void WitnessAgreement::let_go() {
  if (standing_.closed() || !has_taken_witness(store_.known)) return;
  mark<"witness.let_go">();
  store_.known = let_go_of_witness(store_.known);
  store_.keep_knowledge();
}

bool WitnessAgreement::take_news() {
  const std::pair now{word(), heard_};
  return std::exchange(seen_, now) != now;
}

}  // namespace lockstep::replication
