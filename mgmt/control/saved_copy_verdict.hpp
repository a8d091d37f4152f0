#pragma once
// What a saved copy of the configuration does not know, judged by what lockstepd was told since and by the replicas
// that are there: a copy may be of any earlier day, as one from a backup is. Pure.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mgmt/control/found_replicas.hpp"
#include "mgmt/control/node_report.hpp"
#include "mgmt/control/saved_configuration.hpp"

namespace lockstep::mgmt {

struct SavedCopyVerdict {
  std::int64_t told = 0;  ///< the last revision that this node's lockstepd was told; 0: none, or it does not answer
  /// A volume that is unfinished in the copy, and whose end is not known, or was good: it is kept.
  struct Kept {
    Uuid volume;
    bool closed = false;  ///< perhaps only a part of it was filled, and nobody is known to use it: no host may
  };
  std::vector<Kept> kept;
  /// This node's copy of a volume that took the place of the one that is named.
  struct Later {
    Uuid volume;
    std::int64_t number = 0;  ///< Copy::number
  };
  std::vector<Later> later;
  std::string loses;    ///< sentences: what the saved copy does not bring back; empty: nothing that is known
  std::string problem;  ///< why it can't be used as it is; empty: it can
};

/// `status`: lockstepd's, where it answers. `replicas`: those in the folder of this node's volumes.
[[nodiscard]] SavedCopyVerdict judge_saved_copy(const SavedConfiguration& saved,
                                                const std::optional<DataPlaneStatus>& status,
                                                const std::vector<FoundReplica>& replicas);

/// The configuration that is put in force. Volumes that are unfinished and not kept are marked as to be deleted.
void apply_verdict(const SavedCopyVerdict& verdict, NodeSide here, Configuration& configuration);

}  // namespace lockstep::mgmt
