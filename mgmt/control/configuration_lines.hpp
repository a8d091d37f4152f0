#pragma once
// The two nodes' lines of configuration, and what only an operator decides about them: that a node goes on which
// nothing lets, and, where the two have parted, which line ends. Two lines never merge by themselves
// (docs/developer/management.md).
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mgmt/control/node_core.hpp"

namespace lockstep::mgmt {

/// One node's configuration, and of which line it is.
struct ConfigurationLine {
  NodeSide side = NodeSide::a;
  RevisionState state;
  std::shared_ptr<const Configuration> configuration;
};

struct ConfigurationLines {
  ConfigurationLine here;
  std::optional<ConfigurationLine> there;  ///< nothing: there is no partner, or it could not be asked
  std::string why_not;                     ///< why it could not; empty when there is none
  RevisionVerdict verdict = RevisionVerdict::agree;
  CurrentRevision theirs{};  ///< with `there`

  [[nodiscard]] bool parted() const { return there && verdict == RevisionVerdict::conflict; }
};

/// What `given_up` has that `kept` has not, or has otherwise; a sentence each. `here`: the node whose line ends, with
/// its copies in `folder`. Pure.
[[nodiscard]] std::vector<std::string> lost_with(const Configuration& given_up, const Configuration& kept,
                                                 NodeSide here, const std::filesystem::path& folder);

class ConfigurationOperator {
 public:
  /// It outlives this.
  explicit ConfigurationOperator(NodeCore& core) : core_(core) {}
  /// Asks the partner; or, where `why_not_asked` says why, tells of this node's alone.
  [[nodiscard]] Outcome<ConfigurationLines> lines(const std::string& why_not_asked = {});
  /// Gives what was done, in a sentence: where the arbiter lets this node go on nothing is forced. Refusals:
  /// conflict, not_current: why not; confirmation_needed: what is risked, and what `confirm` has to be.
  [[nodiscard]] Outcome<std::string> force(const std::string& confirm);
  /// This node's line ends. Gives what was lost. Refusals as of force().
  [[nodiscard]] Outcome<std::vector<std::string>> give_up(const std::string& confirm);

 private:
  [[nodiscard]] Outcome<void> check_in_pair_of_two() const;
  NodeCore& core_;
};

}  // namespace lockstep::mgmt
