// Which ends of a connection are counted as failed requests, and as which.
#include "engine/rdma/status.hpp"

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include "engine/rdma/real/errors.hpp"

namespace lockstep::rdma {
namespace {

std::string name_of(std::error_code error) {
  const auto status = status_of(error);
  return status ? kStatusNames.at(static_cast<std::size_t>(*status)) : "";
}

TEST(RdmaStatus, EachOfACompletionsHasAName) {
  EXPECT_EQ(name_of(status_error(IBV_WC_RNR_RETRY_EXC_ERR)), "no_receive");
  EXPECT_EQ(name_of(status_error(IBV_WC_RETRY_EXC_ERR)), "no_answer");
  EXPECT_EQ(name_of(status_error(IBV_WC_REM_ACCESS_ERR)), "remote_access");
  EXPECT_EQ(name_of(status_error(IBV_WC_REM_INV_REQ_ERR)), "remote_invalid");
  EXPECT_EQ(name_of(status_error(IBV_WC_REM_OP_ERR)), "remote_operation");
  EXPECT_EQ(name_of(status_error(IBV_WC_LOC_PROT_ERR)), "local_protection");
  EXPECT_EQ(name_of(status_error(IBV_WC_LOC_QP_OP_ERR)), "local_operation");
  EXPECT_EQ(name_of(status_error(IBV_WC_LOC_LEN_ERR)), "length");
  EXPECT_EQ(name_of(status_error(IBV_WC_GENERAL_ERR)), "other");
}

TEST(RdmaStatus, WhatWasGivenBackOrEndedOtherwiseHasNone) {
  EXPECT_EQ(name_of(status_error(IBV_WC_WR_FLUSH_ERR)), "");
  EXPECT_EQ(name_of(RdmaErrc::port_down), "");
  EXPECT_EQ(name_of(std::make_error_code(std::errc::connection_reset)), "");
  EXPECT_EQ(name_of({static_cast<int>(RdmaErrc::no_answer), std::generic_category()}), "") << "another category's";
}

}  // namespace
}  // namespace lockstep::rdma
