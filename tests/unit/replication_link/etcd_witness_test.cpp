// Against a real etcd, and against servers that misbehave on purpose.
#include "replication/arbiter/etcd_witness.hpp"

#include <cstdio>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "replication/arbiter/witness_value.hpp"
#include "tests/support/ports/free_port.hpp"
#include "tests/unit/replication_link/etcd_client.hpp"
#include "tests/unit/replication_link/etcd_process.hpp"
#include "tests/unit/replication_link/scripted_server.hpp"

namespace lockstep::replication {
namespace {

using engine::Errc;
using testing::HasSubstr;
using Client = tests::EtcdClient;
using replication::EtcdProbe;
using tests::EtcdProcess;
using tests::kOnlyA;
using tests::kOnlyB;
using tests::kPair;
using tests::kVolume;
using tests::record;
using tests::ScriptedServer;

TEST(EtcdWitness, KeepsARecordThatOnlyTheHolderOfItsRevisionMayChange) {
  EtcdProcess etcd;
  Client client({etcd.url()});
  const auto empty = client.read();
  ASSERT_TRUE(empty) << empty.error().message();
  EXPECT_FALSE(empty->record);
  EXPECT_EQ(empty->mod_revision, 0);

  const auto created = client.swap({}, record(1, engine::MemberSet::both()));
  ASSERT_TRUE(created) << client.witness().last_problem();
  EXPECT_TRUE(created->won);
  EXPECT_GT(created->current.mod_revision, 0);
  const auto again = client.swap({}, record(2, kOnlyA));
  ASSERT_TRUE(again);
  EXPECT_FALSE(again->won);
  EXPECT_EQ(again->current.record, record(1, engine::MemberSet::both()));
  const auto solo = client.swap(created->current, record(2, kOnlyA));
  ASSERT_TRUE(solo);
  EXPECT_TRUE(solo->won);
  EXPECT_EQ(client.read()->record, record(2, kOnlyA));
}

TEST(EtcdWitness, WritingTheSameRecordAgainTakesAwayTheOthersClaimToIt) {
  EtcdProcess etcd;
  Client a({etcd.url()});
  Client b({etcd.url()});
  const auto first = a.swap({}, record(1, kOnlyA));
  const auto seen_by_b = b.read();
  ASSERT_TRUE(a.swap(first->current, record(1, kOnlyA))->won);
  EXPECT_FALSE(b.swap(*seen_by_b, record(2, kOnlyB))->won);
}

TEST(EtcdWitness, LetsExactlyOneOfTwoRacingNodesWinEveryTime) {
  EtcdProcess etcd;
  Client a({etcd.url()});
  Client b({etcd.url()});
  WitnessView seen;
  for (std::uint64_t round = 1; round <= 50; ++round) {
    auto from_a = a.start_swap(seen, record(round, kOnlyA));
    auto from_b = b.start_swap(seen, record(round, kOnlyB));
    const auto outcome_a = from_a.get();
    const auto outcome_b = from_b.get();
    ASSERT_TRUE(outcome_a && outcome_b);
    ASSERT_NE(outcome_a->won, outcome_b->won) << "round " << round;
    const auto truth = a.read();
    ASSERT_TRUE(truth);
    EXPECT_EQ(truth->record->members, outcome_a->won ? kOnlyA : kOnlyB);
    seen = *truth;
  }
}

TEST(EtcdWitness, ForgetsARemovedVolumeAndRemovingTwiceIsFine) {
  EtcdProcess etcd;
  Client client({etcd.url()});
  ASSERT_TRUE(client.swap({}, record(1, kOnlyA))->won);
  EXPECT_FALSE(client.remove());
  EXPECT_FALSE(client.read()->record);
  EXPECT_FALSE(client.remove());
}

TEST(EtcdWitness, TellsItsClusterAndARevisionThatRisesWithEveryWriteOfAnyKey) {
  EtcdProcess etcd;
  Client client({etcd.url()});
  const auto empty = client.read();
  ASSERT_TRUE(empty) << client.witness().last_problem();
  EXPECT_NE(empty->cluster, 0u);
  EXPECT_EQ(empty->revision, 1) << "etcd begins with it";
  const auto won = client.swap({}, record(1, kOnlyA));
  ASSERT_TRUE(won && won->won);
  EXPECT_NE(won->current.cluster, 0u);
  EXPECT_EQ(won->current.revision, 2);
  EXPECT_EQ(won->current.mod_revision, 2);
  etcd.put("another", "value");
  const auto lost = client.swap({}, record(2, kOnlyB));
  ASSERT_TRUE(lost && !lost->won);
  EXPECT_EQ(lost->current.revision, 3);
  EXPECT_EQ(lost->current.mod_revision, 2);
  etcd.kill();
  etcd.start();
  const auto after = client.read();
  ASSERT_TRUE(after) << client.witness().last_problem();
  EXPECT_EQ(after->cluster, won->current.cluster);
  EXPECT_EQ(after->revision, 3);
}

TEST(EtcdWitness, ReadsManyVolumesAtOnceAndGivesEachItsRecord) {
  EtcdProcess etcd;
  Client client({etcd.url()});
  ASSERT_TRUE(client.swap({}, record(7, kOnlyA))->won);
  std::vector<engine::Uuid> volumes(150);  // more than fit into one request
  for (std::size_t i = 0; i < volumes.size(); ++i) volumes[i].bytes[0] = static_cast<std::uint8_t>(i + 1);
  volumes[70] = kVolume;
  const auto views = client.read_all(volumes);
  for (std::size_t i = 0; i < views.size(); ++i) {
    ASSERT_TRUE(views[i]) << client.witness().last_problem();
    EXPECT_EQ(views[i]->record.has_value(), i == 70);
    EXPECT_EQ(views[i]->revision, views[0]->revision);
  }
  EXPECT_EQ(views[70]->record, record(7, kOnlyA));
}

/// Connections that were made to a port of 127.0.0.1, and are there or were a moment ago.
std::size_t connections_to(std::uint16_t port) {
  char end[16];
  std::snprintf(end, sizeof end, "0100007F:%04X", port);
  std::ifstream table("/proc/net/tcp");
  std::size_t found = 0;
  for (std::string line; std::getline(table, line);) {
    std::istringstream fields(line);
    std::string number, local, remote;
    fields >> number >> local >> remote;
    if (remote == end) ++found;
  }
  return found;
}

TEST(EtcdWitness, IsAskedAgainAndAgainOverOneConnection) {
  EtcdProcess etcd;
  Client client({etcd.url()});
  const auto port = static_cast<std::uint16_t>(std::stoi(HttpEndpoint::parse(etcd.url())->port));
  ASSERT_TRUE(client.read());
  const std::size_t begun = connections_to(port);  // etcd's gateway is a client of itself
  WitnessView seen;
  for (std::uint64_t i = 1; i <= 20; ++i) {
    seen = client.swap(seen, record(i, kOnlyA))->current;
    ASSERT_TRUE(client.read());
  }
  EXPECT_EQ(connections_to(port), begun);
}

TEST(EtcdWitness, SwapsOfManyVolumesAtOnceAreEachWonOrLostByItself) {
  EtcdProcess etcd;
  Client client({etcd.url()}), other({etcd.url()});
  std::vector<engine::Uuid> volumes(70);  // more than fit into one request
  for (std::size_t i = 0; i < volumes.size(); ++i) volumes[i].bytes[0] = static_cast<std::uint8_t>(i + 1);
  volumes[40] = kVolume;
  std::vector<WitnessView> seen(volumes.size());
  const auto made = client.swap_all(volumes, seen, record(1, engine::MemberSet::both()));
  for (std::size_t i = 0; i < made.size(); ++i) {
    // Where the first try was slow the one that is answered may be a second one, which finds the record there already.
    ASSERT_TRUE(made[i]) << i << client.witness().last_problem();
    ASSERT_EQ(made[i]->current.record, record(1, engine::MemberSet::both())) << i;
    seen[i] = made[i]->current;
  }
  ASSERT_TRUE(other.swap(seen[40], record(2, kOnlyB))->won);
  const auto changed = client.swap_all(volumes, seen, record(3, kOnlyA));
  for (std::size_t i = 0; i < changed.size(); ++i) {
    ASSERT_TRUE(changed[i]) << i << client.witness().last_problem();
    EXPECT_FALSE(i == 40 && changed[i]->won);
    EXPECT_EQ(changed[i]->current.record, i == 40 ? record(2, kOnlyB) : record(3, kOnlyA));
  }
}

TEST(EtcdWitness, AsksTheNextEndpointWhenTheFirstIsNotThere) {
  EtcdProcess etcd;
  Client client({"http://127.0.0.1:" + std::to_string(tests::free_port()), etcd.url()});
  EXPECT_TRUE(client.swap({}, record(1, kOnlyA))->won);
  EXPECT_TRUE(client.read()->record);
  EXPECT_TRUE(client.probe().answers);
}

TEST(EtcdWitness, SaysItCouldNotAskWhenNobodyListensAndRecoversWhenEtcdIsBack) {
  EtcdProcess etcd;
  Client client({etcd.url()});
  const auto won = client.swap({}, record(1, kOnlyA));
  ASSERT_TRUE(won->won);
  etcd.kill();
  EXPECT_EQ(client.read().error(), Errc::io_error);
  EXPECT_EQ(client.swap(won->current, record(2, kOnlyA)).error(), Errc::io_error);  // never sent: surely not written
  EXPECT_FALSE(client.witness().last_problem().empty());
  EXPECT_FALSE(client.probe().answers);
  etcd.start();
  const auto view = client.read();
  ASSERT_TRUE(view) << client.witness().last_problem();
  EXPECT_EQ(view->record, record(1, kOnlyA));
}

TEST(EtcdWitness, IsAskedWhetherItWouldTakeAWriteWithoutOne) {
  EtcdProcess etcd;
  Client client({etcd.url()});
  const auto before = client.swap({}, record(1, kOnlyA));
  const EtcdProbe trial = client.try_write();
  EXPECT_TRUE(trial.answers) << trial.problem;
  EXPECT_EQ(trial.cluster, client.probe().cluster);
  EXPECT_NE(trial.cluster, 0U);
  EXPECT_EQ(client.read()->revision, before->current.revision) << "nothing was written";
}

TEST(EtcdWitness, ThatIsFullIsFoundOutAndSaysWhatToDo) {
  EtcdProcess etcd({.certificate = "", .key = "", .client_ca = "", .arguments = {"--quota-backend-bytes", "16384"}});
  Client client({etcd.url()});
  EXPECT_TRUE(client.probe().answers) << "it reads";
  const EtcdProbe trial = client.try_write();
  EXPECT_FALSE(trial.answers);
  EXPECT_TRUE(trial.refused);
  EXPECT_THAT(trial.problem, HasSubstr("its database is full"));
  EXPECT_THAT(trial.problem, HasSubstr("etcdctl alarm disarm"));
  EXPECT_EQ(client.swap({}, record(1, kOnlyA)).error(), Errc::unknown_outcome) << "the write that filled it is one";
  EXPECT_THAT(client.witness().last_problem(), HasSubstr("its database is full"));
}

TEST(EtcdWitness, CallsTheOutcomeOfASwapUnknownWhenEtcdFreezesAndNeverAssumesIt) {
  EtcdProcess etcd;
  Client client({etcd.url()});
  const auto first = client.swap({}, record(1, kOnlyA));
  etcd.freeze();
  const auto started = std::chrono::steady_clock::now();
  EXPECT_EQ(client.swap(first->current, record(2, kOnlyA)).error(), Errc::unknown_outcome);
  EXPECT_EQ(client.read().error(), Errc::timed_out);
  EXPECT_LT(std::chrono::steady_clock::now() - started, std::chrono::seconds(6));
  etcd.thaw();
  // Asked again, etcd says what became of it: here the request had reached its socket before it froze.
  for (;;) {
    const auto view = client.read();
    if (!view) continue;
    EXPECT_TRUE(view->record->number == 1 || view->record->number == 2);
    // It was sent on more than one connection meanwhile, and is carried out once.
    EXPECT_EQ(static_cast<std::uint64_t>(view->writes), view->record->number);
    break;
  }
}

const std::string kKey = witness_key(kPair, kVolume);

/// Takes connections, and has too much to do for an answer. Gives how many it has.
class BusyServer {
 public:
  BusyServer() {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    const bool listens = ::bind(listener_, reinterpret_cast<sockaddr*>(&address), length) == 0 &&
                         ::listen(listener_, 64) == 0 &&
                         ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &length) == 0;
    if (!listens) throw std::runtime_error("can't listen on 127.0.0.1");
    port_ = ntohs(address.sin_port);
  }
  ~BusyServer() { ::close(listener_); }
  [[nodiscard]] std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  [[nodiscard]] unsigned connections() const {
    unsigned count = 0;
    for (int one = 0; (one = ::accept(listener_, nullptr, nullptr)) >= 0; ++count) ::close(one);
    return count;
  }

 private:
  int listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  std::uint16_t port_ = 0;
};

/// When a witness of many pairs begins anew it knows nobody, and all ask at once.
TEST(EtcdWitness, ThatHasMuchToDoFromTheFirstRequestOnIsAskedEverLessOften) {
  const BusyServer server;
  Client client({server.url()});
  EXPECT_EQ(client.probe(std::chrono::milliseconds(3300)).answers, false);
  EXPECT_LE(server.connections(), 3u) << "each is a handshake, and the same request once more";
}

TEST(EtcdWitness, NamesWhatNoNodeWroteAndItCanBeWrittenOver) {
  EtcdProcess etcd;
  Client client({etcd.url()});
  etcd.put(kKey, "rubbish");
  const auto view = client.read();
  ASSERT_TRUE(view);
  EXPECT_TRUE(view->tampered);
  EXPECT_NE(client.witness().last_problem().find(kKey), std::string::npos);
  EXPECT_TRUE(client.swap(*view, record(1, kOnlyA))->won);
  EXPECT_EQ(client.read()->record, record(1, kOnlyA));
}

/// A went on alone. Somebody who can write to etcd puts back what stood there before, so that B would win, too.
TEST(EtcdWitness, ARecordThatWasPutBackIsNoRecord) {
  EtcdProcess etcd;
  Client a({etcd.url()}), b({etcd.url()});
  const auto both = a.swap({}, record(1, engine::MemberSet::both()));
  const std::string before = etcd.get(kKey);
  ASSERT_TRUE(a.swap(both->current, record(2, kOnlyA))->won);
  etcd.put(kKey, before);
  const auto view = b.read();
  ASSERT_TRUE(view);
  EXPECT_TRUE(view->tampered);
  EXPECT_FALSE(view->record);
}

/// The same, and the key is removed first, so that etcd counts from one again.
TEST(EtcdWitness, ARecordThatWasMadeAnewIsOfAnotherWitness) {
  EtcdProcess etcd;
  Client a({etcd.url()}), b({etcd.url()});
  const auto both = a.swap({}, record(1, engine::MemberSet::both()));
  const std::string before = etcd.get(kKey);
  const auto seen = b.read();
  ASSERT_TRUE(a.swap(both->current, record(2, kOnlyA))->won);
  etcd.remove(kKey);
  etcd.put(kKey, before);
  const auto view = b.read();
  ASSERT_TRUE(view && seen);
  EXPECT_EQ(view->record, seen->record);
  EXPECT_NE(view->cluster, seen->cluster);
}

/// A has read, B wins, and etcd comes back from a backup of before both: A's swap names a revision that is there again.
TEST(EtcdWitness, AWinAtAnEtcdThatWasSetBackAfterItWasReadIsNone) {
  EtcdProcess etcd;
  Client a({etcd.url()}), b({etcd.url()});
  engine::Uuid second = kVolume;
  second.bytes[0] ^= 1;
  const std::vector<engine::Uuid> volumes{kVolume, second};
  for (const auto& made : a.swap_all(volumes, std::vector<WitnessView>(2), record(1, engine::MemberSet::both())))
    ASSERT_TRUE(made && made->won);
  etcd.kill();
  etcd.back_up();
  etcd.start();
  etcd.put("another", "value");
  etcd.put("another", "value");
  etcd.put("another", "value");
  const auto seen = a.read_all(volumes);
  ASSERT_TRUE(seen[0] && seen[1]) << a.witness().last_problem();
  for (const auto& won : b.swap_all(volumes, {*seen[0], *seen[1]}, record(2, kOnlyB))) ASSERT_TRUE(won && won->won);
  etcd.kill();
  etcd.restore();
  etcd.start();
  const auto alone = a.swap(*seen[0], record(2, kOnlyA));
  ASSERT_FALSE(alone) << "both have won";
  EXPECT_EQ(alone.error(), Errc::unknown_outcome);
  EXPECT_NE(a.witness().last_problem().find("set back"), std::string::npos) << a.witness().last_problem();
  etcd.kill();
  etcd.restore();
  etcd.start();
  for (const auto& outcome : a.swap_all(volumes, {*seen[0], *seen[1]}, record(2, kOnlyA))) {
    ASSERT_FALSE(outcome) << "both have won";
    EXPECT_EQ(outcome.error(), Errc::unknown_outcome);
  }
}

/// An endpoint that was begun anew may have the same record at the same revision.
TEST(EtcdWitness, AWinAtAnotherClusterThanTheOneThatWasReadIsNone) {
  EtcdProcess etcd, other;
  Client at_etcd({etcd.url()}), at_other({other.url()});
  const auto made = at_etcd.swap({}, record(1, engine::MemberSet::both()));
  etcd.put("another", "value");
  ASSERT_TRUE(at_etcd.swap(made->current, record(2, engine::MemberSet::both()))->won);
  other.put("another", "value");
  const auto made_there = at_other.swap({}, record(1, engine::MemberSet::both()));
  ASSERT_TRUE(at_other.swap(made_there->current, record(2, engine::MemberSet::both()))->won);
  const auto seen = at_etcd.read(), there = at_other.read();
  ASSERT_TRUE(seen && there);
  ASSERT_EQ(seen->record, there->record);
  ASSERT_EQ(seen->mod_revision, there->mod_revision);
  ASSERT_EQ(seen->writes, there->writes);
  const auto elsewhere = at_other.swap(*seen, record(3, kOnlyA));
  ASSERT_FALSE(elsewhere) << "both win";
  EXPECT_EQ(elsewhere.error(), Errc::unknown_outcome);
  EXPECT_TRUE(at_etcd.swap(*seen, record(3, kOnlyB))->won);
}

// What a server may say to a request, and what must be made of it.
struct Misbehaviour {
  const char* name;
  std::string answer;  ///< sent once the request is in; then the connection is closed
  Errc read;
  Errc swap;
};

class EtcdWitnessMeets : public testing::TestWithParam<Misbehaviour> {};

TEST_P(EtcdWitnessMeets, AndSurvivesWithTheRightVerdict) {
  ScriptedServer server(GetParam().answer);
  Client client({server.url()});
  EXPECT_EQ(client.read().error(), GetParam().read);
  EXPECT_EQ(client.swap({}, record(1, kOnlyA)).error(), GetParam().swap);
  EXPECT_FALSE(client.witness().last_problem().empty());
}

std::string http(const std::string& status, const std::string& body) {
  return "HTTP/1.1 " + status + "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

INSTANTIATE_TEST_SUITE_P(
    Servers, EtcdWitnessMeets,
    testing::Values(
        Misbehaviour{"hang_up", "", Errc::io_error, Errc::unknown_outcome},
        Misbehaviour{"not_http", "SSH-2.0-OpenSSH\r\n", Errc::io_error, Errc::unknown_outcome},
        Misbehaviour{"half_an_answer", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{", Errc::io_error,
                     Errc::unknown_outcome},
        Misbehaviour{"unavailable", http("503 Service Unavailable", "{}"), Errc::io_error, Errc::unknown_outcome},
        Misbehaviour{"not_found", http("404 Not Found", "no"), Errc::io_error, Errc::unknown_outcome},
        Misbehaviour{"bad_json", http("200 OK", "{\"header\":"), Errc::corrupt, Errc::unknown_outcome},
        Misbehaviour{"empty_json", http("200 OK", "{}"), Errc::corrupt, Errc::unknown_outcome},
        Misbehaviour{"deep_json", http("200 OK", std::string(60000, '[')), Errc::corrupt, Errc::unknown_outcome},
        Misbehaviour{"too_large", "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", Errc::io_error,
                     Errc::unknown_outcome},
        Misbehaviour{"endless_header", "HTTP/1.1 200 OK\r\nX: " + std::string(100000, 'x'), Errc::io_error,
                     Errc::unknown_outcome}),
    [](const auto& server) { return server.param.name; });

TEST(HttpEndpoint, IsReadFromAUrlAndRefusesOthersWithTheReason) {
  EXPECT_EQ(HttpEndpoint::parse("http://10.0.0.1:2379")->to_string(), "10.0.0.1:2379");
  EXPECT_EQ(HttpEndpoint::parse("http://[::1]:2379/")->to_string(), "[::1]:2379");
  EXPECT_FALSE(HttpEndpoint::parse("http://etcd1:2379")->tls);
  EXPECT_TRUE(HttpEndpoint::parse("https://etcd1:2379")->tls);
  for (const char* bad : {"", "10.0.0.1:2379", "ftp://x:1", "https://x", "http://x", "http://x:", "http://:1",
                          "http://x:0", "http://x:65536", "http://x:1a", "http://u@x:1", "http://x/y:1"}) {
    const auto outcome = HttpEndpoint::parse(bad);
    ASSERT_FALSE(outcome) << bad;
    EXPECT_NE(outcome.error().message.find("expected http://HOST:PORT or https://HOST:PORT"), std::string::npos);
  }
}

}  // namespace
}  // namespace lockstep::replication
