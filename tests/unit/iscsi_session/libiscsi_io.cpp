// Reads, writes, digests, authentication and discovery as Debian's libiscsi does them.
#include <algorithm>
#include <deque>

#include "tests/unit/iscsi_session/libiscsi_client.hpp"

namespace lockstep::test {
namespace {

using Kind = iscsi_target::SessionEvent::Kind;

TEST(LibiscsiIo, LogsInAndLogsOut) {
  TestServer server;
  LibiscsiClient client;
  ASSERT_TRUE(client.log_in(server.address)) << client.error();
  ASSERT_EQ(server.server->sessions().size(), 1u);
  const auto session = server.server->sessions().front();
  EXPECT_EQ(session.initiator, kInitiator);
  EXPECT_EQ(session.target, kTarget);
  EXPECT_EQ(session.portal, server.address);
  EXPECT_EQ(iscsi_logout_sync(client.iscsi), 0);
  EXPECT_TRUE(eventually([&] { return server.server->sessions().empty(); }));
  EXPECT_EQ(server.awaited_reasons(Kind::closed).front(), "The initiator logged out.");
}

struct Mode {
  iscsi_initial_r2t initial_r2t;
  iscsi_immediate_data immediate;
  iscsi_header_digest digest;
  std::uint32_t max_burst, first_burst;
};

class LibiscsiModes : public testing::TestWithParam<Mode> {};

TEST_P(LibiscsiModes, WhatIsWrittenIsReadBack) {
  const Mode& mode = GetParam();
  iscsi_target::ServerOptions options;
  options.session.offers.initial_r2t = mode.initial_r2t == ISCSI_INITIAL_R2T_YES;
  options.session.offers.immediate_data = mode.immediate == ISCSI_IMMEDIATE_DATA_YES;
  options.session.offers.max_burst = mode.max_burst;
  options.session.offers.first_burst = mode.first_burst;
  TestServer server(options);
  LibiscsiClient client;
  iscsi_set_initial_r2t(client.iscsi, mode.initial_r2t);
  iscsi_set_immediate_data(client.iscsi, mode.immediate);
  iscsi_set_header_digest(client.iscsi, mode.digest);
  ASSERT_TRUE(client.log_in(server.address)) << client.error();
  for (const std::size_t size : {512u, 1024u, 4096u, 65536u, 66048u, 262144u, 1048576u, 8388608u}) {
    Bytes out = pattern(size, static_cast<unsigned>(size));
    const auto written = client.write(7, out);
    ASSERT_TRUE(written && written->status == SCSI_STATUS_GOOD) << size << " " << client.error();
    const auto read = client.read(7, size);
    ASSERT_TRUE(read && read->status == SCSI_STATUS_GOOD) << size << " " << client.error();
    EXPECT_TRUE(data_of(read) == out) << size;
    EXPECT_EQ(read->residual_status, SCSI_RESIDUAL_NO_RESIDUAL);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, LibiscsiModes,
    testing::Values(Mode{ISCSI_INITIAL_R2T_NO, ISCSI_IMMEDIATE_DATA_YES, ISCSI_HEADER_DIGEST_NONE, 1 << 20, 262144},
                    Mode{ISCSI_INITIAL_R2T_NO, ISCSI_IMMEDIATE_DATA_NO, ISCSI_HEADER_DIGEST_NONE, 1 << 20, 65536},
                    Mode{ISCSI_INITIAL_R2T_YES, ISCSI_IMMEDIATE_DATA_YES, ISCSI_HEADER_DIGEST_NONE, 65536, 4096},
                    Mode{ISCSI_INITIAL_R2T_YES, ISCSI_IMMEDIATE_DATA_NO, ISCSI_HEADER_DIGEST_NONE, 16384, 512},
                    Mode{ISCSI_INITIAL_R2T_YES, ISCSI_IMMEDIATE_DATA_YES, ISCSI_HEADER_DIGEST_CRC32C, 1 << 20, 65536},
                    Mode{ISCSI_INITIAL_R2T_NO, ISCSI_IMMEDIATE_DATA_YES, ISCSI_HEADER_DIGEST_CRC32C, 1 << 20, 262144}));

// Many commands at once, in one stream, their answers in any order.
struct Load {
  LibiscsiClient& client;
  std::deque<Bytes> buffers;
  int done = 0, bad = 0;

  static void on_done(iscsi_context*, int status, void* command, void* owner) {
    auto& load = *static_cast<Load*>(owner);
    ++load.done;
    if (status != SCSI_STATUS_GOOD) ++load.bad;
    scsi_free_scsi_task(static_cast<scsi_task*>(command));
  }
};

TEST(LibiscsiIo, HundredsOfCommandsAtOnceAllEndGood) {
  TestServer server;
  LibiscsiClient client;
  ASSERT_TRUE(client.log_in(server.address)) << client.error();
  Load load{client, {}};
  constexpr int kCount = 300;  // beyond the window: libiscsi holds the rest back
  for (int i = 0; i < kCount; ++i) {
    load.buffers.push_back(pattern(i % 7 == 0 ? 131072 : 4096, static_cast<unsigned>(i)));
    Bytes& data = load.buffers.back();
    ASSERT_NE(iscsi_write10_task(client.iscsi, 0, static_cast<std::uint32_t>(i) * 200, data.data(),
                                 static_cast<std::uint32_t>(data.size()), kBlock, 0, 0, 0, 0, 0, Load::on_done, &load),
              nullptr);
  }
  ASSERT_TRUE(client.serve_until([&] { return load.done == kCount; }));
  EXPECT_EQ(load.bad, 0);
  for (int i = 0; i < kCount; ++i) {
    const Bytes& out = load.buffers[static_cast<std::size_t>(i)];
    // A later write may have gone over the end of a large one.
    const std::size_t whole = std::min<std::size_t>(out.size(), 200 * kBlock);
    const auto read = client.read(static_cast<std::uint32_t>(i) * 200, whole);
    ASSERT_TRUE(read);
    EXPECT_TRUE(std::equal(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(whole), read->datain.data)) << i;
  }
}

TEST(LibiscsiIo, AnErrorArrivesWithItsSense) {
  TestServer server;
  LibiscsiClient client;
  ASSERT_TRUE(client.log_in(server.address)) << client.error();
  const auto read = client.read(0x7FFFFFF0, 4096);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->status, SCSI_STATUS_CHECK_CONDITION);
  EXPECT_EQ(read->sense.key, SCSI_SENSE_ILLEGAL_REQUEST);
  EXPECT_EQ(read->sense.ascq, SCSI_SENSE_ASCQ_LBA_OUT_OF_RANGE);
  EXPECT_EQ(read->residual_status, SCSI_RESIDUAL_UNDERFLOW);
  EXPECT_EQ(read->residual, 4096u);
  // A failing write with all its data, unsolicited and not: the session goes on.
  for (const std::size_t size : {4096u, 262144u, 2097152u}) {
    Bytes data = pattern(size, 1);
    const auto written = client.write(0x7FFFFFF0, data);
    ASSERT_TRUE(written) << client.error();
    EXPECT_EQ(written->status, SCSI_STATUS_CHECK_CONDITION);
  }
  EXPECT_TRUE(client.read(0, 512));
}

TEST(LibiscsiIo, ShortAndLongExpectationsGiveExactResiduals) {
  TestServer server;
  LibiscsiClient client;
  ASSERT_TRUE(client.log_in(server.address)) << client.error();
  ScsiTask inquiry(iscsi_inquiry_sync(client.iscsi, 0, 0, 0, 255));
  ASSERT_TRUE(inquiry);
  EXPECT_EQ(inquiry->residual_status, SCSI_RESIDUAL_UNDERFLOW);
  EXPECT_EQ(inquiry->residual, 255u - 36u);
  ScsiTask small(iscsi_inquiry_sync(client.iscsi, 0, 0, 0, 5));
  ASSERT_TRUE(small);
  EXPECT_EQ(small->datain.size, 5);
}

// ---- Authentication ----

const iscsi::ChapCredentials kCredentials{"alice", "a secret of alice's", "lockstep", "a secret of ours"};

TEST(LibiscsiChap, OneWayAndMutual) {
  TestServer server;
  server.put_target({{kInitiator, kCredentials}});
  LibiscsiClient one_way;
  iscsi_set_initiator_username_pwd(one_way.iscsi, "alice", "a secret of alice's");
  EXPECT_TRUE(one_way.log_in(server.address)) << one_way.error();
  LibiscsiClient mutual;
  iscsi_set_initiator_username_pwd(mutual.iscsi, "alice", "a secret of alice's");
  iscsi_set_target_username_pwd(mutual.iscsi, "lockstep", "a secret of ours");
  EXPECT_TRUE(mutual.log_in(server.address)) << mutual.error();
}

TEST(LibiscsiChap, WrongOrMissingSecretsAreRefused) {
  TestServer server;
  server.put_target({{kInitiator, kCredentials}});
  LibiscsiClient wrong, nothing, wrong_target;
  iscsi_set_initiator_username_pwd(wrong.iscsi, "alice", "not the secret");
  EXPECT_FALSE(wrong.log_in(server.address));
  EXPECT_NE(wrong.error().find("Authentication failure"), std::string::npos) << wrong.error();
  EXPECT_FALSE(nothing.log_in(server.address));
  iscsi_set_initiator_username_pwd(wrong_target.iscsi, "alice", "a secret of alice's");
  iscsi_set_target_username_pwd(wrong_target.iscsi, "lockstep", "not our secret");
  EXPECT_FALSE(wrong_target.log_in(server.address));
  EXPECT_TRUE(server.server->sessions().empty() || eventually([&] { return server.server->sessions().empty(); }));
}

TEST(LibiscsiAccess, OnlyListedInitiatorsAreLetIn) {
  TestServer server;
  server.put_target({{"iqn.2026-11.io.lockstep:other", {}}});
  LibiscsiClient stranger;
  EXPECT_FALSE(stranger.log_in(server.address));
  EXPECT_NE(server.awaited_reasons(Kind::refused).front().find("access list"), std::string::npos);
  LibiscsiClient known("iqn.2026-11.io.lockstep:other");
  EXPECT_TRUE(known.log_in(server.address)) << known.error();
}

// ---- Discovery ----

struct Discovered {
  std::vector<std::string> names, portals;
};

Discovered discover(LibiscsiClient& client, const std::string& address) {
  Discovered out;
  iscsi_set_session_type(client.iscsi, ISCSI_SESSION_DISCOVERY);
  if (!client.log_in(address)) return out;
  iscsi_discovery_address* all = iscsi_discovery_sync(client.iscsi);
  for (auto* one = all; one != nullptr; one = one->next) {
    out.names.emplace_back(one->target_name);
    for (auto* portal = one->portals; portal != nullptr; portal = portal->next)
      out.portals.emplace_back(portal->portal);
  }
  iscsi_free_discovery_data(client.iscsi, all);
  return out;
}

TEST(LibiscsiDiscovery, NamesBothNodesPortalsWithTheirGroups) {
  TestServer server;
  server.put_target({}, {{"127.0.0.11:3260", 1}, {"127.0.0.12:3260", 2}});
  LibiscsiClient client;
  const auto found = discover(client, server.address);
  EXPECT_EQ(found.names, std::vector<std::string>{kTarget});
  auto portals = found.portals;
  std::sort(portals.begin(), portals.end());
  EXPECT_EQ(portals, (std::vector<std::string>{"127.0.0.11:3260,1", "127.0.0.12:3260,2"}));
}

TEST(LibiscsiDiscovery, TellsNobodyWhichNamesAreKnown) {
  TestServer server;
  server.put_target({{"iqn.2026-11.io.lockstep:known", {}}});
  LibiscsiClient known("iqn.2026-11.io.lockstep:known"), stranger("iqn.2026-11.io.lockstep:stranger");
  EXPECT_EQ(discover(known, server.address).names, std::vector<std::string>{kTarget});
  EXPECT_EQ(discover(stranger, server.address).names, std::vector<std::string>{kTarget});
}

TEST(LibiscsiDiscovery, MayWantAuthentication) {
  TestServer server;
  server.registry.set_discovery_credentials({{"finder", "a finder's secret", "", ""}});
  LibiscsiClient without, with;
  EXPECT_TRUE(discover(without, server.address).names.empty());
  iscsi_set_initiator_username_pwd(with.iscsi, "finder", "a finder's secret");
  EXPECT_EQ(discover(with, server.address).names.size(), 1u) << with.error();
}

}  // namespace
}  // namespace lockstep::test
