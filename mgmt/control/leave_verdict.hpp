#pragma once
// Whether a node may leave its pair now, from what both lockstepds say of the volumes. Pure.
#include <optional>
#include <string>
#include <vector>

#include "mgmt/control/replace_verdict.hpp"

namespace lockstep::mgmt {

/// Why the node `stays` could not go on with the volume without `leaves`; nothing: it has it whole, alone or with the
/// other in sync.
[[nodiscard]] std::optional<std::string> why_not_left(const CopyView& stays, const CopyView& leaves,
                                                      const Volume& volume);
/// Why `stays` is not known to be the only member of the volume's epoch and to serve it; nothing: it is.
[[nodiscard]] std::optional<std::string> why_not_alone(const CopyView& stays, const Volume& volume);
[[nodiscard]] std::vector<const Volume*> not_served_alone(const CopyView& stays, const Configuration& configuration);
/// "vm1 is waiting, vm2 is in_sync, and 7 more".
[[nodiscard]] std::string with_states(const CopyView& copy, const std::vector<const Volume*>& volumes);
/// Both copies went on alone, and the one on `stays` serves: with the other's node its changes are lost.
[[nodiscard]] bool is_kept_in_a_split(const CopyView& stays, const Volume& volume);
/// In use, with its only copy on the other node: the one here is not made yet.
[[nodiscard]] bool is_only_elsewhere(const Volume& volume, NodeSide here);
/// The volume is not one that hosts use, or is not yet.
[[nodiscard]] std::optional<std::string> why_not_settled(const Volume& volume);

}  // namespace lockstep::mgmt
