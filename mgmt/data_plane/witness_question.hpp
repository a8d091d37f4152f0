#pragma once
// witness.read and witness.swap: management asks the pair's witness for the record of the pair itself.
#include <expected>
#include <string>

#include <nlohmann/json.hpp>

#include "engine/base/result.hpp"
#include "mgmt/data_plane/json_rpc.hpp"
#include "replication/core/arbiter.hpp"

namespace lockstep::data_plane {

struct WitnessRead {
  std::string addresses;  ///< of the witness that is meant, as in node.apply, comma separated
};
struct WitnessSwap {
  std::string addresses;
  replication::WitnessView seen;
  replication::WitnessRecord record;
};
[[nodiscard]] std::expected<WitnessRead, RpcError> read_witness_read(const nlohmann::json& params);
[[nodiscard]] std::expected<WitnessSwap, RpcError> read_witness_swap(const nlohmann::json& params);

/// Errc::not_serving: another witness is in use here, or none.
[[nodiscard]] nlohmann::json to_json(const engine::IoResult<replication::WitnessView>& view);
[[nodiscard]] nlohmann::json to_json(const engine::IoResult<replication::SwapOutcome>& outcome);

}  // namespace lockstep::data_plane
