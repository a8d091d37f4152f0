// The configuration as a value: to the partner and back, into the tables and back, and what lockstepd is told of it.
#include "mgmt/control/configuration.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "mgmt/control/database.hpp"
#include "mgmt/control/desired_state.hpp"
#include "mgmt/control/peer.hpp"
#include "mgmt/control/revision_tables.hpp"
#include "mgmt/control/secrets.hpp"
#include "mgmt/control/volume_service.hpp"
#include "mgmt/data_plane/control_server.hpp"
#include "tests/unit/mgmt/temporary_folder.hpp"

namespace lockstep::mgmt {
namespace {

Configuration full() {
  Configuration c;
  c.pair = Pair{random_uuid(),
                "pair1",
                "iqn.2026-11.io.lockstep:pair1",
                {true,
                 {"https://10.0.0.1:2379", "https://10.0.0.2:2379"},
                 NodeSide::b,
                 {"ca-pem", "certificate-pem", "key-pem", "lockstep", "password-of-etcd"}},
                {2000, 1, 2},
                {"link", "secret-of-the-link"},
                {"answer", "secret-of-the-answer"},
                17,
                5,
                Chap{"finder", "secret-of-finding"}};
  c.nodes = {{random_uuid(),
              NodeSide::a,
              "node-a",
              {"10.0.0.11:3260", "[fd00::11]:3260"},
              "10.0.0.11:3261",
              "10.0.0.11:8443",
              "aa"},
             {random_uuid(), NodeSide::b, "node-b", {"10.0.0.12:3260"}, "10.0.0.12:3261", "10.0.0.12:8443", "bb"}};
  c.initiators = {{"iqn.2000-01.com.example:h1", Chap{"u", "s1-of-twelve"}, Chap{"m", "s2-of-twelve"}, 1},
                  {"iqn.2000-01.com.example:h2", {}, {}, 2}};
  c.volumes = {{.id = random_uuid(),
                .name = "vm1",
                .serial = "s1",
                .size = 1 << 20,
                .read_only = true,
                .write_cache = true,
                .lifecycle = Lifecycle::ready,
                .first_epoch = random_uuid(),
                .access = {"iqn.2000-01.com.example:h1", "iqn.2000-01.com.example:h2"},
                .import_secret = "",
                .created_ms = 3},
               {.id = random_uuid(),
                .name = "vm2",
                .serial = "s2",
                .lun = 1,
                .size = 1 << 21,
                .block_size = 4096,
                .thin = false,
                .removable = true,
                .encrypted = true,
                .first_epoch = random_uuid(),
                .any_initiator = true,
                .access = {},
                .import_secret = "s3-of-twelve",
                .created_ms = 4},
               {.id = random_uuid(),
                .name = "vm3",
                .serial = "s3",
                .lun = 2,
                .size = 1 << 22,
                .physical_block = 512,
                .lifecycle = Lifecycle::deleting,
                .first_epoch = random_uuid(),
                .any_initiator = true,
                .access = {},
                .import_secret = "",
                .created_ms = 5}};
  c.tokens = {{random_uuid(), "t1", "d1", Role::admin, 6, 0}, {random_uuid(), "t2", "d2", Role::viewer, 7, 8}};
  return c;
}

TEST(ConfigurationDocument, OfTheFirstVersionHasVolumesOfTheOnlyShapeThereWas) {
  nlohmann::json old = nlohmann::json::parse(to_document(full()));
  old["version"] = 1;
  for (auto& volume : old["volumes"])
    for (const char* field : {"physical_block", "read_only", "removable", "encrypted", "write_cache", "import_secret"})
      volume.erase(field);
  const auto read = from_document(old.dump());
  ASSERT_TRUE(read) << read.error().detail;
  const Volume& volume = read->volumes.front();
  EXPECT_EQ(volume.physical_block, 4096);
  EXPECT_FALSE(volume.read_only || volume.removable || volume.write_cache);
  EXPECT_TRUE(volume.import_secret.empty());
}

TEST(ConfigurationDocument, OfTheSecondVersionHasVolumesThatAreNotEncrypted) {
  nlohmann::json old = nlohmann::json::parse(to_document(full()));
  old["version"] = 2;
  for (auto& volume : old["volumes"]) volume.erase("encrypted");
  const auto read = from_document(old.dump());
  ASSERT_TRUE(read) << read.error().detail;
  EXPECT_EQ(read->volumes.at(1).removable, true);
  for (const Volume& volume : read->volumes) EXPECT_FALSE(volume.encrypted) << volume.name;
}

TEST(ConfigurationDocument, HasTheNewVersionOnlyWhereOlderProgramsWouldMissWhatMatters) {
  const auto version = [](const Configuration& c) { return nlohmann::json::parse(to_document(c))["version"]; };
  Configuration c = full();
  EXPECT_EQ(version(c), 4);
  EXPECT_EQ(document_version(c), 4);
  c.pair->arbiter.access = {};
  EXPECT_EQ(version(c), 4) << "discovery asks for a secret";
  c.pair->discovery.reset();
  EXPECT_EQ(version(c), 3);
  EXPECT_EQ(document_version(c), 3);
  c.volumes[1].encrypted = false;
  EXPECT_EQ(version(c), 2);
  EXPECT_EQ(document_version(c), 2);
  EXPECT_EQ(version({}), 2);
  c.volumes[1].any_initiator = false;
  EXPECT_EQ(version(c), 4) << "an older program would let everybody use it";
  c.volumes[0].copy(NodeSide::b) = {.number = 2, .folder = "", .retired = false};
  EXPECT_EQ(version(c), 5) << "an older program would take the lost copy's files";
}

TEST(ConfigurationDocument, TellsWhichCopyIsInUseAndAnOrderDoes) {
  Configuration c = full();
  c.volumes[0].copy(NodeSide::b) = {.number = 3, .folder = "/srv/new disk", .retired = true};
  const auto back = from_document(to_document(c));
  ASSERT_TRUE(back) << back.error().detail;
  EXPECT_EQ(*back, c);
  const LoneEpoch lone{.number = 7, .id = random_uuid().to_string(), .member = NodeSide::b, .size = 1 << 20};
  const ReplicaOrder order{.kind = ReplicaOrder::Kind::create,
                           .volume = c.volumes[0],
                           .birth = {.both = false, .clean = false, .joins = lone}};
  const auto read = wire::replica_order_from(wire::to_text(order));
  ASSERT_TRUE(read) << read.error().detail;
  EXPECT_EQ(read->volume, order.volume);
  EXPECT_EQ(read->birth.joins, order.birth.joins);
}

TEST(ConfigurationDocument, FromBeforeVolumesWereClosedMeansAnyByAnEmptyList) {
  nlohmann::json old = nlohmann::json::parse(to_document(full()));
  old["version"] = 3;
  for (auto& volume : old["volumes"]) volume.erase("any_initiator");
  const auto read = from_document(old.dump());
  ASSERT_TRUE(read) << read.error().detail;
  for (const Volume& volume : read->volumes) EXPECT_EQ(volume.any_initiator, volume.access.empty()) << volume.name;
}

TEST(ConfigurationDocument, WithAWitnessThatIsBeingChangedIsNotForWhoWouldGoOnAskingIt) {
  Configuration c = full();
  EXPECT_FALSE(nlohmann::json::parse(to_document(c))["pair"]["arbiter"].contains("changing"));
  c.pair->arbiter.changing = true;
  EXPECT_EQ(document_version(c), 6);
  const auto read = from_document(to_document(c));
  ASSERT_TRUE(read) << read.error().detail;
  EXPECT_EQ(*read, c);
  EXPECT_EQ(arbiter_from_document(arbiter_document(c.pair->arbiter)).value_or(Arbiter{}), c.pair->arbiter);
  EXPECT_FALSE(arbiter_from_document("{}"));
  const auto told = nlohmann::json::parse(apply_parameters(c, 9, NodeSide::a, "/v"))["arbiter"];
  EXPECT_EQ(told, (nlohmann::json{{"kind", "witness"}, {"endpoints", nlohmann::json::array()}, {"changing", true}}));
}

TEST(ConfigurationDocument, WithAPreferredSideThatIsBeingChangedIsNotForWhoWouldPreferItStill) {
  Configuration c = full();
  c.pair->arbiter =
      Arbiter{.witness = false, .endpoints = {}, .preferred = NodeSide::b, .access = {}, .changing = true};
  EXPECT_EQ(document_version(c), 7);
  const auto read = from_document(to_document(c));
  ASSERT_TRUE(read) << read.error().detail;
  EXPECT_EQ(*read, c);
  const auto told = nlohmann::json::parse(apply_parameters(c, 9, NodeSide::a, "/v"))["arbiter"];
  EXPECT_EQ(told, (nlohmann::json{{"kind", "witness"}, {"endpoints", nlohmann::json::array()}, {"changing", true}}))
      << "nobody decides";
}

TEST(ConfigurationDocument, WithAFenceIsNotForWhoWouldTakeItForAPreference) {
  Configuration c = full();
  EXPECT_FALSE(nlohmann::json::parse(to_document(c))["pair"]["arbiter"].contains("fence"));
  c.pair->arbiter = Arbiter{};
  c.pair->arbiter.fence = true;
  EXPECT_EQ(document_version(c), 7);
  const auto read = from_document(to_document(c));
  ASSERT_TRUE(read) << read.error().detail;
  EXPECT_EQ(*read, c);
  const auto told = nlohmann::json::parse(apply_parameters(c, 9, NodeSide::a, "/v"))["arbiter"];
  EXPECT_EQ(told, (nlohmann::json{{"kind", "fence"}}));
}

TEST(ConfigurationDocument, WithASealOfTheWitnesssOwnIsNotForWhoWouldOverlookIt) {
  Configuration c = full();
  c.pair->seal = SealSecrets{"one", "other"};
  EXPECT_EQ(document_version(c), 5);
  const auto read = from_document(to_document(c));
  ASSERT_TRUE(read) << read.error().detail;
  EXPECT_EQ(read->pair->seal, c.pair->seal);
}

TEST(ConfigurationDocument, WithACopyThatIsYetToBeMadeIsNotForWhoWouldForgetThatItIsOwed) {
  Configuration c = full();
  c.volumes[0].copy(NodeSide::b) = {.number = 1, .folder = "", .retired = true, .unmade = true};
  EXPECT_EQ(document_version(c), 11);
  const auto read = from_document(to_document(c));
  ASSERT_TRUE(read) << read.error().detail;
  EXPECT_EQ(*read, c);
}

TEST(ConfigurationDocument, OfAVersionThatIsNotKnownYetIsRefusedByItsNumber) {
  nlohmann::json later = nlohmann::json::parse(to_document(full()));
  later["version"] = kNewestDocument + 1;
  const auto refused = from_document(later.dump());
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().detail.find("of version " + std::to_string(kNewestDocument + 1)), std::string::npos)
      << refused.error().detail;
}

TEST(ConfigurationDocument, OfTheThirdVersionHasAWitnessThatIsAskedWithoutAUser) {
  nlohmann::json old = nlohmann::json::parse(to_document(full()));
  old["version"] = 3;
  old["pair"]["arbiter"].erase("access");
  const auto read = from_document(old.dump());
  ASSERT_TRUE(read) << read.error().detail;
  EXPECT_TRUE(read->pair->arbiter.witness);
  EXPECT_TRUE(read->pair->arbiter.access.empty());
}

TEST(PeerWire, AnOrderForAnEncryptedVolumeSaysSoInAFormThatOlderProgramsRefuse) {
  const ReplicaOrder order{.kind = ReplicaOrder::Kind::create, .volume = full().volumes.at(1), .birth = {}};
  const std::string text = wire::to_text(order);
  const auto read = wire::replica_order_from(text);
  ASSERT_TRUE(read) << read.error().detail;
  EXPECT_EQ(read->volume, order.volume);
  const auto carried = nlohmann::json::parse(nlohmann::json::parse(text)["volume"].get<std::string>());
  EXPECT_EQ(carried["version"], 3);
  EXPECT_EQ(carried["volumes"][0]["encrypted"], true);
  EXPECT_TRUE(carried["pair"].is_null());
}

TEST(PeerWire, ANodeThatDoesNotSayWhatItReadsIsOneFromBeforeItWasSaid) {
  const JoinRequest join{.secret = "s", .node = full().nodes.at(1), .token = full().tokens.at(0)};
  const CurrentRevision current{.state = {}, .document = to_document({}), .process = random_uuid()};
  nlohmann::json old_join = nlohmann::json::parse(wire::to_text(join));
  nlohmann::json old_current = nlohmann::json::parse(wire::to_text(current));
  EXPECT_EQ(wire::join_request_from(old_join.dump())->reads, kNewestDocument);
  EXPECT_EQ(wire::current_revision_from(old_current.dump())->reads, kNewestDocument);
  EXPECT_EQ(old_join.erase("reads"), 1u);
  EXPECT_EQ(old_current.erase("reads"), 1u);
  EXPECT_EQ(wire::join_request_from(old_join.dump())->reads, 2);
  EXPECT_EQ(wire::current_revision_from(old_current.dump())->reads, 2);
}

TEST(ConfigurationDocument, ComesBackAsItWas) {
  const Configuration c = full();
  const auto back = from_document(to_document(c));
  ASSERT_TRUE(back) << back.error().detail;
  EXPECT_EQ(*back, c);
  const auto empty = from_document(to_document({}));
  ASSERT_TRUE(empty);
  EXPECT_EQ(*empty, Configuration{});
}

TEST(ConfigurationDocument, WhatIsNotOneIsRefusedWithAReason) {
  for (const char* text :
       {"", "[]", "{}", "{\"version\": 2}", "{\"version\": 1}",
        R"({"version":1,"pair":null,"nodes":[{"id":"x"}],"volumes":[],"initiators":[],"tokens":[]})"}) {
    const auto refused = from_document(text);
    ASSERT_FALSE(refused) << text;
    EXPECT_EQ(refused.error().kind, RefusalKind::malformed);
    EXPECT_FALSE(refused.error().detail.empty());
  }
}

TEST(ConfigurationTables, ComeBackAsTheyWereAfterARestart) {
  test::TemporaryFolder folder;
  Configuration c = full();
  c.pair->arbiter.changing = true;
  c.nodes[0].more_link_addresses = {"10.9.0.11:3261", "[fd00::9]:3261"};
  c.nodes[1].last_link_addresses = {"10.0.0.12:3262"};
  const RevisionId id{random_uuid(), 5, random_uuid()};
  const ConfigurationEpoch epoch{.id = id.epoch,
                                 .number = 7,
                                 .members = engine::MemberSet::only(engine::NodeSide::b),
                                 .ancestors = {{random_uuid(), 4, random_uuid()}, {random_uuid(), -1, random_uuid()}},
                                 .forced = true};
  const ConfigurationEpoch next = epoch.next(random_uuid(), engine::MemberSet::both(), id, 9);
  const RevisionStore::Tentative tentative{{next.id, 6, random_uuid()}, "s", "document", next};
  {
    auto database = Database::open(folder.path() / "x.db");
    RevisionTables tables(**database);
    tables.commit(id, epoch, "test", c);
    tables.put_tentative(tentative);
  }
  auto database = Database::open(folder.path() / "x.db");
  RevisionTables tables(**database);
  EXPECT_EQ(tables.head(), id);
  EXPECT_EQ(tables.epoch(), epoch);
  EXPECT_EQ(tables.configuration(), c);
  ASSERT_TRUE(tables.tentative());
  EXPECT_EQ(tables.tentative()->epoch, next);
  EXPECT_EQ(tables.tentative()->id, tentative.id);
  EXPECT_EQ(tables.tentative()->document, "document");
  tables.commit({next.id, 6, random_uuid()}, next, "next", {});
  EXPECT_EQ(tables.epoch(), next);
  EXPECT_FALSE(tables.tentative());
  EXPECT_EQ(tables.configuration(), Configuration{});
}

TEST(ConfigurationTables, ACommitThatTheTablesRefuseChangesNothing) {
  test::TemporaryFolder folder;
  auto database = Database::open(folder.path() / "x.db");
  RevisionTables tables(**database);
  const Configuration good = full();
  const RevisionId id{random_uuid(), 1, random_uuid()};
  tables.commit(id, {.id = id.epoch}, "", good);
  Configuration bad = good;
  bad.volumes[1].name = "vm1";  // taken
  EXPECT_ANY_THROW(tables.commit({id.epoch, 2, random_uuid()}, {.id = id.epoch}, "", bad));
  bad = good;
  bad.initiators.clear();  // still on an access list
  EXPECT_ANY_THROW(tables.commit({id.epoch, 2, random_uuid()}, {.id = id.epoch}, "", bad));
  EXPECT_EQ(tables.head(), id);
  EXPECT_EQ(tables.configuration(), good);
}

TEST(DesiredState, ALockstepdIsToldOfAVolumeThatNobodyMayUse) {
  Configuration c = full();
  const auto told = [&] { return nlohmann::json::parse(apply_parameters(c, 9, NodeSide::a, "/v"))["volumes"][0]; };
  EXPECT_FALSE(told().contains("any_initiator")) << "an older lockstepd would refuse it";
  c.volumes[0].access.clear();
  EXPECT_EQ(told()["any_initiator"], false);
  c.volumes[0].any_initiator = true;
  EXPECT_FALSE(told().contains("any_initiator"));
}

TEST(DesiredState, TellsLockstepdOfReadyVolumesAndBothEndsOfTheLink) {
  const Configuration c = full();
  const auto a = nlohmann::json::parse(apply_parameters(c, 9, NodeSide::a, "/v"));
  const auto b = nlohmann::json::parse(apply_parameters(c, 9, NodeSide::b, "/v"));
  EXPECT_EQ(a["revision"], 9);
  ASSERT_EQ(a["volumes"].size(), 1u);  // neither the one being made nor the one being deleted
  EXPECT_EQ(a["volumes"][0]["name"], "vm1");
  EXPECT_EQ(a["volumes"][0]["data"], "/v/" + c.volumes[0].id.to_string() + ".data");
  EXPECT_EQ(a["volumes"][0]["access"][0]["chap_secret"], "s1-of-twelve");
  EXPECT_TRUE(a["volumes"][0]["access"][1]["chap_user"].is_null());
  EXPECT_EQ(a["volumes"][0]["read_only"], true);
  EXPECT_EQ(a["volumes"][0]["write_cache"], true);
  EXPECT_EQ(a["volumes"][0]["removable"], false);
  EXPECT_EQ(a["volumes"][0]["physical_block_size"], 4096);
  EXPECT_EQ(a["partner"]["link"]["listen"], b["partner"]["link"]["connect"]);
  EXPECT_EQ(a["partner"]["link"]["connect"], b["partner"]["link"]["listen"]);
  EXPECT_EQ(a["partner"]["link"]["chap_secret"], b["partner"]["link"]["chap_secret"]);
  EXPECT_EQ(a["partner"]["name"], "node-b");
  EXPECT_EQ(a["arbiter"], (nlohmann::json{{"kind", "witness"},
                                          {"endpoints", c.pair->arbiter.endpoints},
                                          {"ca", "ca-pem"},
                                          {"certificate", "certificate-pem"},
                                          {"key", "key-pem"},
                                          {"user", "lockstep"},
                                          {"password", "password-of-etcd"}}));
}

TEST(DesiredState, WhatTheWitnessIsNotSpokenToWithIsNotSaidAndAnEpochRecordGetsNoneOfIt) {
  Configuration c = full();
  const auto create = nlohmann::json::parse(create_parameters(c, c.volumes[1], NodeSide::a, {}, "/v"));
  EXPECT_EQ(create["arbiter"], (nlohmann::json{{"kind", "witness"}, {"endpoints", c.pair->arbiter.endpoints}}));
  c.pair->arbiter.access = {};
  const auto plain = nlohmann::json::parse(apply_parameters(c, 9, NodeSide::a, "/v"));
  EXPECT_EQ(plain["arbiter"], create["arbiter"]) << "an older lockstepd would refuse the words";
}

TEST(DesiredState, OnlyOfAnEncryptedVolumeIsItSaidAndToBothNodes) {
  Configuration c = full();
  c.volumes[1].lifecycle = Lifecycle::ready;
  for (const NodeSide side : {NodeSide::a, NodeSide::b}) {
    const auto wanted = nlohmann::json::parse(apply_parameters(c, 9, side, "/v"));
    ASSERT_EQ(wanted["volumes"].size(), 2u);
    EXPECT_FALSE(wanted["volumes"][0].contains("encrypted"));  // an older lockstepd would refuse the word
    EXPECT_EQ(wanted["volumes"][1]["encrypted"], true);
    const auto plain = nlohmann::json::parse(create_parameters(c, c.volumes[0], side, {}, "/v"));
    EXPECT_FALSE(plain.contains("encrypted"));
    for (const bool both : {true, false}) {  // made with the volume, or anew when a node joins
      const auto create = nlohmann::json::parse(create_parameters(c, c.volumes[1], side, {both, both}, "/v"));
      EXPECT_EQ(create["encrypted"], true);
    }
  }
}

TEST(DesiredState, TheLargestConfigurationThatIsLetInFitsALineOfTheControlSocket) {
  Configuration c = full();
  c.volumes.resize(1);
  c.initiators.clear();
  for (std::size_t i = 0; i < kMaxAccess; ++i) {
    const std::string name = "iqn.2000-01.com.example:" + std::to_string(i) + "-";
    const Chap longest{std::string(255, 'u'), std::string(255, '"')};  // a quote is two bytes
    c.initiators.push_back({name + std::string(223 - name.size(), 'x'), longest, longest, 1});
  }
  c.volumes[0].access.clear();
  for (const auto& initiator : c.initiators) c.volumes[0].access.push_back(initiator.iqn);
  for (std::size_t i = 1; i < kMaxAccessInAll / kMaxAccess; ++i) c.volumes.push_back(c.volumes[0]);
  Volume open = c.volumes[0];
  open.access.clear();
  c.volumes.resize(kMaxVolumes, open);
  EXPECT_LT(apply_parameters(c, 9, NodeSide::a, std::string(255, 'p')).size(),
            data_plane::ControlServer::kMaxLine - 1024);
  EXPECT_LT(to_document(c).size(), std::size_t{16} << 20) << "what the partner takes";
}

TEST(DesiredState, ANodeAloneHasNoPartner) {
  Configuration c = full();
  c.nodes.pop_back();
  c.pair->arbiter = {false, {}, NodeSide::b, {}};
  const auto a = nlohmann::json::parse(apply_parameters(c, 9, NodeSide::a, "/v"));
  EXPECT_TRUE(a["partner"].is_null());
  EXPECT_EQ(a["arbiter"], (nlohmann::json{{"kind", "preferred"}, {"preferred", "b"}}));
}

TEST(DesiredState, BothReplicasBeginInTheSameEpoch) {
  const Configuration c = full();
  const auto a = nlohmann::json::parse(create_parameters(c, c.volumes[1], NodeSide::a, {}, "/v"));
  const auto b = nlohmann::json::parse(create_parameters(c, c.volumes[1], NodeSide::b, {}, "/v"));
  EXPECT_EQ(a["epoch"], b["epoch"]);
  EXPECT_EQ(a["epoch"]["members"], "both");
  EXPECT_EQ(a["side"], "a");
  EXPECT_EQ(b["side"], "b");
}

}  // namespace
}  // namespace lockstep::mgmt
