#pragma once
// Where a new volume lives: the pair's mirrors stand side by side in shards, each on one core of either node and with a
// link of its own (mgmt/data_plane/pair.hpp). The volumes are spread over those that the two nodes have between them.
#include <cstdint>
#include <vector>

#include "mgmt/control/configuration.hpp"
#include "mgmt/control/node_report.hpp"

namespace lockstep::mgmt {

/// Shards that a volume can be made in now: the first always; any other one whose link stands as both nodes say, by
/// every path that the first shard's has.
[[nodiscard]] std::vector<std::int64_t> usable_shards(const NodeReport& here, const NodeReport& there);
/// The one of them with the fewest volumes; of equals the first.
[[nodiscard]] std::int64_t emptiest_shard(const std::vector<std::int64_t>& usable, const Configuration& configuration);

}  // namespace lockstep::mgmt
