// lockstepd with the fabric between processes in place of the machine's RDMA devices: LOCKSTEP_TEST_FABRIC names the
// folder of those that are to reach each other.
#include "mgmt/main/run_lockstepd.hpp"
#include "tests/support/rdma_between/fabric.hpp"

int main(int argc, char** argv) {
  return lockstep::run_lockstepd(argc, argv, lockstep::test::open_fabric_between_processes);
}
