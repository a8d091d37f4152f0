#include "mgmt/control/validation.hpp"

#include <gtest/gtest.h>

#include "mgmt/control/address.hpp"
#include "mgmt/control/invitation.hpp"
#include "mgmt/control/secrets.hpp"
#include "tests/unit/mgmt/management.hpp"

namespace lockstep::mgmt {
namespace {

TEST(IscsiName, TheThreeKindsAreAccepted) {
  for (const char* name :
       {"iqn.1993-08.org.debian:01:host1", "iqn.2026-11.io.lockstep", "iqn.1998-01.com.vmware:esx1-0a.b",
        "eui.0123456789abcdef", "naa.0123456789abcdef", "naa.0123456789abcdef0123456789abcdef"})
    EXPECT_FALSE(check_iscsi_name(name)) << name;
}

TEST(IscsiName, WhatIsNoneIsRefused) {
  for (const char* name :
       {"", "iqn.", "host1", "iqn.1993-13.org.debian:x", "iqn.1993-00.org.debian:x", "iqn.93-08.org:x",
        "iqn.1993-08.org.debian:", "iqn.1993-08.:x", "iqn.1993-08.org.debian:Host", "iqn.1993-08.org.debian:a b",
        "eui.0123456789abcde", "eui.0123456789ABCDEF", "naa.0123456789abcdef0", "iqn.1993-08.org.debian:a\n"})
    EXPECT_TRUE(check_iscsi_name(name)) << name;
  EXPECT_TRUE(check_iscsi_name("iqn.1993-08.org:" + std::string(208, 'x')));
  EXPECT_FALSE(check_iscsi_name("iqn.1993-08.org:" + std::string(207, 'x')));
}

TEST(VolumeSize, IsBoundedAndAMultipleOf4096) {
  EXPECT_FALSE(check_volume_size(kMinVolumeSize));
  EXPECT_FALSE(check_volume_size(kMaxVolumeSize));
  for (const std::int64_t size : {std::int64_t{0}, std::int64_t{-4096}, kMinVolumeSize - 4096, kMaxVolumeSize + 4096,
                                  kMinVolumeSize + 512, INT64_MAX, INT64_MIN})
    EXPECT_TRUE(check_volume_size(size)) << size;
}

TEST(Names, HaveTheirAlphabetsAndLengths) {
  EXPECT_FALSE(check_volume_name("vm_1.A-b"));
  EXPECT_FALSE(check_volume_name(std::string(63, 'a')));
  for (const char* name : {"", "-a", ".a", "a b", "a/b", "ä"}) EXPECT_TRUE(check_volume_name(name)) << name;
  EXPECT_TRUE(check_volume_name(std::string(64, 'a')));
  EXPECT_FALSE(check_pair_name("pair-1"));
  EXPECT_TRUE(check_pair_name("Pair"));
  EXPECT_TRUE(check_pair_name(std::string(33, 'a')));
  EXPECT_FALSE(check_node_name("node-a.example"));
  EXPECT_TRUE(check_node_name("node_a"));
}

using RatesOfResync = ManagementTest;

TEST_F(RatesOfResync, NoneIsAcceptedThatLockstepdWouldRefuseTheConfigurationFor) {
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  for (const std::int64_t rate : {kMost, kMost + 1, (std::int64_t{1} << 62) + 1, std::int64_t{INT64_MAX}}) {
    PairChange floor, ceiling;
    floor.resync_floor = rate;
    floor.resync_ceiling = 0;
    ceiling.resync_floor = 0;
    ceiling.resync_ceiling = rate;
    for (const auto& change : {floor, ceiling}) {
      const auto changed = node_->pair.change(change);
      ASSERT_EQ(changed.has_value(), rate == kMost) << rate;
      if (changed) continue;
      EXPECT_EQ(changed.error().kind, RefusalKind::invalid);
      EXPECT_EQ(changed.error().fields.at(0).pointer, *change.resync_floor != 0
                                                          ? "/settings/resync_floor_bytes_per_second"
                                                          : "/settings/resync_ceiling_bytes_per_second");
      EXPECT_NE(changed.error().fields.at(0).detail.find("1 TiB/s"), std::string::npos);
    }
  }
}

TEST_F(RatesOfResync, APairIsNotMadeWithOneEither) {
  const test::TemporaryFolder folder;
  Management fresh(folder.path(), plane_, patience_);
  const auto made = fresh.pair.create({.name = "pair2",
                                       .target_name = "",
                                       .node = {.name = {},
                                                .portals = std::vector<std::string>{"127.0.0.1:3260"},
                                                .link_address = {},
                                                .management_address = {}},
                                       .arbiter = {},
                                       .settings = {.resync_floor = INT64_MAX}});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().kind, RefusalKind::invalid) << made.error().detail;
}

TEST(ChapSecret, HasFrom12To255Characters) {
  EXPECT_TRUE(check_chap_secret(std::string(11, 'x')));
  EXPECT_FALSE(check_chap_secret(std::string(12, 'x')));
  EXPECT_FALSE(check_chap_secret(std::string(255, 'x')));
  EXPECT_TRUE(check_chap_secret(std::string(256, 'x')));
  EXPECT_TRUE(check_chap_secret("twelve\nletters"));
}

TEST(Address, IsNumericWithAPort) {
  EXPECT_EQ(to_string(*parse_address("10.0.0.11:3260")), "10.0.0.11:3260");
  EXPECT_EQ(to_string(*parse_address("[fd00::11]:1")), "[fd00::11]:1");
  for (const char* text : {"", "10.0.0.11", "host:1", "10.0.0.11:", "10.0.0.11:65536", "10.0.0.256:1", "fd00::11:1",
                           "[fd00::11]", "[10.0.0.1]:1", "10.0.0.11:+1", "10.0.0.11:00001x"})
    EXPECT_FALSE(parse_address(text)) << text;
  EXPECT_TRUE(check_address("10.0.0.11:0"));
}

TEST(Invitation, ComesBackAsItWasEvenWithSpacesAround) {
  const Invitation invitation{"10.0.0.11:8443", std::string(64, 'f'), base64url_encode(random_bytes(32))};
  const auto back = invitation_from("  " + to_text(invitation) + "\n");
  ASSERT_TRUE(back);
  EXPECT_EQ(back->address, invitation.address);
  EXPECT_EQ(back->fingerprint, invitation.fingerprint);
  EXPECT_EQ(back->secret, invitation.secret);
}

TEST(Invitation, ADamagedOneIsRefusedAndNamesItsField) {
  const std::string whole =
      to_text(Invitation{"10.0.0.11:8443", std::string(64, 'f'), base64url_encode(random_bytes(32))});
  for (const std::string& text :
       {std::string(), std::string("lsi1."), whole.substr(1), whole.substr(0, whole.size() - 3), whole.substr(0, 20),
        whole + "x", "lsi1.e30." + base64url_encode(random_bytes(32))}) {
    const auto refused = invitation_from(text);
    ASSERT_FALSE(refused) << text;
    EXPECT_EQ(refused.error().fields.at(0).pointer, "/invitation");
  }
}

TEST(Base64Url, ComesBackAsItWasAndRefusesWhatItDidNotMake) {
  for (std::size_t n = 0; n < 40; ++n) {
    const std::string bytes = random_bytes(n);
    EXPECT_EQ(base64url_decode(base64url_encode(bytes)), bytes);
  }
  EXPECT_EQ(base64url_encode(std::string("\xfb\xff", 2)), "-_8");
  for (const char* text : {"A", "AB=", "A+", "AB"}) EXPECT_FALSE(base64url_decode(text)) << text;
}

TEST(Secrets, PasswordsAreAsLongAsAskedForAndDiffer) {
  EXPECT_EQ(random_password(32).size(), 32u);
  EXPECT_NE(random_password(32), random_password(32));
}

}  // namespace
}  // namespace lockstep::mgmt
