#pragma once
// Asks the system what keeps an interface's port from losing packets: no tool of a vendor's, and no right is needed.
#include <optional>
#include <string>

#include "engine/rdma/check/fabric_view.hpp"

namespace lockstep::rdma {

/// Waits for the kernel alone. What an interface does not tell is left out.
[[nodiscard]] FlowControl ask_flow_control(const std::string& interface);

}  // namespace lockstep::rdma
