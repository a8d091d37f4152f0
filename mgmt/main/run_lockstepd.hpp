#pragma once
// lockstepd from its options to its exit code. Only where its RDMA comes from is its main()'s.
#include "engine/rdma/verbs.hpp"

namespace lockstep {

[[nodiscard]] int run_lockstepd(int argc, char** argv, rdma::OpenFabric open_fabric);

}  // namespace lockstep
