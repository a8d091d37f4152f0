// lockstepd: the data plane.
#include "engine/rdma/real/fabric.hpp"
#include "mgmt/main/run_lockstepd.hpp"

int main(int argc, char** argv) { return lockstep::run_lockstepd(argc, argv, lockstep::rdma::open_fabric); }
