#pragma once
// What the API shows, as JSON: the schemas of ui-api/openapi/lockstep.yaml.
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "mgmt/control/event_log.hpp"
#include "mgmt/control/job.hpp"
#include "mgmt/control/link_measurement.hpp"
#include "mgmt/control/pair_recovery.hpp"
#include "mgmt/control/pair_view.hpp"
#include "mgmt/control/token_service.hpp"

namespace lockstep::ui_api {

[[nodiscard]] std::string rfc3339(std::int64_t ms_since_1970);

[[nodiscard]] nlohmann::json pair_json(const mgmt::PairView& view);
/// Of a pair that there is.
[[nodiscard]] nlohmann::json pair_witness_json(const mgmt::PairView& view);
[[nodiscard]] nlohmann::json pair_link_json(const mgmt::PairView& view);
[[nodiscard]] nlohmann::json sizes_measured_json(const std::vector<mgmt::SizeMeasured>& sizes);
[[nodiscard]] nlohmann::json recovery_json(const mgmt::RecoveryView& view);
[[nodiscard]] nlohmann::json node_json(const mgmt::PairView& view, const mgmt::NodeView& node);
[[nodiscard]] nlohmann::json nodes_json(const mgmt::PairView& view);
[[nodiscard]] nlohmann::json sessions_json(const mgmt::PairView& view);
[[nodiscard]] nlohmann::json volume_json(const mgmt::PairView& view, const mgmt::Volume& volume);
[[nodiscard]] nlohmann::json initiator_json(const mgmt::Configuration& configuration, const mgmt::Initiator& initiator);
[[nodiscard]] nlohmann::json job_json(const mgmt::Job& job);
[[nodiscard]] nlohmann::json event_json(const mgmt::Event& event);
[[nodiscard]] nlohmann::json health_json(const mgmt::Health& health);
[[nodiscard]] nlohmann::json token_json(const mgmt::Token& token, std::int64_t last_used_ms, bool here_only);

/// What may be asked for of a new volume, or of an imported one, by the name that the volume shows it by.
[[nodiscard]] std::vector<std::string> volume_wish_fields();

/// Text that is not UTF-8 (an initiator may call itself anything) is made so.
[[nodiscard]] std::string dump(const nlohmann::json& json);

}  // namespace lockstep::ui_api
