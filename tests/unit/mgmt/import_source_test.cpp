// Where an import comes from, as people write it.
#include "mgmt/control/import_source.hpp"

#include <gtest/gtest.h>

namespace lockstep::mgmt {
namespace {

TEST(ImportSource, IsReadWithEverythingThatMayBeInIt) {
  const auto plain = parse_import_source("iscsi://10.0.0.5/iqn.2005-10.org.example:disk1/0");
  ASSERT_TRUE(plain) << plain.error();
  EXPECT_EQ(*plain, (ImportSource{"10.0.0.5", 3260, "iqn.2005-10.org.example:disk1", 0, std::nullopt}));
  const auto full =
      parse_import_source("iscsi://mover%s@c/ret@array.example.org:3261/iqn.2005-10.ORG.example:Disk_1/255");
  ASSERT_TRUE(full) << full.error();
  EXPECT_EQ(*full,
            (ImportSource{"array.example.org", 3261, "iqn.2005-10.ORG.example:Disk_1", 255, Chap{"mover", "s@c/ret"}}));
  const auto six = parse_import_source("iscsi://[fd00::5]:3262/naa.600140512345678/1");
  ASSERT_TRUE(six) << six.error();
  EXPECT_EQ(six->host, "fd00::5");
  EXPECT_EQ(six->portal(), "[fd00::5]:3262");
}

TEST(ImportSource, IsShownWithoutItsCredentials) {
  const auto source = parse_import_source("iscsi://mover%hidden@10.0.0.5/iqn.2005-10.org.example:disk1/3");
  ASSERT_TRUE(source) << source.error();
  EXPECT_EQ(source->shown(), "iscsi://10.0.0.5:3260/iqn.2005-10.org.example:disk1/3");
}

TEST(ImportSource, ThatIsMalformedIsRefusedAndItsSecretNotRepeated) {
  for (const char* wrong : {"",
                            "http://h/iqn.x/0",
                            "iscsi://",
                            "iscsi://h",
                            "iscsi://h/iqn.2005-10.org.example:d",
                            "iscsi:///iqn.2005-10.org.example:d/0",
                            "iscsi://h:0/iqn.2005-10.org.example:d/0",
                            "iscsi://h:65536/iqn.2005-10.org.example:d/0",
                            "iscsi://h:/iqn.2005-10.org.example:d/0",
                            "iscsi://h/iqn.2005-10.org.example:d/",
                            "iscsi://h/iqn.2005-10.org.example:d/x",
                            "iscsi://h/iqn.2005-10.org.example:d/-1",
                            "iscsi://h/iqn.2005-10.org.example:d/16384",
                            "iscsi://h/disk/0",
                            "iscsi://-h/iqn.2005-10.org.example:d/0",
                            "iscsi://h h/iqn.2005-10.org.example:d/0",
                            "iscsi://[fd00::5/iqn.2005-10.org.example:d/0",
                            "iscsi://hidden@h/iqn.2005-10.org.example:d/0",
                            "iscsi://u%@h/iqn.2005-10.org.example:d/0",
                            "iscsi://u%hidden@h/disk/0"}) {
    const auto read = parse_import_source(wrong);
    ASSERT_FALSE(read) << wrong;
    EXPECT_TRUE(read.error().ends_with(".")) << read.error();
    EXPECT_EQ(read.error().find("hidden"), std::string::npos) << read.error();
  }
}

}  // namespace
}  // namespace lockstep::mgmt
