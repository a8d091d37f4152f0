#pragma once
// A node leaves its pair, and the pair is dissolved. The node that stays runs the job:
//
//   pair.leave     leave -> retire -> detach -> decide -> release -> forget -> done
//                  a failure before decide -> back_out -> back_in -> failed
//                  the other node is lost for good: decide -> forget -> done
//   pair.dissolve  delete -> decide -> release -> forget -> stop -> clear -> end
//   pair.release   stop -> clear -> end, on the node that left
//
// A volume's identity (IQN, LUN, serial number) stays on exactly one side: the other's copies leave by agreement and
// are detached before the pair's new epoch, of one node, is committed. That decides; from then on nothing is taken
// back. The node that left removes its copies and forgets the pair, in a job of its own; until it has, and if it never
// does, it is refused by name, has no link secret that is good, and holds copies that name themselves no members. Every
// step may be taken again (docs/developer/management.md).
#include <functional>
#include <optional>

#include "mgmt/control/leave_verdict.hpp"
#include "mgmt/control/one_request.hpp"
#include "mgmt/control/pair_service.hpp"
#include "mgmt/control/replace_jobs.hpp"

namespace lockstep::mgmt {

constexpr const char* kLeaveKind = "pair.leave";
constexpr const char* kDissolveKind = "pair.dissolve";
constexpr const char* kReleaseKind = "pair.release";
/// Of a dissolution's parameters: its volumes were marked to be deleted.
constexpr const char* kHasMarked = "has_marked";

struct LeaveWish {
  NodeSide side = NodeSide::a;  ///< who leaves
  bool lost = false;            ///< it can't be reached, for good: it is let go without its doing
  std::string confirm;          ///< its name
};

struct DissolveWish {
  bool delete_volumes = false;
  std::string confirm;  ///< the pair's name
};

/// How the steps reach the two nodes.
struct LeaveHands {
  std::function<Outcome<NodeReport>(NodeSide)> look;  ///< of this very moment
  std::function<Outcome<void>(NodeSide, const ReplicaOrder&)> carry_out;
  std::function<Outcome<RevisionId>(const std::string& summary, const Revisions::Edit&)> change;
  std::function<Outcome<CurrentRevision>()> ask_partner;
  /// All copies on that side out of service, or in again; whichever node orders changes.
  std::function<Outcome<void>(NodeSide, bool retired)> retire;
  std::function<Outcome<LostNode>(const Node&)> look_for_lost;
  std::function<void()> delete_cut_off;  ///< volumes whose jobs were lost with the lost node
  /// Has the node that left forget the pair. Done when it is in that pair no more; not_current while it is.
  std::function<Outcome<void>(const Node&, const Uuid& pair)> release;
  /// Removes the records of the pair and its volumes at the witness with that endpoint.
  std::function<Outcome<void>(const std::string& endpoint, const Configuration&)> forget;
  std::function<Outcome<void>()> end_lockstepd;  ///< this node's; it is started anew by whoever watches over it
};
[[nodiscard]] LeaveHands hands_of(NodeCore& core, DataPlane& data_plane, PairService& pair, PairHands hands);

/// A revision in which every copy on that side is out of service, or in service again.
[[nodiscard]] Outcome<void> retire_copies(NodeCore& core, NodeSide side, bool retired);

/// That node lets another one go from the pair at present.
[[nodiscard]] bool lets_go(const NodeCore& core, const Uuid& runner);

class LeaveJobs {
 public:
  LeaveJobs(NodeCore& core, JobRunner& runner, LeaveHands hands, std::function<void()> poke);
  /// For start-up.
  void teach();
  /// On the node that stays; on one that is known to be out of the pair already, for itself.
  [[nodiscard]] Outcome<Job> leave(const LeaveWish& wish);
  [[nodiscard]] Outcome<Job> dissolve(const DissolveWish& wish);
  /// The partner has decided that this node is out. Done when this node is not in that pair; not_current while it is.
  [[nodiscard]] Outcome<void> on_release(const Uuid& pair, bool from_partner);

 private:
  struct Task;
  // leave_requests.cpp
  [[nodiscard]] Outcome<void> check_idle(bool lost) const;
  [[nodiscard]] Outcome<void> check_present(const Configuration& configuration, NodeSide side) const;
  struct GoesWith;
  [[nodiscard]] Outcome<GoesWith> check_lost(const Configuration& configuration, NodeSide side) const;
  static std::unexpected<Refusal> ask_to_let_go(const Configuration& configuration, const Node& lost,
                                                const GoesWith& goes);
  // leave_jobs.cpp
  StepResult step(Job& job);
  StepResult take(Task& task);
  StepResult leave(Task& task);
  StepResult retire(Task& task);
  StepResult detach(Task& task);
  StepResult remove_volumes(Task& task);
  std::optional<std::string> delete_volume(Task& task, const Volume& volume);
  StepResult decide(Task& task);
  StepResult release(Task& task);
  StepResult forget(Task& task);
  StepResult back_out(Task& task);
  StepResult back_in(Task& task);
  StepResult give_up(Task& task, Refusal reason);
  // leave_release.cpp
  StepResult stop(Task& task);
  StepResult clear(Task& task);
  StepResult end(Task& task);
  [[nodiscard]] Outcome<Job> release_here(const std::string& confirm);
  [[nodiscard]] Outcome<Job> begin_release();

  [[nodiscard]] Outcome<CopyView> look(const Configuration& configuration, NodeSide side) const;
  [[nodiscard]] std::optional<std::string> why_given_up(const Task& task) const;
  [[nodiscard]] bool lost_is_let_go(const Task& dissolution) const;
  [[nodiscard]] std::optional<std::string> why_not_detached(const Task& task) const;
  /// Gives the highest revision that there may be.
  [[nodiscard]] Outcome<std::int64_t> may_decide(const Task& task, const Revisions::Newest& newest) const;
  [[nodiscard]] Outcome<RevisionId> mark_deleting(const Task& task);

  NodeCore& core_;
  JobRunner& runner_;
  OneRequest begins_;
  LeaveHands hands_;
  std::function<void()> poke_;
};

}  // namespace lockstep::mgmt
