// lockstepd's configuration file: what is not known or can't be used is refused by its name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mgmt/data_plane/configuration.hpp"

namespace lockstep::data_plane {
namespace {

using testing::HasSubstr;

std::string refusal_of(const std::string& text) {
  const auto read = parse_configuration(text, "lockstepd.toml");
  return read ? "it is read" : read.error().message;
}

TEST(LockstepdFile, WithASettingThatThereIsNotIsRefusedByItsNameAndLine) {
  EXPECT_THAT(refusal_of("reactors = 2\nlease_ms = 1500\n"),
              HasSubstr("lockstepd.toml, line 2: \"lease_ms\" is not an option."));
  EXPECT_THAT(refusal_of("[mirror]\nlease = 1\n"), HasSubstr("\"mirror\" is not an option."));
}

TEST(LockstepdFile, WithAValueThatCannotBeUsedIsRefusedByItsName) {
  EXPECT_THAT(refusal_of("reactors = 0\n"), HasSubstr("\"reactors\" must be a whole number from 1 to 64."));
  EXPECT_THAT(refusal_of("lease_clock = \"mine\"\n"),
              HasSubstr("\"lease_clock\" must be one of auto, boottime, partner."));
  EXPECT_THAT(refusal_of("link_kernel_tls = \"on\"\n"), HasSubstr("\"link_kernel_tls\" must be one of auto, off."));
  EXPECT_THAT(refusal_of("rpc_socket = \"here\"\n"), HasSubstr("\"rpc_socket\" must be a path that starts with /."));
  EXPECT_THAT(refusal_of("buffer_mib = \"64\"\n"), HasSubstr("\"buffer_mib\" must be a whole number"));
}

TEST(LockstepdFile, SaysWhetherRdmaIsUsedAndWhetherSomebodyCountsOnIt) {
  const auto rdma_of = [](const std::string& text) {
    const Configuration read = parse_configuration(text, "lockstepd.toml").value();
    return std::pair(read.rdma, read.rdma_asked);
  };
  EXPECT_EQ(rdma_of(""), std::pair(true, false));
  EXPECT_EQ(rdma_of("rdma = \"auto\"\n"), std::pair(true, false));
  EXPECT_EQ(rdma_of("rdma = \"on\"\n"), std::pair(true, true));
  EXPECT_EQ(rdma_of("rdma = \"off\"\n"), std::pair(false, false));
}

}  // namespace
}  // namespace lockstep::data_plane
