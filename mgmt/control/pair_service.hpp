#pragma once
// Making a pair, inviting the second node, joining.
//
// The joining node (B) asks with the invitation's secret; the inviting one (A) makes the configuration of two and
// offers it; B keeps it durably as tentative and confirms; A commits, which decides; B commits. Until A has committed,
// both are as before once they have forgotten. If B can't learn whether A committed, it asks until it knows.
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "mgmt/control/job_runner.hpp"
#include "mgmt/control/node_core.hpp"
#include "mgmt/control/replica_agent.hpp"

namespace lockstep::mgmt {

/// What a user may say of a node; what is missing comes from the node's configuration file.
struct NodeWish {
  std::optional<std::string> name;
  std::optional<std::vector<std::string>> portals;
  std::optional<std::string> link_address;
  std::optional<std::string> management_address;
};

struct PairWish {
  std::string name;
  std::string target_name;  ///< empty: made from the name
  NodeWish node;
  Arbiter arbiter;
  PairSettings settings;
};

struct NewInvitation {
  std::string text;
  std::int64_t expires_ms = 0;
};

class PairService {
 public:
  PairService(NodeCore& core, JobRunner& jobs, ReplicaAgent& agent, DataPlane& data_plane);

  [[nodiscard]] Outcome<void> create(const PairWish& wish);
  [[nodiscard]] Outcome<NewInvitation> invite();
  /// What discovery sessions prove themselves with; nothing: they need not.
  [[nodiscard]] Outcome<void> set_discovery(const std::optional<Chap>& chap);
  /// `token`: the one that this request was made with; it stays valid.
  [[nodiscard]] Outcome<Job> join(const std::string& invitation, const NodeWish& node, const Token& token);

  // The inviting node's part; `fingerprint` is of the certificate that the asking node showed.
  [[nodiscard]] Outcome<JoinOffer> on_join(const JoinRequest& request, const std::string& fingerprint);
  [[nodiscard]] Outcome<void> on_confirm(const RevisionId& id, const std::string& fingerprint);

 private:
  StepResult join_step(Job& job);
  StepResult ask(Job& job);
  StepResult confirm(Job& job);
  StepResult settle(Job& job);
  StepResult replicas(Job& job);
  StepResult joined(Job& job);
  void take_over(const RevisionId& id, const Configuration& configuration);
  void forget_join();
  [[nodiscard]] Outcome<void> check_secret(const std::string& secret);
  [[nodiscard]] Outcome<void> check_reachable(const Node& node);

  NodeCore& core_;
  JobRunner& jobs_;
  ReplicaAgent& agent_;
  DataPlane& data_plane_;

  struct Offer {
    JoinOffer offer;
    std::string digest;  ///< of the invitation's secret
    std::string fingerprint;
    std::int64_t until_ms = 0;
  };
  std::mutex mutex_;
  std::optional<Offer> offer_;  ///< the one join under way
};

}  // namespace lockstep::mgmt
