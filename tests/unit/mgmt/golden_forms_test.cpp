// The bytes in which records travel and are kept, as earlier programs write and read them: none of them may change by
// accident. A golden text stands here with white space that the bytes do not have.
#include "tests/unit/mgmt/golden_forms.hpp"

#include <map>
#include <set>
#include <sstream>

#include <SQLiteCpp/SQLiteCpp.h>
#include <boost/core/demangle.hpp>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "mgmt/control/configuration_tables.hpp"
#include "mgmt/control/database.hpp"
#include "mgmt/control/desired_state.hpp"
#include "mgmt/control/job.hpp"
#include "mgmt/control/pair_view.hpp"
#include "mgmt/control/peer.hpp"
#include "mgmt/data_plane/volume_spec.hpp"
#include "mgmt/records/fields.hpp"
#include "tests/unit/mgmt/temporary_folder.hpp"

namespace lockstep::mgmt {
namespace {

Uuid id(int n) {
  return *Uuid::parse("00000000-0000-4000-8000-0000000000" + std::string(n < 10 ? "0" : "") + std::to_string(n));
}

Pair pair_with_everything() {
  Pair pair;
  pair.id = id(1);
  pair.name = "pair1";
  pair.target_name = "iqn.2026-11.io.lockstep:pair1";
  pair.arbiter = {true, {"https://w1:2379", "https://w2:2379"}, NodeSide::b, {"ca", "cert", "key", "user", "password"}};
  pair.settings = {2000, 1, 2};
  pair.link = {"link", "link-secret"};
  pair.link_mutual = {"answer", "answer-secret"};
  pair.created_ms = 17;
  pair.next_lun = 5;
  pair.discovery = Chap{"finder", "finder-secret"};
  pair.seal = SealSecrets{"seal-one", "seal-other"};
  pair.link_beside = LinkBeside{{"l2", "l2-secret"}, {"a2", "a2-secret"}, true};
  return pair;
}

Pair plain_pair() {
  Pair pair;
  pair.id = id(1);
  pair.name = "pair1";
  pair.target_name = "iqn.2026-11.io.lockstep:pair1";
  pair.link = {"link", "link-secret"};
  pair.link_mutual = {"answer", "answer-secret"};
  return pair;
}

Node node(NodeSide side) {
  return {id(2), side, "node-a", {"10.0.0.11:3260", "[fd00::11]:3260"}, "10.0.0.11:3261", "10.0.0.11:8443", "aa"};
}

Volume volume_with_everything() {
  Volume volume;
  volume.id = id(3);
  volume.name = "vm1";
  volume.serial = "serial1";
  volume.lun = 7;
  volume.size = 1 << 20;
  volume.block_size = 4096;
  volume.physical_block = 4096;
  volume.thin = false;
  volume.read_only = volume.removable = volume.encrypted = volume.write_cache = true;
  volume.lifecycle = Lifecycle::ready;
  volume.first_epoch = id(4);
  volume.access = {"iqn.2000-01.com.example:h1", "iqn.2000-01.com.example:h2"};
  volume.created_ms = 3;
  volume.copies = {Copy{}, Copy{2, "/fast", true}};
  return volume;
}

Volume plain_volume() {
  Volume volume;
  volume.id = id(5);
  volume.name = "vm2";
  volume.serial = "serial2";
  volume.size = 1 << 21;
  volume.lifecycle = Lifecycle::deleting;
  volume.first_epoch = id(6);
  volume.any_initiator = true;
  volume.import_secret = "import-secret";
  return volume;
}

Configuration with_everything() {
  Configuration c;
  c.pair = pair_with_everything();
  c.nodes = {node(NodeSide::a)};
  c.nodes.push_back(node(NodeSide::b));
  c.nodes[1].id = id(7);
  c.nodes[1].name = "node-b";
  c.volumes = {volume_with_everything(), plain_volume()};
  c.initiators = {{"iqn.2000-01.com.example:h1", Chap{"u", "s"}, Chap{"m", "ms"}, 1,
                   OldCredentials{{"ou", "os"}, Chap{"om", "oms"}, 99}},
                  {"iqn.2000-01.com.example:h2", {}, {}, 2}};
  c.tokens = {{id(8), "t1", "d1", Role::admin, 6, 0}, {id(9), "t2", "d2", Role::viewer, 7, 8}};
  return c;
}

Configuration plain() {
  Configuration c;
  c.pair = plain_pair();
  c.nodes = {node(NodeSide::a)};
  c.volumes = {plain_volume()};
  return c;
}

Configuration with_arbiter(const Arbiter& arbiter) {
  Configuration c;
  c.pair = plain_pair();
  c.pair->arbiter = arbiter;
  return c;
}

std::string bytes(const char* golden) { return nlohmann::json::parse(golden).dump(); }

std::string rows(Database& database) {
  std::ostringstream text;
  database.use([&](SQLite::Database& db) {
    for (const char* table :
         {"pair", "nodes", "volumes", "access", "copies", "initiators", "tokens", "jobs", "events"}) {
      SQLite::Statement q(db, std::string("SELECT * FROM ") + table + " ORDER BY 1, 2");
      while (q.executeStep()) {
        text << table;
        for (int i = 0; i < q.getColumnCount(); ++i)
          text << " " << q.getColumn(i).getName() << "="
               << (q.getColumn(i).isNull()   ? "NULL"
                   : q.getColumn(i).isText() ? "'" + q.getColumn(i).getString() + "'"
                                             : q.getColumn(i).getString());
        text << "\n";
      }
    }
  });
  return text.str();
}

Job job() {
  Job job;
  job.id = id(10);
  job.kind = "volume.create";
  job.runner = id(2);
  job.state = JobState::failed;
  job.step = "made";
  job.progress = 0.5;
  job.message = "Makes the volume.";
  job.error = Refusal{RefusalKind::conflict, "It is there.", {{"/name", "Taken."}}};
  job.volume = id(3);
  job.parameters = "{}";
  job.created_ms = 4;
  job.finished_ms = 5;
  return job;
}

NodeReport report() {
  NodeReport report;
  report.running = true;
  report.message = "m";
  report.applied = 4;
  report.problems = {{"volume vm1", "is not there"}};
  report.missing = {id(5)};
  report.at_ms = 6;
  DataPlaneStatus status;
  status.version = "0.1.0";
  status.process = "p";
  status.revision = 4;
  status.uptime_ms = 5;
  status.partner_connected = true;
  status.partner_path = "tcp";
  status.partner_since_ms = 6;
  status.witness_kind = "witness";
  status.witness_reachable = true;
  status.witness_changing = true;
  ReplicaStatus replica;
  replica.volume = id(3);
  replica.state = "in_sync";
  replica.serving = true;
  replica.access = "active_optimized";
  replica.failover_limited = true;
  replica.epoch = EpochView{2, "e", "both", "a", "witness"};
  replica.size = 1;
  replica.dirty_bytes = 2;
  replica.allocated_bytes = 3;
  replica.reason = "r";
  replica.resync_running = true;
  replica.resync_total = 4;
  replica.resync_done = 5;
  replica.resync_rate = 6;
  replica.reads = 7;
  replica.writes = 8;
  replica.read_bytes = 9;
  replica.write_bytes = 10;
  status.volumes = {replica};
  status.sessions = {{"iqn.2000-01.com.example:h1", "10.0.0.1:5", "10.0.0.11:3260", "tcp", 7}};
  status.findings = {"It is small."};
  report.status = status;
  return report;
}

Event event() {
  return {.id = 1,
          .at_ms = 2,
          .kind = "volume.made",
          .severity = Severity::warning,
          .side = NodeSide::b,
          .volume = id(3),
          .message = "It is.",
          .times = 3};
}

TEST(GoldenForms, OfTheDocument) {
  EXPECT_EQ(to_document({}), bytes(golden::kEmptyDocument));
  EXPECT_EQ(to_document(plain()), bytes(golden::kPlainDocument));
  EXPECT_EQ(to_document(with_everything()), bytes(golden::kWholeDocument));
  for (const auto& c : {Configuration{}, plain(), with_everything()}) EXPECT_EQ(from_document(to_document(c)), c);
}

TEST(GoldenForms, OfALinkWithFurtherPaths) {
  Configuration c = with_everything();
  c.nodes[0].more_link_addresses = {"10.9.0.11:3261", "[fd09::11]:3261"};
  c.nodes[1].more_link_addresses = {"10.9.0.12:3261", "[fd09::12]:3261"};
  c.nodes[0].last_link_addresses = {"10.0.0.11:3262"};
  c.nodes[1].last_link_addresses = {"10.0.0.12:3262"};
  auto document = nlohmann::json::parse(golden::kWholeDocument);
  document["version"] = 10;
  document["nodes"][0].update({{"more_link_addresses", {"10.9.0.11:3261", "[fd09::11]:3261"}},
                               {"last_link_addresses", nlohmann::json::array({"10.0.0.11:3262"})}});
  document["nodes"][1].update({{"more_link_addresses", {"10.9.0.12:3261", "[fd09::12]:3261"}},
                               {"last_link_addresses", nlohmann::json::array({"10.0.0.12:3262"})}});
  EXPECT_EQ(to_document(c), document.dump());
  auto apply = nlohmann::json::parse(golden::kApply);
  apply["partner"]["link"]["more_paths"] = {
      {{"listen", "10.9.0.11:3261"}, {"connect", "10.9.0.12:3261"}, {"last_resort", false}},
      {{"listen", "[fd09::11]:3261"}, {"connect", "[fd09::12]:3261"}, {"last_resort", false}},
      {{"listen", "10.0.0.11:3262"}, {"connect", "10.0.0.12:3262"}, {"last_resort", true}}};
  EXPECT_EQ(apply_parameters(c, 9, NodeSide::a, "/v", 1), apply.dump());
}

TEST(GoldenForms, OfTheArbiter) {
  const Arbiter preferred{false, {}, NodeSide::b, {}, true};
  EXPECT_EQ(arbiter_document(preferred), bytes(golden::kChangingPreference));
  EXPECT_EQ(document_version(with_arbiter(preferred)), 7);
  Arbiter fence;
  fence.fence = true;
  EXPECT_EQ(arbiter_document(fence), bytes(golden::kFence));
  EXPECT_EQ(document_version(with_arbiter(fence)), 7);
}

// Without any one of these it is refused; all others have a default.
TEST(GoldenForms, OfTheDocumentHaveWhatTheyHadFromTheBeginning) {
  const auto whole = nlohmann::json::parse(golden::kWholeDocument);
  const std::map<std::string, std::vector<std::string>> defaulted = {
      {"/pair", {"discovery", "link_beside", "next_lun", "seal"}},
      {"/pair/arbiter", {"access"}},
      {"/volumes/0",
       {"any_initiator", "copies", "encrypted", "import_secret", "physical_block", "read_only", "removable",
        "write_cache"}},
      {"/initiators/0", {"old"}}};
  for (const char* record :
       {"/pair", "/pair/arbiter", "/pair/arbiter/access", "/pair/settings", "/pair/link", "/pair/discovery",
        "/pair/seal", "/pair/link_beside", "/nodes/0", "/volumes/0", "/volumes/0/copies/1", "/initiators/0",
        "/initiators/0/chap", "/initiators/0/old", "/tokens/0"}) {
    const nlohmann::json::json_pointer at(record);
    std::vector<std::string> not_needed;
    for (const auto& [name, value] : whole.at(at).items()) {
      nlohmann::json less = whole;
      less.at(at).erase(name);
      if (from_document(less.dump())) not_needed.push_back(name);
    }
    const auto expected = defaulted.find(record);
    EXPECT_EQ(not_needed, expected == defaulted.end() ? std::vector<std::string>() : expected->second) << record;
  }
}

TEST(GoldenForms, OfTheTables) {
  test::TemporaryFolder folder;
  const auto database = Database::open(folder.path() / "x.db");
  JobTable jobs(**database);
  jobs.put(job());
  EventLog events(**database);
  events.append(event());
  events.append_from_partner({event()});
  for (const auto& [configuration, golden] :
       {std::pair(with_everything(), golden::kWholeTables), std::pair(plain(), golden::kPlainTables)}) {
    (*database)->transact([&](SQLite::Database& db) { save_configuration(db, configuration); });
    EXPECT_EQ("\n" + rows(**database), golden);
    (*database)->use([&](SQLite::Database& db) { EXPECT_EQ(load_configuration(db), configuration); });
  }
}

// A table's own columns are what says whose row it is.
TEST(DescribedTables, HaveTheColumnsThatMigrationsMade) {
  test::TemporaryFolder folder;
  const auto database = Database::open(folder.path() / "x.db");
  const std::map<std::string, std::set<std::string>> own = {{"pair", {"only"}}, {"copies", {"volume", "side"}}};
  for (const auto& [table, columns] : described_columns()) {
    std::set<std::string> described(columns.begin(), columns.end());
    EXPECT_EQ(described.size(), columns.size()) << table << ": two fields have one column";
    if (own.contains(table)) described.insert(own.at(table).begin(), own.at(table).end());
    std::set<std::string> there;
    (*database)->use([&](SQLite::Database& db) {
      SQLite::Statement q(db, "SELECT name FROM pragma_table_info('" + table + "')");
      while (q.executeStep()) there.insert(q.getColumn(0).getString());
    });
    for (const auto& column : described)
      EXPECT_TRUE(there.contains(column)) << table << "." << column << " is described; no migration adds it";
    for (const auto& column : there)
      EXPECT_TRUE(described.contains(column)) << table << "." << column << " is in the schema; nothing describes it";
  }
}

// How many fields an aggregate has: as many as it can be initialised with.
struct Anything {
  template <class T>
  operator T&() const;
};
template <class R, class... Given>
constexpr std::size_t fields_of() {
  if constexpr (requires { R{std::declval<Given>()..., std::declval<Anything>()}; })
    return fields_of<R, Given..., Anything>();
  else
    return sizeof...(Given);
}

template <class... Record>
void expect_all_fields_described() {
  const auto check = []<class R>(const R&) {
    EXPECT_EQ(records::field_count<R>(), fields_of<R>())
        << boost::core::demangle(typeid(R).name()) << " has a field that its BOOST_DESCRIBE_STRUCT does not name";
  };
  (check(Record()), ...);
}

TEST(DescribedRecords, NameEachOfTheirFields) {
  expect_all_fields_described<Chap, PairSettings, replication::WitnessAccess, Arbiter, SealSecrets, LinkBeside, Pair,
                              Node, Copy, Volume, OldCredentials, Initiator, Token, Configuration, Job, Event,
                              RevisionId, ConfigurationEpoch, RevisionState, Proposal, CurrentRevision, LoneEpoch,
                              ReplicaBirth, ReplicaOrder, ForwardedRequest, ForwardedReply, JoinRequest, JoinOffer,
                              NodeStanding, EpochView, ReplicaStatus, SessionStatus, LinkPathStatus, DataPlaneStatus,
                              ApplyProblem, NodeReport, HealthProblem, data_plane::VolumeSpec>();
}

TEST(GoldenForms, OfWhatThePartnerIsTold) {
  const RevisionId revision{id(11), 4, id(12)};
  const ConfigurationEpoch epoch{
      .id = id(11), .number = 3, .members = engine::MemberSet::only(NodeSide::b), .ancestors = {revision}};
  EXPECT_EQ(wire::to_text(revision), bytes(golden::kRevision));
  EXPECT_EQ(wire::to_text(Proposal{revision, revision, "s", "d", id(13), 2, epoch}), bytes(golden::kProposal));
  CurrentRevision current{.state = {revision, epoch, revision, id(12)}, .document = "d", .process = id(13)};
  EXPECT_EQ(wire::to_text(current), bytes(golden::kCurrentRevision));
  current.state.tentative.reset();
  current.state.in_flight.reset();
  EXPECT_EQ(wire::to_text(current), bytes(golden::kCurrentRevisionAlone));
  EXPECT_EQ(wire::to_text(std::vector<Event>{event(), Event{}}), bytes(golden::kEvents));
  EXPECT_EQ(wire::to_text(ReplicaOrder{.kind = ReplicaOrder::Kind::create,
                                       .volume = plain_volume(),
                                       .birth = {false, false, LoneEpoch{2, "e", NodeSide::b, 5}}}),
            bytes(golden::kReplicaOrder));
  EXPECT_EQ(wire::to_text(ForwardedRequest{"GET", "/", "json", "b"}), bytes(golden::kForwardedRequest));
  EXPECT_EQ(wire::to_text(ForwardedReply{200, "json", "/", "b"}), bytes(golden::kForwardedReply));
  EXPECT_EQ(wire::to_text(JoinRequest{"s", node(NodeSide::b), Token{id(8), "t1", "d1", Role::viewer, 6, 0}}),
            bytes(golden::kJoinRequest));
  EXPECT_EQ(wire::to_text(JoinOffer{revision, "d", true}), bytes(golden::kJoinOffer));
  EXPECT_EQ(wire::to_text(NodeStanding{NodeStanding::Asker::replaced, 3, {}}), bytes(golden::kStanding));
  EXPECT_EQ(to_json_text(job()), bytes(golden::kJob));
  EXPECT_EQ(to_json_text(Job{}), bytes(golden::kPlainJob));
  EXPECT_EQ(to_json_text(report()), bytes(golden::kReport));
  EXPECT_EQ(to_json_text(NodeReport{}), bytes(golden::kPlainReport));
}

TEST(GoldenForms, OfWhatThePartnerIsToldAreReadAsTheyWereWritten) {
  EXPECT_EQ(to_json_text(*job_from(golden::kJob)), bytes(golden::kJob));
  EXPECT_EQ(to_json_text(*job_from(golden::kPlainJob)), bytes(golden::kPlainJob));
  EXPECT_EQ(to_json_text(*report_from(golden::kReport)), bytes(golden::kReport));
  EXPECT_EQ(to_json_text(*report_from(golden::kPlainReport)), bytes(golden::kPlainReport));
  EXPECT_EQ(wire::to_text(*wire::events_from(golden::kEvents)), bytes(golden::kEvents));
  EXPECT_EQ(wire::to_text(*wire::proposal_from(golden::kProposal)), bytes(golden::kProposal));
  EXPECT_EQ(wire::to_text(*wire::current_revision_from(golden::kCurrentRevision)), bytes(golden::kCurrentRevision));
  EXPECT_EQ(wire::to_text(*wire::replica_order_from(golden::kReplicaOrder)), bytes(golden::kReplicaOrder));
  EXPECT_EQ(wire::to_text(*wire::join_request_from(golden::kJoinRequest)), bytes(golden::kJoinRequest));
  EXPECT_EQ(wire::to_text(*wire::join_offer_from(golden::kJoinOffer)), bytes(golden::kJoinOffer));
  EXPECT_EQ(wire::to_text(*wire::standing_from(golden::kStanding)), bytes(golden::kStanding));
  EXPECT_EQ(wire::to_text(*wire::forwarded_request_from(golden::kForwardedRequest)), bytes(golden::kForwardedRequest));
  EXPECT_EQ(wire::to_text(*wire::forwarded_reply_from(golden::kForwardedReply)), bytes(golden::kForwardedReply));
}

TEST(GoldenForms, OfWhatLockstepdIsTold) {
  EXPECT_EQ(apply_parameters(with_everything(), 9, NodeSide::a, "/v", 1), bytes(golden::kApply));
  EXPECT_EQ(apply_parameters(plain(), 9, NodeSide::a, "/v", 1), bytes(golden::kPlainApply));
  const Configuration c = with_everything();
  EXPECT_EQ(create_parameters(c, c.volumes[0], NodeSide::a, {}, "/v"), bytes(golden::kCreate));
  EXPECT_EQ(create_parameters(c, c.volumes[1], NodeSide::b, {false, false, LoneEpoch{2, "e", NodeSide::a, 5}}, "/v"),
            bytes(golden::kCreateJoining));
}

}  // namespace
}  // namespace lockstep::mgmt
