// What set-up looks at before it writes: what it lets pass, what it warns of, what it refuses, and what it says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/cli/setup_host.hpp"
#include "ui-api/cli/setup/checks.hpp"

namespace lockstep::cli::setup {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::Matcher;
using Kind = Finding::Kind;
using Use = PortState::Use;

Matcher<Finding> is(Kind kind, const std::string& words = "") {
  return AllOf(Field("kind", &Finding::kind, kind), Field("text", &Finding::text, HasSubstr(words)));
}

struct SetupChecks : testing::Test {
  ImaginedHost host;
  Answers answers{{"10.0.0.11:3260"}, "10.0.1.11:3261", "10.0.0.11:8443", "", ""};
  Present present;

  SetupChecks() { host.folders[host.where.state_folder] = ImaginedHost::good_folder(); }
  std::vector<Finding> addresses() { return check_addresses(host, answers, present); }
  std::vector<Finding> folder() { return check_volume_folder(host, answers, present); }
  FolderState& other_folder() {
    answers.volume_folder = "/srv/lockstep";
    return host.folders["/srv/lockstep"] = ImaginedHost::good_folder();
  }
};

TEST_F(SetupChecks, LetAddressesPassThatAreHereWithFreePorts) {
  EXPECT_THAT(addresses(), ElementsAre(is(Kind::good, "10.0.0.11:3260"), is(Kind::good, "10.0.1.11:3261"),
                                       is(Kind::good, "10.0.0.11:8443")));
}

TEST_F(SetupChecks, RefuseAnAddressOfAnotherMachineAndNameThoseOfThisOne) {
  host.ports["10.0.1.11:3261"] = {Use::not_here, ""};
  EXPECT_THAT(addresses()[1], is(Kind::refused, "which has 10.0.0.11, 10.0.1.11."));
}

TEST_F(SetupChecks, RefuseAPortThatAnotherProgramHasAndNameIt) {
  host.ports["10.0.0.11:3260"] = {Use::taken, "tgtd"};
  EXPECT_THAT(addresses()[0], is(Kind::refused, "tgtd has the port"));
}

TEST_F(SetupChecks, LetThePortPassThatTheRightDaemonHas) {
  host.ports["10.0.0.11:3260"] = {Use::taken, "lockstepd"};
  host.ports["10.0.0.11:8443"] = {Use::taken, "lockstep-mgmtd"};
  EXPECT_THAT(addresses(), ElementsAre(is(Kind::good), is(Kind::good), is(Kind::good)));
  host.ports["10.0.1.11:3261"] = {Use::taken, "lockstep-mgmtd"};  // of ours, and the wrong one
  EXPECT_THAT(addresses()[1], is(Kind::refused, "lockstep-mgmtd has the port"));
}

TEST_F(SetupChecks, TakeAnUnseenHolderForOursOnlyWhereTheFileSaysThatAddress) {
  host.ports["10.0.0.11:3260"] = {Use::taken, ""};
  EXPECT_THAT(addresses()[0], is(Kind::refused, "another program has the port"));
  present.portals = {"10.0.0.11:3260"};
  EXPECT_THAT(addresses()[0], is(Kind::warning));
}

TEST_F(SetupChecks, WarnWhereAPortCannotBeLookedAt) {
  host.ports["10.0.0.11:3260"] = {Use::unknown, ""};
  EXPECT_THAT(addresses()[0], is(Kind::warning, "could not be seen"));
}

TEST_F(SetupChecks, RefuseOnePortForTwoPurposes) {
  answers.link = "10.0.0.11:3260";
  EXPECT_THAT(addresses()[1], is(Kind::refused, "given twice"));
}

TEST_F(SetupChecks, RefuseAnAddressForManagementWhereNothingListens) {
  present.listen = "127.0.0.1:8443";
  EXPECT_THAT(addresses().back(), is(Kind::refused, "nothing would answer there"));
  present.listen = "0.0.0.0:9443";
  EXPECT_THAT(addresses().back(), is(Kind::refused, "nothing would answer there"));
  present.listen = "10.0.0.11:8443";
  EXPECT_THAT(addresses().back(), is(Kind::good));
}

TEST_F(SetupChecks, RefuseAClockThatIsYearsBehindAndWarnOfOneThatNobodySets) {
  EXPECT_THAT(check_clock(host), is(Kind::good));
  host.time.synchronised = ClockState::Synchronised::no;
  EXPECT_THAT(check_clock(host), is(Kind::warning, "not synchronised"));
  host.time.synchronised = ClockState::Synchronised::unknown;
  EXPECT_THAT(check_clock(host), is(Kind::warning, "could not be seen"));
  host.time = {ClockState::Synchronised::yes, 60};
  EXPECT_THAT(check_clock(host), is(Kind::refused, "years behind"));
}

TEST_F(SetupChecks, LookAtTheStateFolderWhereTheVolumesFolderIsNotMadeYet) {
  EXPECT_THAT(folder(), ElementsAre(is(Kind::good, "/var/lib/lockstep takes direct I/O")));
  host.folders.clear();
  EXPECT_THAT(folder(), ElementsAre(is(Kind::refused, "Install the package")));
}

TEST_F(SetupChecks, RefuseAFolderThatCannotKeepVolumes) {
  other_folder().in_memory = true;
  EXPECT_THAT(folder(), ElementsAre(is(Kind::refused, "kept in memory")));
  other_folder().why_no_writes = "Read-only file system";
  EXPECT_THAT(folder(), ElementsAre(is(Kind::refused, "Read-only file system")));
  other_folder().why_no_direct_io = "Invalid argument";
  EXPECT_THAT(folder(), ElementsAre(is(Kind::refused, "direct I/O: Invalid argument")));
  other_folder().user_gets_there = false;
  EXPECT_THAT(folder(), ElementsAre(is(Kind::refused, "shuts it out")));
  other_folder().there = false;
  EXPECT_THAT(folder(), ElementsAre(is(Kind::refused, "is not there")));
}

TEST_F(SetupChecks, RefuseToTakeAFolderWithOthersFilesUnlessItWasTakenAlready) {
  other_folder().strangers = {"photos", "x\x1b[2J"};
  const auto refused = folder();
  EXPECT_THAT(refused, ElementsAre(is(Kind::refused, "photos")));
  EXPECT_EQ(refused[0].text.find('\x1b'), std::string::npos);
  present.volume_folder = answers.volume_folder;
  EXPECT_THAT(folder(), ElementsAre(is(Kind::good)));
}

TEST_F(SetupChecks, WarnOfAFolderThatIsNearlyFull) {
  other_folder().free_bytes = 1000;
  EXPECT_THAT(folder(), ElementsAre(is(Kind::good), is(Kind::warning, "nearly full")));
}

TEST_F(SetupChecks, TryTheLinksWholePacketsWithThePartner) {
  const std::string partner = "10.0.1.12:3261";
  EXPECT_THAT(check_link(host, answers, ""), ElementsAre(is(Kind::good, "eth1, with packets of up to 9000 bytes")));
  EXPECT_THAT(check_link(host, answers, partner), ElementsAre(is(Kind::good), is(Kind::good, "9000 bytes reach")));
  host.packets_end = PacketState::Outcome::only_small;
  EXPECT_THAT(check_link(host, answers, partner), ElementsAre(is(Kind::good), is(Kind::refused, "Set one MTU")));
  host.packets_end = PacketState::Outcome::silent;
  EXPECT_THAT(check_link(host, answers, partner), ElementsAre(is(Kind::good), is(Kind::warning, "ping")));
  host.has[2].mtu = 1280;
  EXPECT_THAT(check_link(host, answers, ""), ElementsAre(is(Kind::warning, "1280")));
}

std::string described(const std::string& version) {
  return "openapi: 3.1.0\ninfo:\n  title: x\n  version: " + version + "\n";
}

TEST(PartnersVersion, HasToFitThisOne) {
  const auto said = [](const std::string& theirs) {
    return check_partner("10.0.0.12:8443", described(theirs), "1.4.2");
  };
  EXPECT_THAT(said("1.4.9"), is(Kind::good, "version 1.4.9"));
  EXPECT_THAT(said("1.5.0"), is(Kind::warning, "Bring both to the newer one"));
  EXPECT_THAT(said("2.0.0"), is(Kind::refused, "do not fit"));
}

TEST(PartnersVersion, IsNotSeenInWhatIsNoLockstepNode) {
  for (const std::string& answer :
       {std::string(), std::string("<html>"), described("abc"), described("1"), described("99999999999999999999.0"),
        std::string(1 << 20, 'x') + described("1.4.2")})
    EXPECT_THAT(check_partner("10.0.0.12:8443", answer, "1.4.2"), is(Kind::refused, "no Lockstep node"));
  EXPECT_THAT(check_partner("10.0.0.12:8443", fail(Exit::unreachable, "Connection refused\nmore"), "1.4.2"),
              is(Kind::refused, "does not answer at 10.0.0.12:8443 (Connection refused)"));
}

}  // namespace
}  // namespace lockstep::cli::setup
