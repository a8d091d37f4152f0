#pragma once
// Figures for Prometheus, of this node's lockstepd.
#include <string>

#include "mgmt/control/pair_view.hpp"

namespace lockstep::ui_api {

/// Prometheus's text format. Empty labels of a node in no pair; what lockstepd does not tell now is left out.
[[nodiscard]] std::string metrics_text(const mgmt::PairView& view);

}  // namespace lockstep::ui_api
