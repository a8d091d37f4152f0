// Against a real etcd over TLS, and one that asks who is there.
#include <future>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "replication/arbiter/etcd_auth.hpp"
#include "replication/arbiter/etcd_messages.hpp"
#include "replication/arbiter/tls_client.hpp"
#include "tests/unit/replication_link/etcd_client.hpp"
#include "tests/unit/replication_link/etcd_process.hpp"
#include "tests/unit/replication_link/http_post.hpp"
#include "tests/unit/replication_link/test_ca.hpp"

namespace lockstep::replication {
namespace {

using engine::Errc;
using testing::HasSubstr;
using tests::EtcdClient;
using tests::EtcdOptions;
using tests::EtcdProcess;
using tests::Identity;
using tests::kOnlyA;
using tests::kPair;
using tests::kVolume;
using tests::record;
using tests::TestCa;

EtcdOptions over_tls(const Identity& server) { return {server.certificate, server.key, ""}; }
WitnessAccess trusting(const TestCa& ca) {
  return {.ca = ca.pem(), .certificate = "", .key = "", .user = "", .password = ""};
}
WitnessAccess as_user(const TestCa& ca, const std::string& password) {
  WitnessAccess access = trusting(ca);
  access.user = "lockstep";
  access.password = password;
  return access;
}

// Nothing was written, surely, and the sentence says why.
void expect_refused(EtcdClient& client, const std::string& sentence, Errc code = Errc::io_error) {
  EXPECT_EQ(client.read().error(), code);
  EXPECT_THAT(client.witness().last_problem(), HasSubstr(sentence));
  EXPECT_EQ(client.swap({}, record(1, kOnlyA)).error(), code);
  const EtcdProbe probe = client.probe();
  EXPECT_FALSE(probe.answers);
  EXPECT_TRUE(probe.refused);
  EXPECT_THAT(probe.problem, HasSubstr(sentence));
}

struct EtcdOverTls : testing::Test {
  TestCa ca;
};

TEST_F(EtcdOverTls, KeepsARecordForWhoTrustsItsCa) {
  EtcdProcess etcd(over_tls(ca.issue()));
  EtcdClient client({etcd.url()}, trusting(ca));
  const auto created = client.swap({}, record(1, kOnlyA));
  ASSERT_TRUE(created) << client.witness().last_problem();
  EXPECT_TRUE(created->won);
  EXPECT_EQ(client.read()->record, record(1, kOnlyA));
  EXPECT_TRUE(client.probe().answers);
}

TEST_F(EtcdOverTls, IsKnownByItsName) {
  EtcdProcess etcd(over_tls(ca.issue({.names = "DNS:localhost"})));
  EtcdClient client({etcd.url("localhost")}, trusting(ca));
  EXPECT_TRUE(client.probe().answers) << client.witness().last_problem();
}

TEST_F(EtcdOverTls, IsRefusedWhenAnotherCaSignedItsCertificate) {
  EtcdProcess etcd(over_tls(TestCa().issue()));
  EtcdClient client({etcd.url()}, trusting(ca));
  expect_refused(client, "not signed by the CA that the pair was given");
}

TEST_F(EtcdOverTls, IsRefusedWhenItsCertificateHasExpired) {
  EtcdProcess etcd(over_tls(ca.issue({.from = -7200, .until = -60})));
  EtcdClient client({etcd.url()}, trusting(ca));
  expect_refused(client, "has expired");
}

TEST_F(EtcdOverTls, IsRefusedWhenItsCertificateIsNotValidYet) {
  EtcdProcess etcd(over_tls(ca.issue({.from = 3600})));
  EtcdClient client({etcd.url()}, trusting(ca));
  expect_refused(client, "not valid yet");
}

TEST_F(EtcdOverTls, IsRefusedByNameAndByAddressWhenItsCertificateIsOfAnotherHost) {
  EtcdProcess etcd(over_tls(ca.issue({.names = "DNS:other.example,IP:127.0.0.2"})));
  EtcdClient by_address({etcd.url()}, trusting(ca));
  expect_refused(by_address, "of another host; name 127.0.0.1 in its subjectAltName");
  EtcdClient by_name({etcd.url("localhost")}, trusting(ca));
  expect_refused(by_name, "of another host; name localhost in its subjectAltName");
}

TEST_F(EtcdOverTls, IsRefusedWhenItsCertificateIsAClients) {
  EtcdProcess etcd(over_tls(ca.issue({.use = "clientAuth"})));
  EtcdClient client({etcd.url()}, trusting(ca));
  expect_refused(client, "not one for servers");
}

TEST_F(EtcdOverTls, ThatWantsAClientCertificateSaysSoAndTakesTheRightOne) {
  EtcdOptions options = over_tls(ca.issue());
  options.client_ca = ca.pem();
  EtcdProcess etcd(options);

  EtcdClient without({etcd.url()}, trusting(ca));
  EXPECT_FALSE(without.read());
  EXPECT_THAT(without.witness().last_problem(), HasSubstr("client certificate"));
  EXPECT_TRUE(without.probe().refused);

  WitnessAccess access = trusting(ca);
  const Identity strange = TestCa().issue();
  access.certificate = strange.certificate;
  access.key = strange.key;
  EtcdClient stranger({etcd.url()}, access);
  EXPECT_FALSE(stranger.read());
  EXPECT_THAT(stranger.witness().last_problem(), HasSubstr("refuses the client certificate"));

  const Identity known = ca.issue({.names = "DNS:node-a", .use = "clientAuth"});
  access.certificate = known.certificate;
  access.key = known.key;
  EtcdClient client({etcd.url()}, access);
  EXPECT_TRUE(client.swap({}, record(1, kOnlyA))) << client.witness().last_problem();
}

TEST_F(EtcdOverTls, AskedWithoutTlsIsNotMistakenForOneThatIsAway) {
  EtcdProcess etcd(over_tls(ca.issue()));
  std::string url = etcd.url();
  url.erase(4, 1);  // https
  EtcdClient client({url});
  EXPECT_FALSE(client.read());
  EXPECT_THAT(client.witness().last_problem(), HasSubstr("if etcd speaks TLS there, use https://"));
  EXPECT_TRUE(client.probe().refused);
}

TEST_F(EtcdOverTls, IsMissedWhereEtcdSpeaksNone) {
  EtcdProcess etcd;
  std::string url = etcd.url();
  url.insert(4, "s");
  EtcdClient client({url}, trusting(ca));
  expect_refused(client, "switch TLS on in etcd");
}

TEST_F(EtcdOverTls, IsNotWaitedForLongerThanTheDeadlineWhenItFreezes) {
  EtcdProcess etcd(over_tls(ca.issue()));
  EtcdClient client({etcd.url()}, trusting(ca));
  etcd.freeze();
  EXPECT_EQ(client.swap({}, record(1, kOnlyA)).error(), Errc::timed_out);  // no TLS yet, so it was not sent
  const EtcdProbe probe = client.probe();
  EXPECT_FALSE(probe.answers || probe.refused);
  etcd.thaw();
}

// One request past the witness's own code.
HttpReply ask(const std::string& url, const WitnessAccess& access, std::string_view path, const std::string& body,
              const std::string& token = "") {
  engine::Reactor reactor;
  reactor.start();
  std::promise<HttpReply> promise;
  const auto tls = TlsClient::create(access);
  reactor.post([&] {
    tests::http_post(reactor, *HttpEndpoint::parse(url), path, body, token, *tls, std::chrono::seconds(5),
                     [&](auto outcome) { promise.set_value(outcome.value_or(HttpReply())); });
  });
  return promise.get_future().get();
}

struct EtcdWithUsers : testing::Test {
  TestCa ca;
  /// Passwords that cost it next to nothing, so that a busy machine does not make the tests wait.
  [[nodiscard]] EtcdOptions server() const {
    EtcdOptions options = over_tls(ca.issue());
    options.arguments = {"--bcrypt-cost", "4"};
    return options;
  }
  /// The token is signed and lives a second, whether it is used or not.
  [[nodiscard]] EtcdOptions with_short_tokens() const {
    EtcdOptions options = over_tls(ca.issue());
    options.arguments = {"--bcrypt-cost", "4", "--auth-token", "jwt,priv-key=FOLDER/key.pem,sign-method=HS256,ttl=1s"};
    return options;
  }
};

TEST_F(EtcdWithUsers, LetsInWhoKnowsThePassword) {
  EtcdProcess etcd(server());
  etcd.enable_authentication("lockstep", "right", "/lockstep/");
  EtcdClient client({etcd.url()}, as_user(ca, "right"));
  ASSERT_TRUE(client.swap({}, record(1, kOnlyA))) << client.witness().last_problem();
  EXPECT_EQ(client.read()->record, record(1, kOnlyA));
  EXPECT_TRUE(client.probe().answers);
  EXPECT_FALSE(client.remove());
}

TEST_F(EtcdWithUsers, RefusesAWrongPasswordWithASentenceThatDoesNotHoldIt) {
  EtcdProcess etcd(server());
  etcd.enable_authentication("lockstep", "right", "/lockstep/");
  EtcdClient client({etcd.url()}, as_user(ca, "wrong-one"));
  expect_refused(client, "refuses the user lockstep or its password", Errc::refused);
  EXPECT_EQ(client.witness().last_problem().find("wrong-one"), std::string::npos);
}

TEST_F(EtcdWithUsers, TellsWhoComesWithoutOneThatItWantsOne) {
  EtcdProcess etcd(server());
  etcd.enable_authentication("lockstep", "right", "/lockstep/");
  EtcdClient client({etcd.url()}, trusting(ca));
  expect_refused(client, "wants a user and a password", Errc::refused);
}

TEST_F(EtcdWithUsers, NamesThePermissionThatAUserLacks) {
  EtcdProcess etcd(server());
  etcd.enable_authentication("lockstep", "right", "/elsewhere/");
  EtcdClient client({etcd.url()}, as_user(ca, "right"));
  expect_refused(client, "readwrite on the prefix /lockstep/", Errc::refused);
}

TEST_F(EtcdWithUsers, IsFoundOutWhereTheUserMayOnlyRead) {
  EtcdProcess etcd(server());
  etcd.enable_authentication("lockstep", "right", "/lockstep/", "read");
  EtcdClient client({etcd.url()}, as_user(ca, "right"));
  EXPECT_TRUE(client.probe().answers);
  const EtcdProbe trial = client.try_write();
  EXPECT_FALSE(trial.answers);
  EXPECT_TRUE(trial.refused);
  EXPECT_THAT(trial.problem, HasSubstr("readwrite on the prefix /lockstep/"));
}

TEST_F(EtcdWithUsers, IsAskedWithoutATokenWhileItsAuthenticationIsOffAndWithOneOnceItIsOn) {
  EtcdProcess etcd(server());
  EtcdClient client({etcd.url()}, as_user(ca, "right"));
  const auto first = client.swap({}, record(1, kOnlyA));
  ASSERT_TRUE(first) << client.witness().last_problem();
  etcd.enable_authentication("lockstep", "right", "/lockstep/");
  const auto second = client.swap(first->current, record(2, kOnlyA));
  ASSERT_TRUE(second) << client.witness().last_problem();
  EXPECT_TRUE(second->won);
}

TEST_F(EtcdWithUsers, IsKnownToTakeEverybodyWhileItsAuthenticationIsOff) {
  EtcdProcess etcd(server());
  EtcdClient client({etcd.url()}, as_user(ca, "right"));
  EXPECT_EQ(client.ask_as_nobody(), true);
  etcd.enable_authentication("lockstep", "right", "/lockstep/");
  ASSERT_TRUE(client.read()) << client.witness().last_problem();
  EXPECT_EQ(client.ask_as_nobody(), false);
  EXPECT_EQ(client.witness().last_problem(), "") << "it is no problem of this node's";
  EXPECT_TRUE(client.probe().answers);
  etcd.kill();
  EXPECT_EQ(client.ask_as_nobody(), std::nullopt);
}

TEST_F(EtcdWithUsers, IsSentASwapAgainWithANewTokenWhenItHasForgottenTheOldOne) {
  EtcdProcess etcd(server());
  etcd.enable_authentication("lockstep", "right", "/lockstep/");
  EtcdClient client({etcd.url()}, as_user(ca, "right"));
  const auto first = client.swap({}, record(1, kOnlyA));
  ASSERT_TRUE(first && first->won) << client.witness().last_problem();
  etcd.kill();  // its tokens are in its memory only
  etcd.start();
  const auto second = client.swap(first->current, record(2, kOnlyA));
  ASSERT_TRUE(second) << client.witness().last_problem();
  EXPECT_TRUE(second->won);
}

TEST_F(EtcdWithUsers, IsSentASwapAgainWithANewTokenWhenTheOldOneHasExpired) {
  EtcdProcess etcd(with_short_tokens());
  etcd.enable_authentication("lockstep", "right", "/lockstep/");
  EtcdClient client({etcd.url()}, as_user(ca, "right"));
  const auto first = client.swap({}, record(1, kOnlyA));
  ASSERT_TRUE(first && first->won) << client.witness().last_problem();
  // A token that is younger than the client's: when it is no longer taken, neither is the other. On a machine with much
  // else to do one may expire before its first use, so another is asked for until one was seen to be taken.
  const std::string read = etcd_range_request({kPair, kVolume, {}, engine::NodeSide::a});
  const std::string login = etcd_authenticate_request("lockstep", "right");
  engine::Result<std::string> younger;
  do {
    younger = parse_authenticate_answer(ask(etcd.url(), trusting(ca), kEtcdAuthenticatePath, login).body);
    ASSERT_TRUE(younger) << younger.error().message;
  } while (ask(etcd.url(), trusting(ca), kEtcdRangePath, read, *younger).status != 200);
  while (ask(etcd.url(), trusting(ca), kEtcdRangePath, read, *younger).status != 401) {
  }
  const auto second = client.swap(first->current, record(2, kOnlyA));
  ASSERT_TRUE(second) << client.witness().last_problem();
  EXPECT_TRUE(second->won);
}

// It neither takes nor refuses a token that it gave at a later state than the one it came back with.
TEST_F(EtcdWithUsers, IsUnderstoodAgainAfterItWasRestoredFromABackup) {
  EtcdProcess etcd(server());
  etcd.enable_authentication("lockstep", "right", "/lockstep/");
  etcd.kill();
  etcd.back_up();
  etcd.start();
  for (int i = 0; i < 30; ++i) etcd.put("/elsewhere", std::to_string(i));
  EtcdClient client({etcd.url()}, as_user(ca, "right"));
  ASSERT_TRUE(client.swap({}, record(1, kOnlyA))) << client.witness().last_problem();
  etcd.kill();
  etcd.restore();
  etcd.start();
  engine::IoResult<WitnessView> seen = client.read();
  for (unsigned i = 0; i < EtcdLogin::kUnanswered && !seen; ++i) seen = client.read();
  ASSERT_TRUE(seen) << client.witness().last_problem();
  EXPECT_FALSE(seen->record);
}

}  // namespace
}  // namespace lockstep::replication
