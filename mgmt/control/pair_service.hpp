#pragma once
// Making a pair, inviting the second node or one in the place of a node that is lost, joining.
//
// The joining node asks with the invitation's secret; the inviting one makes the configuration with it and offers it;
// the joining one keeps it durably as tentative and confirms; the inviting one commits, which decides; the joining one
// commits. Until the inviting node has committed, both are as before once they have forgotten. If the joining node
// can't learn whether it committed, it asks until it knows.
//
// A replacement (pair_replace.cpp) is decided by the node that is left, whichever side it has: its partner, without it,
// can't have changed the configuration, but for the one change that it had proposed. That one is taken over.
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "mgmt/control/job_runner.hpp"
#include "mgmt/control/node_core.hpp"
#include "mgmt/control/replica_agent.hpp"

namespace lockstep::mgmt {

struct LinkPathWish;

/// What a user may say of a node; what is missing comes from the node's configuration file.
struct NodeWish {
  std::optional<std::string> name;
  std::optional<std::vector<std::string>> portals;
  std::optional<std::string> link_address;
  std::optional<std::string> management_address;
};

/// This node as it is to stand in the configuration.
[[nodiscard]] Node describe_node(const NodeCore& core, const NodeWish& wish, NodeSide side);

struct PairWish {
  std::string name;
  std::string target_name;  ///< empty: made from the name
  NodeWish node;
  Arbiter arbiter;
  PairSettings settings;
  std::optional<Uuid> id{};  ///< what the witness's user was made for; else a new one
};

/// What may change of a pair that is there; what is not set stays.
struct PairChange {
  std::optional<std::string> name;  ///< for people; the target's name stays
  /// What discovery sessions prove themselves with; nothing within: they need not.
  std::optional<std::optional<Chap>> discovery;
  std::optional<std::int64_t> resync_floor{}, resync_ceiling{};  ///< bytes a second
};

struct NewInvitation {
  std::string text;
  std::int64_t expires_ms = 0;
  std::string undecided{};  ///< of a replacement: what the lost node had proposed and has perhaps decided
};

/// Why a node is to be shut out of the pair: another machine takes its place, or it is let go as lost.
enum class ShutOut : std::uint8_t { replaced, let_go };

/// A node that is to be shut out of the pair, as far as it can still be asked.
struct LostNode {
  std::string found{};       ///< a sentence without its full stop: how it answers, or does not
  bool silent = false;       ///< nobody answers for it
  bool certain = false;      ///< it has changed the configuration alone, which is lost with it
  std::string changes{};     ///< what can be said of such changes; empty: there are none
  std::int64_t reached = 0;  ///< its highest revision that the witness knows of
};

class PairService {
 public:
  using Connect = std::function<std::unique_ptr<MembershipPeer>(const HttpsTarget&)>;

  /// `connect` is for tests; without one other nodes are asked over HTTPS. `is_held_back`: this node's lockstepd has
  /// later orders than the database, and is told nothing.
  PairService(NodeCore& core, JobRunner& jobs, ReplicaAgent& agent, DataPlane& data_plane, Connect connect = {},
              std::function<bool()> is_held_back = {});

  [[nodiscard]] Outcome<void> create(const PairWish& wish);
  /// For the second node. Where the configuration was made anew from one node's replicas it has the place of the other,
  /// and uses the replicas that it has.
  [[nodiscard]] Outcome<NewInvitation> invite();
  /// An invitation for whoever is to have that side in the place of the node that has it now. Refused while that one
  /// answers and has a configuration of the pair, or is silent and its lockstepd connected. `confirm`: its name.
  [[nodiscard]] Outcome<NewInvitation> invite_in_place_of(NodeSide side, const std::string& confirm);
  /// Refused while the node answers and has a configuration of the pair.
  [[nodiscard]] Outcome<LostNode> look_for_lost(const Node& lost, ShutOut why);
  [[nodiscard]] Outcome<void> change(const PairChange& change);
  /// Another name for that node, in use.
  [[nodiscard]] Outcome<void> rename_node(NodeSide side, const std::string& name);
  // Both need both nodes; refusals as of the edits (link_paths.hpp).
  [[nodiscard]] Outcome<void> add_link_path(const LinkPathWish& wish);
  [[nodiscard]] Outcome<void> remove_link_path(const std::string& address);
  /// `token`: the one that this request was made with; it stays valid.
  [[nodiscard]] Outcome<Job> join(const std::string& invitation, const NodeWish& node, const Token& token);

  // The inviting node's part; `fingerprint` is of the certificate that the asking node showed.
  [[nodiscard]] Outcome<JoinOffer> on_join(const JoinRequest& request, const std::string& fingerprint);
  [[nodiscard]] Outcome<void> on_confirm(const RevisionId& id, const std::string& fingerprint);

  /// The part of side A, or of the only node, whenever volumes may have been marked by cut_off_volumes().
  void begin_deleting_cut_off_volumes();
  /// Of a volume that is to be deleted already.
  void begin_deleting(const Volume& volume);

 private:
  StepResult join_step(Job& job);
  StepResult ask(Job& job);
  StepResult confirm(Job& job);
  StepResult settle(Job& job);
  StepResult replicas(Job& job);
  StepResult joined(Job& job);
  StepResult take_over(Job& job, const RevisionId& id, const Configuration& configuration);
  StepResult in_a_pair(Job& job);
  void forget_join();
  [[nodiscard]] NewInvitation new_invitation(std::optional<NodeSide> replaces);
  /// Gives the side that the invitation is for, where that side has a node already.
  [[nodiscard]] Outcome<std::optional<NodeSide>> check_secret(const std::string& secret);
  [[nodiscard]] Outcome<void> check_reachable(const Node& node);
  [[nodiscard]] Outcome<void> check_nothing_served();
  [[nodiscard]] Outcome<void> check_no_volume_jobs();
  Outcome<void> check_no_lone_jobs();
  /// Nobody takes the configuration over from this node, or is let go by it, while it is of the past.
  [[nodiscard]] Outcome<void> check_not_of_the_past() const;
  // pair_replace.cpp
  struct Offer;
  [[nodiscard]] Outcome<Offer> place_for_second(const Node& joining, const Token& token);
  [[nodiscard]] Outcome<Offer> place_of(NodeSide side, const Node& joining, const Token& token);
  struct HowFound {
    HowFound(std::string s, bool is_silent = false) : sentence(std::move(s)), silent(is_silent) {}
    std::string sentence;  ///< as LostNode::found
    bool silent;           ///< nobody answers
  };
  /// What can be said of a node that may be replaced; refused while it may not.
  [[nodiscard]] Outcome<HowFound> ask_of(const Node& lost, ShutOut why);
  [[nodiscard]] Outcome<void> check_still_lost(const Configuration& configuration, const Node& lost);
  [[nodiscard]] std::string place_taken() const;

  NodeCore& core_;
  JobRunner& jobs_;
  ReplicaAgent& agent_;
  DataPlane& data_plane_;
  const Connect connect_;
  const std::function<bool()> is_held_back_;

  struct Offer {
    JoinOffer offer;
    RevisionState over;            ///< nothing may have changed since
    std::optional<Node> replaced;  ///< whose place it is
    std::string undecided;
    std::string digest;  ///< of the invitation's secret
    std::string fingerprint;
    std::int64_t until_ms = 0;
  };
  std::mutex mutex_;
  std::optional<Offer> offer_;  ///< the one join under way
  /// Of the invitation that is good now: what it was agreed that a lost node takes with it. Not kept: without, it is
  /// asked for once more.
  std::vector<Uuid> lost_with_invitation_;
};

}  // namespace lockstep::mgmt
