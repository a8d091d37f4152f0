#pragma once
// The RDMA devices of this machine, as the kernel names them. Asked once at start, for the log and for status. Not by
// the verbs library: its first call is the RDMA provider's (real/control.cpp says why).
#include <string>
#include <vector>

namespace lockstep::engine {

/// Names such as "mlx5_0", sorted; empty where there is none.
[[nodiscard]] std::vector<std::string> rdma_devices();

/// Before the first call of the verbs library, which looks at the environment then: objects of a device that is gone
/// can be destroyed. Not while other threads look at the environment.
void prepare_rdma_library();

}  // namespace lockstep::engine
