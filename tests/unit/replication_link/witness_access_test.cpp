// What may be said of how a witness is spoken to.
#include "replication/arbiter/witness_access.hpp"

#include <gtest/gtest.h>

#include "tests/unit/replication_link/test_ca.hpp"

namespace lockstep::replication {
namespace {

const std::vector<std::string> kPlain = {"http://10.0.0.1:2379"};
const std::vector<std::string> kTls = {"https://10.0.0.1:2379", "https://10.0.0.2:2379"};

struct AccessToAWitness : testing::Test {
  tests::TestCa ca;
  tests::Identity node = ca.issue();
  WitnessAccess access{.ca = ca.pem(), .certificate = node.certificate, .key = node.key, .user = "u", .password = "p"};

  /// "field: sentence" of the first problem; empty: none.
  static std::string problem(const std::vector<std::string>& endpoints, const WitnessAccess& wanted) {
    const auto problems = problems_of(endpoints, wanted);
    return problems.empty() ? "" : std::string(problems.front().field) + ": " + problems.front().message;
  }
  [[nodiscard]] WitnessAccess with(std::string WitnessAccess::*field, const std::string& value) const {
    WitnessAccess changed = access;
    changed.*field = value;
    return changed;
  }
};

TEST_F(AccessToAWitness, MayBeNothingAtAllOverPlainHttp) { EXPECT_EQ(problem(kPlain, {}), ""); }

TEST_F(AccessToAWitness, MayHaveAllOverTls) {
  EXPECT_EQ(problem(kTls, access), "");
  EXPECT_EQ(problem(kTls, {.ca = ca.pem(), .certificate = "", .key = "", .user = "", .password = ""}), "");
}

TEST_F(AccessToAWitness, OverTlsNeedsACa) {
  EXPECT_TRUE(problem(kTls, {}).starts_with("ca: Is required for https://")) << problem(kTls, {});
}

TEST_F(AccessToAWitness, OverPlainHttpHasNoUserBecauseThePasswordCouldBeRead) {
  WitnessAccess user;
  user.user = "u";
  user.password = "p";
  EXPECT_EQ(problem(kPlain, user),
            "user: Needs https:// endpoints: over http:// the password could be read on the network.");
}

TEST_F(AccessToAWitness, OverPlainHttpHasNoCaCertificateOrKey) {
  const auto problems = problems_of(kPlain, access);
  ASSERT_EQ(problems.size(), 4u);
  EXPECT_EQ(problems[0].field, "ca");
  EXPECT_EQ(problems[1].field, "certificate");
  EXPECT_EQ(problems[2].field, "key");
}

TEST_F(AccessToAWitness, IsNotHalfOverTls) {
  EXPECT_TRUE(problem({kPlain[0], kTls[0]}, access).starts_with("endpoints: Must be either all"));
}

TEST_F(AccessToAWitness, HasPemThatCanBeRead) {
  EXPECT_TRUE(problem(kTls, with(&WitnessAccess::ca, "rubbish")).starts_with("ca: Must be a certificate in PEM form"));
  EXPECT_TRUE(problem(kTls, with(&WitnessAccess::ca, node.key)).starts_with("ca: Must be a certificate in PEM form"));
  EXPECT_TRUE(
      problem(kTls, with(&WitnessAccess::ca, std::string(kMaxPem + 1, 'x'))).starts_with("ca: Must be at most"));
  EXPECT_TRUE(problem(kTls, with(&WitnessAccess::certificate, "rubbish")).starts_with("certificate: Must be"));
  EXPECT_TRUE(problem(kTls, with(&WitnessAccess::key, node.certificate)).starts_with("key: Must be a private key"));
}

TEST_F(AccessToAWitness, HasAKeyWithoutAPassphraseThatBelongsToTheCertificate) {
  EXPECT_TRUE(problem(kTls, with(&WitnessAccess::key, tests::with_passphrase(node.key, "secret")))
                  .ends_with("without a passphrase."));
  EXPECT_EQ(problem(kTls, with(&WitnessAccess::key, ca.issue().key)), "key: Does not belong to the certificate.");
}

TEST_F(AccessToAWitness, HasBothOfWhatGoesTogether) {
  EXPECT_EQ(problem(kTls, with(&WitnessAccess::key, "")), "key: Is required with a certificate.");
  EXPECT_EQ(problem(kTls, with(&WitnessAccess::certificate, "")), "certificate: Is required with a key.");
  EXPECT_EQ(problem(kTls, with(&WitnessAccess::password, "")), "password: Is required with a user.");
  EXPECT_EQ(problem(kTls, with(&WitnessAccess::user, "")), "user: Is required with a password.");
}

TEST_F(AccessToAWitness, HasNoLineEndsInUserOrPassword) {
  EXPECT_TRUE(problem(kTls, with(&WitnessAccess::user, "a\nb")).starts_with("user: Must be 1 to 255"));
  EXPECT_TRUE(problem(kTls, with(&WitnessAccess::password, "a\r")).starts_with("password: Must be 1 to 255"));
  EXPECT_TRUE(problem(kTls, with(&WitnessAccess::password, std::string(256, 'a'))).starts_with("password: Must be"));
}

}  // namespace
}  // namespace lockstep::replication
