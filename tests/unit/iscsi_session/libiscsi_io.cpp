// Reads, writes and digests as Debian's libiscsi does them.
#include "tests/unit/iscsi_session/libiscsi_client.hpp"

namespace lockstep::test {
namespace {

TEST(LibiscsiIo, LogsInAndLogsOut) {
  TestServer server;
  LibiscsiClient client;
  ASSERT_TRUE(client.log_in(server.address)) << client.error();
  EXPECT_EQ(server.server->sessions().size(), 1u);
  EXPECT_EQ(server.server->sessions().front().initiator, kInitiator);
  EXPECT_EQ(iscsi_logout_sync(client.iscsi), 0);
  EXPECT_TRUE(eventually([&] { return server.server->sessions().empty(); }));
  EXPECT_EQ(server.reasons(iscsi_target::SessionEvent::Kind::closed).front(), "The initiator logged out.");
}

TEST(LibiscsiIo, WhatIsWrittenIsReadBack) {
  TestServer server;
  LibiscsiClient client;
  ASSERT_TRUE(client.log_in(server.address)) << client.error();
  for (const std::size_t size : {512u, 4096u, 65536u, 131072u, 1048576u, 8388608u}) {
    Bytes out = pattern(size, static_cast<unsigned>(size));
    const auto written = client.write(7, out);
    ASSERT_TRUE(written && written->status == SCSI_STATUS_GOOD) << size << " " << client.error();
    const auto read = client.read(7, size);
    ASSERT_TRUE(read && read->status == SCSI_STATUS_GOOD) << size << " " << client.error();
    EXPECT_EQ(data_of(read), out) << size;
  }
}

}  // namespace
}  // namespace lockstep::test
