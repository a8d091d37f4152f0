// Credentials of before beside those in force: who is let in until when.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "mgmt/data_plane/access.hpp"

namespace lockstep::data_plane {
namespace {

constexpr const char* kHost = "iqn.2000-01.com.example:h1";

AccessEntry entry(std::int64_t until_ms) {
  AccessEntry e{kHost, {Credentials{"u", "new-secret-0001"}, Credentials{"t", "new-target-0001"}}};
  e.old = OldAuthentication{{Credentials{"u", "old-secret-0001"}, Credentials{"t", "old-target-0001"}}, until_ms};
  return e;
}

TEST(Access, CredentialsOfBeforeAreAcceptedUntilTheirTimeIsOverAndNotAMomentLonger) {
  VolumeSpec volume;
  volume.access = {entry(1000)};
  VolumeSpec another = volume;
  another.id.bytes.fill(1);
  std::int64_t now = 999;
  const Access access({volume, another}, [&now] { return now; });
  const auto before = access.may_log_in(kHost, "");
  ASSERT_EQ(before.chap.size(), 2U) << "once each, on however many lists it is";
  EXPECT_EQ(before.chap[0].secret, "new-secret-0001");
  EXPECT_EQ(before.chap[0].mutual_secret, "new-target-0001");
  EXPECT_EQ(before.chap[1].secret, "old-secret-0001");
  EXPECT_EQ(before.chap[1].mutual_secret, "old-target-0001");
  now = 1000;
  const auto after = access.may_log_in(kHost, "");
  ASSERT_EQ(after.chap.size(), 1U);
  EXPECT_EQ(after.chap[0].secret, "new-secret-0001");
  EXPECT_EQ(after.verdict, iscsi_target::AccessAnswer::Verdict::allowed);
}

nlohmann::json order_with(const nlohmann::json& entry) {
  const nlohmann::json volume = {{"id", "31111111-1111-4111-8111-111111111111"},
                                 {"name", "vm1"},
                                 {"serial", "s"},
                                 {"lun", 0},
                                 {"size", 4096},
                                 {"block_size", 512},
                                 {"data", "memory:"},
                                 {"mirrored", false},
                                 {"access", nlohmann::json::array({entry})}};
  return {{"revision", 1},
          {"pair", {{"id", "11111111-1111-4111-8111-111111111111"}, {"name", "p"}}},
          {"node", {{"side", "a"}, {"id", "21111111-1111-4111-8111-111111111111"}, {"name", "n"}}},
          {"target", {{"name", "iqn.2026-11.io.lockstep:p"}, {"portals", nlohmann::json::array()}}},
          {"volumes", nlohmann::json::array({volume})}};
}

nlohmann::json told(const char* secret) {
  return {{"initiator", kHost},
          {"chap_user", secret ? nlohmann::json("u") : nlohmann::json()},
          {"chap_secret", secret ? nlohmann::json(secret) : nlohmann::json()},
          {"mutual_user", nullptr},
          {"mutual_secret", nullptr}};
}

nlohmann::json old(const char* secret) {
  nlohmann::json o = told(secret);
  o.erase("initiator");
  o["until_ms"] = 5;
  return o;
}

TEST(DesiredState, HasCredentialsOfBeforeBesideThoseInForce) {
  nlohmann::json e = told("new-secret-0001");
  e["old"] = old("old-secret-0001");
  const auto read = read_desired_state(order_with(e));
  ASSERT_TRUE(read) << read.error().message;
  const auto& entry = read->volumes.at(0).access.at(0);
  ASSERT_TRUE(entry.old);
  EXPECT_EQ(entry.old->authentication.chap, (Credentials{"u", "old-secret-0001"}));
  EXPECT_EQ(entry.old->until_ms, 5);
}

TEST(DesiredState, ThatWouldAskNobodyForASecretAfterOldOnesIsRefused) {
  nlohmann::json none_now = told(nullptr);
  none_now["old"] = old("old-secret-0001");
  nlohmann::json none_then = told("new-secret-0001");
  none_then["old"] = old(nullptr);
  for (const auto& e : {none_now, none_then}) EXPECT_FALSE(read_desired_state(order_with(e)));
}

}  // namespace
}  // namespace lockstep::data_plane
