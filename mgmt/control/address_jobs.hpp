#pragma once
// Other addresses for a node of a pair that is in use:
//
//   open -> try [-> move] -> close -> done
//   a failure -> back -> unmake -> failed
//
//   open    revision: the new ones beside those in force. That node listens at both, its partner lets it call from both
//   try     both were seen to carry that out, and each has logged in, and asked, by way of the new ones
//   move    revision: the new ones in force, the old ones beside them. Nothing of portals alone
//   close   both were seen to carry that out, and have tried once more. Revision: the new ones alone
//
// Whichever of two revisions that follow one another each node is at, it listens where the other calls, and lets in
// from where the other calls: there is a way at every moment, whatever dies at whatever step. The session of the link
// moves by itself, when a login on the new way has succeeded (mgmt/data_plane/pair.hpp).
//
// A node whose machine has another address already is reached by nobody at the one in force. Its partner finds it at
// the new one before the job begins (NodeCore::look_for_partner_at()), and the old ones need not work any more.
#include <functional>

#include "mgmt/control/address_change.hpp"
#include "mgmt/control/address_trial.hpp"
#include "mgmt/control/job_runner.hpp"
#include "mgmt/control/one_request.hpp"
#include "mgmt/control/replace_jobs.hpp"

namespace lockstep::mgmt {

constexpr const char* kAddressesKind = "node.addresses";

struct AddressHands {
  std::function<Outcome<NodeReport>(NodeSide)> look;  ///< of this very moment
  std::function<Outcome<AddressProblems>(NodeSide, const AddressTrial&)> try_out;
  std::function<Outcome<RevisionId>(const std::string& summary, const Revisions::Edit&)> change;
  std::function<void(const std::string& address)> look_for_partner_at;
};
[[nodiscard]] AddressHands hands_of(NodeCore& core, const AddressAgent& agent, PairHands pair);

class AddressJobs {
 public:
  static constexpr std::int64_t kTriesForMs = 10'000;   ///< before the way back, where nothing has moved yet
  static constexpr std::int64_t kSettlesInMs = 60'000;  ///< the same where it has

  AddressJobs(NodeCore& core, JobRunner& runner, AddressHands hands, std::function<void()> poke);
  /// For start-up.
  void teach();
  [[nodiscard]] Outcome<Job> change(const AddressWish& wish);

 private:
  struct Task;
  StepResult step(Job& job);
  StepResult open(Task& task);
  StepResult try_new(Task& task);
  StepResult move(Task& task);
  StepResult close(Task& task);
  StepResult back(Task& task);
  StepResult unmake(Task& task);
  StepResult give_up(Task& task, std::string why);
  [[nodiscard]] Outcome<void> may_begin(const AddressWish& wish, const Configuration& configuration) const;
  [[nodiscard]] Outcome<void> can_listen(const AddressChange& change, const Node& node) const;
  /// Nothing when all that the job is about works by way of the new addresses; else a sentence.
  [[nodiscard]] std::optional<std::string> why_not(const Task& task) const;
  [[nodiscard]] std::optional<std::string> why_behind() const;
  using Edit = Node (*)(Node, const AddressChange&);
  [[nodiscard]] Outcome<void> edit(Task& task, const char* what, Edit how);

  NodeCore& core_;
  JobRunner& runner_;
  OneRequest begins_;
  AddressHands hands_;
  std::function<void()> poke_;
};

}  // namespace lockstep::mgmt
