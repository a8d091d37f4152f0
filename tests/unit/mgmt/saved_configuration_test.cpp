// The copy of the configuration beside the volumes, and what is made of one that was not written by us.
#include "mgmt/control/saved_configuration.hpp"

#include <fstream>

#include <gtest/gtest.h>

#include "mgmt/control/pair_members.hpp"
#include "mgmt/control/secrets.hpp"
#include "tests/unit/mgmt/temporary_folder.hpp"

namespace lockstep::mgmt {
namespace {

SavedConfiguration saved() {
  SavedConfiguration s;
  s.revision = {random_uuid(), 17, random_uuid()};
  s.saved_ms = 1'000;
  s.node = random_uuid();
  Configuration& c = s.configuration;
  c.pair = Pair{.id = random_uuid(),
                .name = "pair1",
                .target_name = "iqn.2026-11.io.lockstep:pair1",
                .arbiter = {},
                .settings = {},
                .link = {},
                .link_mutual = {}};
  make_link_secrets(*c.pair);
  c.pair->seal = SealSecrets{"one", "other"};
  c.nodes = {{s.node, NodeSide::a, "node-a", {"10.0.0.11:3260"}, "10.0.1.11:3261", "10.0.0.11:8443", "f"},
             {random_uuid(), NodeSide::b, "node-b", {"10.0.0.12:3260"}, "10.0.1.12:3261", "10.0.0.12:8443", "g"}};
  c.initiators = {{"iqn.2026-11.org.example:h1", Chap{"u", "secret"}, std::nullopt, 1}};
  Volume v;
  v.id = random_uuid();
  v.name = v.serial = "vm1";
  v.size = 1 << 20;
  v.access = {"iqn.2026-11.org.example:h1"};
  c.volumes = {v};
  return s;
}

// As whoever can write the file, but is not this program, would make it: with a good checksum.
std::string why_refused(const SavedConfiguration& s) {
  const auto read = saved_from_file(to_file(s));
  return read ? "" : read.error().detail;
}

TEST(SavedConfiguration, IsReadAsItWasWritten) {
  const SavedConfiguration s = saved();
  const auto read = saved_from_file(to_file(s));
  ASSERT_TRUE(read) << read.error().detail;
  EXPECT_EQ(read->configuration, s.configuration);
  EXPECT_EQ(read->revision, s.revision);
  EXPECT_EQ(read->here()->name, "node-a");
  EXPECT_EQ(read->partner()->name, "node-b");
}

TEST(SavedConfiguration, WithAnyByteChangedOrCutOffAnywhereIsRefused) {
  const std::string good = to_file(saved());
  for (std::size_t at = 0; at < good.size(); at += 7) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 1);
    EXPECT_FALSE(saved_from_file(bad)) << at;
    EXPECT_FALSE(saved_from_file(good.substr(0, at))) << at;
  }
  EXPECT_FALSE(saved_from_file(good + "x"));
}

TEST(SavedConfiguration, ThatContradictsItselfIsRefusedWithWhy) {
  EXPECT_EQ(why_refused(saved()), "");
  auto s = saved();
  s.node = random_uuid();
  EXPECT_NE(why_refused(s).find("the node that saved it is not in it"), std::string::npos);
  s = saved();
  s.configuration.pair.reset();
  EXPECT_NE(why_refused(s).find("no pair"), std::string::npos);
  s = saved();
  s.configuration.nodes[1].side = NodeSide::a;
  EXPECT_NE(why_refused(s).find("a side twice"), std::string::npos);
  s = saved();
  s.configuration.volumes.push_back(s.configuration.volumes.front());
  EXPECT_NE(why_refused(s).find("a volume twice"), std::string::npos);
  s = saved();
  s.configuration.volumes[0].access = {"iqn.2026-11.org.example:nobody"};
  EXPECT_NE(why_refused(s).find("names a host that is not in it"), std::string::npos);
  s = saved();
  s.configuration.volumes[0].size = -4096;
  EXPECT_NE(why_refused(s).find("a shape that no volume has"), std::string::npos);
  s = saved();
  s.configuration.nodes[0].management_address = "somewhere";
  EXPECT_NE(why_refused(s).find("no address"), std::string::npos);
  s = saved();
  s.configuration.nodes[0].more_link_addresses = {"somewhere"};
  EXPECT_NE(why_refused(s).find("a path of the link has no address"), std::string::npos);
  s.configuration.nodes[0].more_link_addresses = {"10.9.0.1:3261"};
  EXPECT_NE(why_refused(s).find("a path of the link has one end"), std::string::npos);
  s.configuration.nodes[1].more_link_addresses = {"10.9.0.2:3261"};
  EXPECT_EQ(why_refused(s), "");
  s = saved();
  s.configuration.pair->link.secret.clear();
  EXPECT_NE(why_refused(s).find("no link secrets"), std::string::npos);
}

TEST(SavedConfiguration, IsForItsOwnerAloneAndReplacedAsAWhole) {
  test::TemporaryFolder folder;
  const SavedConfigurationFile file(folder.path());
  EXPECT_EQ(file.read().error().kind, RefusalKind::not_found);
  auto s = saved();
  ASSERT_TRUE(file.write(s));
  EXPECT_EQ(std::filesystem::status(file.path()).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  ++s.revision.n;
  ASSERT_TRUE(file.write(s));
  EXPECT_EQ(file.read()->revision.n, 18);
}

TEST(SavedConfiguration, ThatIsALinkToSomewhereElseIsNotFollowed) {
  test::TemporaryFolder folder;
  const SavedConfigurationFile file(folder.path());
  std::ofstream(folder.path() / "elsewhere") << to_file(saved());
  std::filesystem::create_symlink(folder.path() / "elsewhere", file.path());
  EXPECT_EQ(file.read().error().kind, RefusalKind::conflict);
}

}  // namespace
}  // namespace lockstep::mgmt
