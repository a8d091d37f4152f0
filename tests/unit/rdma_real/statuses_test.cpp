// Every completion status of a device's, of every kind of work: the connection is lost, for a reason that says so.
#include <gmock/gmock.h>

#include "tests/unit/rdma_real/script.hpp"

namespace lockstep::test {
namespace {

using Kind = VerbsLibrary::Kind;
using rdma::RdmaErrc;

struct Case {
  Kind kind;
  int device;
};
/// Which side does what is what the script says.
constexpr std::array<Case, 8> kCases = {{{Kind::send, VerbsLibrary::kFar},
                                         {Kind::send, VerbsLibrary::kNear},
                                         {Kind::receive, VerbsLibrary::kNear},
                                         {Kind::receive, VerbsLibrary::kFar},
                                         {Kind::read, VerbsLibrary::kNear},
                                         {Kind::write, VerbsLibrary::kNear},
                                         {Kind::bind, VerbsLibrary::kFar},
                                         {Kind::invalidate, VerbsLibrary::kFar}}};

TEST(RealStatuses, LoseTheConnectionWhateverTheyAreOf) {
  for (int status = IBV_WC_SUCCESS + 1; status <= IBV_WC_TM_RNDV_INCOMPLETE; ++status) {
    for (const auto [kind, device] : kCases) {
      SCOPED_TRACE("status " + std::to_string(status) + " of kind " + std::to_string(static_cast<int>(kind)));
      VerbsLibrary::reset();
      {
        RealContract world;
        VerbsLibrary::complete_next(device, kind, static_cast<ibv_wc_status>(status));
        EXPECT_FALSE(Script(world).run());
        const Side& side = device == VerbsLibrary::kFar ? world.caller : world.answerer;
        // What was given back has ended for a reason of the peer's.
        const std::error_code why =
            status == IBV_WC_WR_FLUSH_ERR ? make_error_code(std::errc::connection_reset) : rdma::status_error(status);
        EXPECT_EQ(side.lost, why) << side.lost.message();
        EXPECT_TRUE(Script(world).run()) << "the next connection";
      }
      expect_clean();
      if (HasFailure()) return;
    }
  }
}

TEST(RealStatuses, AreErrorsThatAPageCanTell) {
  const std::map<ibv_wc_status, RdmaErrc> expected = {{IBV_WC_LOC_LEN_ERR, RdmaErrc::length},
                                                      {IBV_WC_LOC_PROT_ERR, RdmaErrc::local_protection},
                                                      {IBV_WC_MW_BIND_ERR, RdmaErrc::local_protection},
                                                      {IBV_WC_LOC_QP_OP_ERR, RdmaErrc::local_operation},
                                                      {IBV_WC_FATAL_ERR, RdmaErrc::local_operation},
                                                      {IBV_WC_REM_ACCESS_ERR, RdmaErrc::remote_access},
                                                      {IBV_WC_REM_INV_REQ_ERR, RdmaErrc::remote_invalid},
                                                      {IBV_WC_REM_OP_ERR, RdmaErrc::remote_operation},
                                                      {IBV_WC_RETRY_EXC_ERR, RdmaErrc::no_answer},
                                                      {IBV_WC_RNR_RETRY_EXC_ERR, RdmaErrc::no_receive},
                                                      {IBV_WC_GENERAL_ERR, RdmaErrc::other_status}};
  for (const auto& [status, error] : expected) EXPECT_EQ(rdma::status_error(status), error) << status;
  for (int status = IBV_WC_SUCCESS + 1; status <= IBV_WC_TM_RNDV_INCOMPLETE; ++status) {
    EXPECT_FALSE(rdma::status_error(status).message().empty());
  }
}

}  // namespace
}  // namespace lockstep::test
