#pragma once
// The RDMA devices of this machine, as the verbs library sees them. Asked once at start, for the log and for status;
// the RDMA data mover will choose among them.
#include <string>
#include <vector>

namespace lockstep::engine {

/// Names such as "mlx5_0", in the order of the library; empty where there is none or no driver is loaded.
[[nodiscard]] std::vector<std::string> rdma_devices();

/// Before the first call of the verbs library, which looks at the environment then: objects of a device that is gone
/// can be destroyed. Not while other threads look at the environment.
void prepare_rdma_library();

}  // namespace lockstep::engine
