#pragma once
// A pair's configuration made anew from the metadata of its replicas on one node, for the day on which neither a
// database nor a saved copy of the configuration is left. Pure. What replicas don't say is never guessed: it is asked
// for, or takes the value that lets in nobody and lets no node go on alone.
//
// Kept: the ids of pair and volumes, this node's side, names, serials, sizes, block sizes, whether a volume is
// encrypted, the arbiter's kind and the witness's endpoints. Lost: the pair's name, the target's, LUNs, hosts and their
// secrets, tokens, settings, and how a volume may be used (read-only, removable, write cache, 512n).
#include <optional>
#include <string>
#include <vector>

#include "mgmt/control/configuration.hpp"
#include "mgmt/control/found_replicas.hpp"

namespace lockstep::mgmt {

struct RebuiltVolume {
  Volume volume;
  engine::EpochRecord epoch;  ///< of its replica here
  std::string named;          ///< in the metadata, where that is not volume.name: no name, or another volume's
  bool operator==(const RebuiltVolume&) const = default;
};

/// What the replicas of one pair and one side say together.
struct Rebuild {
  Uuid pair;
  NodeSide side = NodeSide::a;
  std::optional<Arbiter> arbiter;  ///< without what it is spoken to with; nothing: the records name none, or several
  std::vector<RebuiltVolume> volumes;  ///< by LUN
};

/// Refusal conflict: there is nothing to make one of, or several things, and an operator has to choose. `pair`: of
/// whose replicas; nothing: of the only pair that there is. Replicas that are not used say why in `left_alone`.
[[nodiscard]] Outcome<Rebuild> rebuild_from(std::vector<FoundReplica>& found, const std::optional<Uuid>& pair);

/// What an operator adds to it.
struct RebuildWish {
  std::optional<Uuid> pair;
  std::string name;
  std::string target_name;         ///< empty: made from the name
  std::optional<Arbiter> arbiter;  ///< needed where the replicas do not say enough
};

/// Of one node, `here`, whose side is the rebuild's. Refusal invalid, with what is wrong in the wish.
[[nodiscard]] Outcome<Configuration> configuration_of(const Rebuild& rebuild, const RebuildWish& wish, Node here,
                                                      const Token& token);

/// True when its volumes may have replicas on a node that it does not name: whoever joins has that node's place.
[[nodiscard]] bool lacks_a_known_side(const Configuration& configuration);

}  // namespace lockstep::mgmt
