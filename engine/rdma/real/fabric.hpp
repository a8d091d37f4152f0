#pragma once
// RDMA by the kernel's devices: the seam of engine/rdma/verbs.hpp on librdmacm and libibverbs.
//
// One thread of the fabric's own ("rdma-cm") owns the connection manager's ids and every call that may sleep; reactors
// only post and poll. A queue pair is made there, lent to its reactor, and taken back before it is destroyed.
#include <memory>

#include "engine/rdma/verbs.hpp"

struct ibv_qp;

namespace lockstep::rdma {

/// An error with a sentence where there is no RDMA device or its kernel modules are not loaded. Nobody
/// else in the process calls the verbs library before.
[[nodiscard]] engine::Result<std::unique_ptr<Fabric>> open_fabric();

/// The queue pair below one that open_fabric()'s made and that is established: for tests, which register memory for the
/// peer and bind windows with it. What they post carries the work request id kForeignWork.
[[nodiscard]] ibv_qp* verbs_of(QueuePair& pair);
constexpr std::uint64_t kForeignWork = ~std::uint64_t{0};

}  // namespace lockstep::rdma
