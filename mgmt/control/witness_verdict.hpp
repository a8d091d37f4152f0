#pragma once
// How far both nodes are with another witness, from what their lockstepds say of themselves. Pure.
#include <array>
#include <optional>
#include <string>

#include "mgmt/control/configuration.hpp"
#include "mgmt/control/node_report.hpp"

namespace lockstep::mgmt {

/// Both nodes, seen one after the other; each told of this very moment by its lockstepd.
struct BothNodes {
  const Configuration* configuration = nullptr;
  std::array<NodeReport, 2> reports;  ///< by side

  [[nodiscard]] const NodeReport& at(NodeSide side) const { return reports[static_cast<std::size_t>(side)]; }
};

/// Nothing when the nodes are connected and every volume is in sync on both; else a sentence that says what is not.
[[nodiscard]] std::optional<std::string> why_not_in_sync(const BothNodes& nodes);

/// Nothing when both lockstepds carry out at least this revision and ask no witness; else a sentence.
[[nodiscard]] std::optional<std::string> why_still_asking(const BothNodes& nodes, std::int64_t revision);

/// What a volume's epoch names, in the words of lockstepd's status.
[[nodiscard]] std::string arbiter_name(const Arbiter& arbiter);

/// Nothing when each volume's epoch names this arbiter, on both nodes; else a sentence. Of a lockstepd that does not
/// tell, `silent_is_well` says.
[[nodiscard]] std::optional<std::string> why_named_otherwise(const BothNodes& nodes, const std::string& arbiter,
                                                             bool silent_is_well);

/// A sentence where a lockstepd does not tell what its volumes' epochs name: it can't change that.
[[nodiscard]] std::optional<std::string> why_silent(const BothNodes& nodes);

/// How many volumes' epochs the witness in force was seen to hold, by both nodes.
struct Learnt {
  std::size_t volumes = 0, of = 0;
  std::string missing;  ///< a sentence about the first that is not there; empty when all is done
  [[nodiscard]] bool done() const { return missing.empty(); }
};
/// A node's metadata knows the witness then, so that any other grants it nothing (replication/core/witness_memory.hpp).
[[nodiscard]] Learnt learnt_by(const BothNodes& nodes, std::int64_t revision);
/// The same of a preferred side: how many volumes' epochs name it on both nodes.
[[nodiscard]] Learnt learnt_preference(const BothNodes& nodes, std::int64_t revision, const Arbiter& preferred);

}  // namespace lockstep::mgmt
