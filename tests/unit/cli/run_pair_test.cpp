// The whole command: pairs, nodes, and who may use what.
#include "tests/unit/cli/run_fixture.hpp"

namespace lockstep::cli {
namespace {

TEST_F(Run, AccessAddsToTheListThatIsThere) {
  answer_volumes();
  json changed = volume();
  changed["access"] = {"iqn.2026-11.org.example:h1", "iqn.2026-11.org.example:h2"};
  answer(std::string("PATCH /api/v1/volumes/") + kVolumeId, 200, changed);
  EXPECT_EQ(run({"volume", "access", "vm1", "--add", "iqn.2026-11.org.example:h2"}), 0);
  EXPECT_EQ(sent(1), (json{{"access", {"iqn.2026-11.org.example:h1", "iqn.2026-11.org.example:h2"}}}));
}

TEST_F(Run, RemovingTheLastInitiatorClosesTheVolumeAndSaysSo) {
  answer_volumes();
  json changed = volume();
  changed["access"] = json::array();
  answer(std::string("PATCH /api/v1/volumes/") + kVolumeId, 200, changed);
  EXPECT_EQ(run({"volume", "access", "vm1", "--remove", "iqn.2026-11.org.example:h1"}), 0);
  EXPECT_EQ(sent(1), (json{{"access", json::array()}}));
  EXPECT_EQ(out_.str(), "Nobody may use vm1.\n");
}

TEST_F(Run, AVolumeIsOpenToAnyOnlyWhenThatIsSaidAloud) {
  answer_volumes();
  json changed = volume();
  changed["access"] = json::array();
  changed["any_initiator"] = true;
  answer(std::string("PATCH /api/v1/volumes/") + kVolumeId, 200, changed);
  EXPECT_EQ(run({"volume", "access", "vm1", "--any"}), 0);
  EXPECT_EQ(sent(1), (json{{"any_initiator", true}}));
  EXPECT_EQ(out_.str(), "Any initiator may use vm1.\n");
}

TEST_F(Run, AnOpenVolumeIsNotClosedToAllOthersByAddingOrRemovingOneInitiator) {
  json open = volume();
  open["access"] = json::array();
  open["any_initiator"] = true;
  for (const char* option : {"--add", "--remove"}) {
    script_ = {};
    answer("GET /api/v1/volumes", 200, {{"items", json::array({open})}});
    EXPECT_EQ(run({"volume", "access", "vm1", option, "iqn.2026-11.org.example:h2"}), 2) << option;
    EXPECT_EQ(script_.asked.size(), 1U) << "a change was asked for";
    EXPECT_THAT(err_.str(), HasSubstr("vm1 is open to any initiator"));
    EXPECT_THAT(err_.str(), HasSubstr("lockstep volume access vm1 --initiator IQN"));
  }
}

TEST_F(Run, AnOpenVolumeIsClosedToAllButTheInitiatorsThatAreNamed) {
  json open = volume();
  open["access"] = json::array();
  open["any_initiator"] = true;
  answer("GET /api/v1/volumes", 200, {{"items", json::array({open})}});
  answer(std::string("PATCH /api/v1/volumes/") + kVolumeId, 200, volume());
  EXPECT_EQ(run({"volume", "access", "vm1", "--initiator", "iqn.2026-11.org.example:h1"}), 0);
  EXPECT_EQ(sent(1), (json{{"access", {"iqn.2026-11.org.example:h1"}}}));
}

TEST_F(Run, PairSetRenames) {
  answer("PATCH /api/v1/pair", 200, json{{"state", "complete"}, {"name", "rack7"}});
  EXPECT_EQ(run({"pair", "set", "--name", "rack7"}), 0);
  EXPECT_EQ(sent(0), (json{{"name", "rack7"}}));
  EXPECT_EQ(run({"pair", "set"}), 2);
}

TEST_F(Run, PairSetChangesTheLimitsOfResyncAtOnceAndTheLeaseByAJob) {
  const json pair{{"state", "complete"},
                  {"name", "p"},
                  {"settings",
                   {{"lease_ms", 1500},
                    {"other_lease_ms", 2500},
                    {"resync_floor_bytes_per_second", 52428800},
                    {"resync_ceiling_bytes_per_second", 0}}}};
  answer("PATCH /api/v1/pair", 200, pair);
  EXPECT_EQ(run({"pair", "set", "--resync-floor", "50MiB", "--resync-ceiling", "0"}), 0);
  EXPECT_EQ(
      sent(0),
      (json{{"settings", {{"resync_floor_bytes_per_second", 52428800}, {"resync_ceiling_bytes_per_second", 0}}}}));
  EXPECT_THAT(out_.str(), HasSubstr("at least 50 MiB/s, no ceiling"));
  EXPECT_THAT(out_.str(), HasSubstr("1500 ms; is being changed, 2500 ms counts, too"));
  answer("PATCH /api/v1/pair/lease", 202, job("done", 1));
  EXPECT_EQ(run({"pair", "set", "--lease", "2.5s"}), 0);
  EXPECT_EQ(sent(1), (json{{"lease_ms", 2500}}));
  for (const char* wrong : {"2", "s", "2.5ms", "1.2345s", "two", "-1s", ""})
    EXPECT_EQ(run({"pair", "set", "--lease", wrong}), 2) << wrong;
}

TEST_F(Run, PairArbiterSetMayNameAFence) {
  answer("PATCH /api/v1/pair/arbiter", 202, job("done", 1));
  EXPECT_EQ(run({"pair", "arbiter", "set", "--fence"}), 0);
  EXPECT_EQ(sent(0), (json{{"kind", "fence"}}));
  EXPECT_EQ(run({"pair", "arbiter", "set", "--fence", "--preferred", "a"}), 2);
}

TEST_F(Run, NodeRenameNamesTheSideOrTheNode) {
  const json nodes{{"items", {{{"side", "a"}, {"name", "node-a"}}, {{"side", "b"}, {"name", "rack8"}}}}};
  answer("PATCH /api/v1/nodes/b", 200, nodes);
  EXPECT_EQ(run({"node", "rename", "b", "rack8"}), 0);
  EXPECT_EQ(sent(0), (json{{"name", "rack8"}}));
  EXPECT_THAT(out_.str(), HasSubstr("rack8"));
}

TEST_F(Run, PairDiscoveryAsksForASecretOrIsOpen) {
  const json pair{{"state", "complete"}, {"name", "p"}, {"discovery_chap_user", "finder"}};
  answer("PATCH /api/v1/pair", 200, pair);
  answer("PATCH /api/v1/pair", 200, pair);
  EXPECT_EQ(run({"pair", "discovery", "--chap-user", "finder", "--chap-secret-file", "-"}, false, "a long secret\n"),
            0);
  EXPECT_EQ(sent(0), (json{{"discovery_chap", {{"user", "finder"}, {"secret", "a long secret"}}}}));
  EXPECT_THAT(out_.str(), HasSubstr("asks for the secret of finder"));
  EXPECT_EQ(run({"pair", "discovery", "--open"}), 0);
  EXPECT_EQ(sent(1), (json{{"discovery_chap", nullptr}}));
  EXPECT_EQ(run({"pair", "discovery"}), 2);
}

TEST_F(Run, InitiatorAddReadsTheSecretFromStandardInput) {
  answer("POST /api/v1/initiators", 201, {{"iqn", "iqn.x"}});
  EXPECT_EQ(run({"initiator", "add", "iqn.x", "--chap-user", "u", "--chap-secret-file", "-"}, false,
                "a long enough secret\n"),
            0);
  EXPECT_EQ(sent(0), json::parse(R"({"iqn": "iqn.x", "chap": {"user": "u", "secret": "a long enough secret"}})"));
  EXPECT_EQ(out_.str().find("secret"), std::string::npos);
}

TEST_F(Run, AChapUserWithoutASecretIsAskedForOne) {
  EXPECT_EQ(run({"initiator", "add", "iqn.x", "--chap-user", "u"}), 2);
  EXPECT_THAT(err_.str(), HasSubstr("--chap-secret-file"));
}

TEST_F(Run, InitiatorRemoveEncodesTheName) {
  answer("DELETE /api/v1/initiators/iqn.2026-11.x%3Ah1", 204);
  EXPECT_EQ(run({"initiator", "remove", "iqn.2026-11.x:h1"}), 0);
}

TEST_F(Run, PairCreateWantsToKnowWhoDecides) {
  EXPECT_EQ(run({"pair", "create", "pair1"}), 2);
  EXPECT_THAT(err_.str(), HasSubstr("--witness"));
  answer("POST /api/v1/pair", 201, {{"state", "alone"}, {"name", "pair1"}});
  EXPECT_EQ(
      run({"pair", "create", "pair1", "--witness", "http://10.0.0.10:2379", "--portal", "10.0.0.11:3260", "--link",
           "10.0.1.11:3261", "--resync-ceiling", "200MiB", "--id", "0f8fad5b-d9cb-469f-a165-70867728950e"}),
      0);
  EXPECT_EQ(sent(0),
            json::parse(R"({"name": "pair1", "arbiter": {"kind": "witness", "endpoints": ["http://10.0.0.10:2379"]},
    "id": "0f8fad5b-d9cb-469f-a165-70867728950e",
    "node": {"portals": ["10.0.0.11:3260"], "link_address": "10.0.1.11:3261"},
    "settings": {"resync_ceiling_bytes_per_second": 209715200}})"));
}

TEST_F(Run, PairCreateSendsWhatTheWitnessIsSpokenToWithFromFiles) {
  const auto file = [](const char* name, const std::string& content) {
    const std::string path = testing::TempDir() + name;
    std::ofstream(path) << content;
    return path;
  };
  const std::string ca = file("witness_ca.pem", "ca\n"), certificate = file("witness_certificate.pem", "certificate\n");
  const std::string key = file("witness_key.pem", "key\n"), password = file("witness_password", "right one\n");
  answer("POST /api/v1/pair", 201, {{"state", "alone"}, {"name", "pair1"}});
  EXPECT_EQ(
      run({"pair", "create", "pair1", "--witness", "https://etcd:2379", "--witness-ca", ca, "--witness-user", "ls",
           "--witness-password-file", password, "--witness-certificate", certificate, "--witness-key", key}),
      0)
      << err_.str();
  EXPECT_EQ(sent(0)["arbiter"], (json{{"kind", "witness"},
                                      {"endpoints", {"https://etcd:2379"}},
                                      {"ca", "ca\n"},
                                      {"user", "ls"},
                                      {"password", "right one"},
                                      {"certificate", "certificate\n"},
                                      {"key", "key\n"}}));
}

TEST_F(Run, PairCreateWantsAllOfWhatGoesTogetherForTheWitness) {
  EXPECT_EQ(run({"pair", "create", "pair1", "--witness", "https://etcd:2379", "--witness-ca", "/nowhere/ca.pem"}), 2);
  EXPECT_THAT(err_.str(), HasSubstr("/nowhere/ca.pem can't be read"));
  EXPECT_EQ(run({"pair", "create", "pair1", "--witness", "https://etcd:2379", "--witness-user", "ls"}), 2);
  EXPECT_EQ(
      run({"pair", "create", "pair1", "--witness", "https://etcd:2379", "--witness-ca", "x", "--witness-user", "ls"}),
      2);
  EXPECT_THAT(err_.str(), HasSubstr("--witness-password-file"));
  EXPECT_EQ(run({"pair", "create", "pair1", "--preferred", "a", "--witness-ca", "x"}), 2);
}

TEST_F(Run, PairWitnessSetSendsWhatWasSaidAndNothingElse) {
  const std::string password = testing::TempDir() + "new_password";
  std::ofstream(password) << "new one\n";
  const json done{{"id", "j1"}, {"state", "done"}, {"message", "The witness is another one now."}};
  answer("PATCH /api/v1/pair/witness", 202, done);
  EXPECT_EQ(run({"pair", "witness", "set", "--user", "ls", "--password-file", password}), 0) << err_.str();
  EXPECT_EQ(sent(0), (json{{"user", "ls"}, {"password", "new one"}}));
  answer("PATCH /api/v1/pair/witness", 202, done);
  EXPECT_EQ(run({"pair", "witness", "set", "--endpoint", "http://a:1", "--endpoint", "http://b:1"}), 0) << err_.str();
  EXPECT_EQ(sent(1), (json{{"endpoints", {"http://a:1", "http://b:1"}}}));
  EXPECT_EQ(run({"pair", "witness", "set"}), 2);
  EXPECT_THAT(err_.str(), HasSubstr("--endpoint"));
  EXPECT_EQ(run({"pair", "witness", "set", "--user", "ls"}), 2);
}

TEST_F(Run, PairArbiterSetNamesAWitnessOrASideAndNotBoth) {
  const json done{{"id", "j1"}, {"state", "done"}, {"message", "The arbiter is another one now."}};
  answer("PATCH /api/v1/pair/arbiter", 202, done);
  EXPECT_EQ(run({"pair", "arbiter", "set", "--preferred", "b"}), 0) << err_.str();
  EXPECT_EQ(sent(0), (json{{"kind", "preferred"}, {"preferred_side", "b"}}));
  answer("PATCH /api/v1/pair/arbiter", 202, done);
  EXPECT_EQ(run({"pair", "arbiter", "set", "--witness", "http://a:1"}), 0) << err_.str();
  EXPECT_EQ(sent(1), (json{{"kind", "witness"}, {"endpoints", {"http://a:1"}}}));
  EXPECT_EQ(run({"pair", "arbiter", "set"}), 2);
  EXPECT_THAT(err_.str(), HasSubstr("--preferred"));
  EXPECT_EQ(run({"pair", "arbiter", "set", "--witness", "http://a:1", "--preferred", "a"}), 2);
  EXPECT_EQ(run({"pair", "arbiter", "set", "--preferred", "c"}), 2);
}

TEST_F(Run, PairWitnessShowTellsHowEachNodeStandsWithIt) {
  json shown = json::parse(R"({"kind": "witness", "endpoints": ["http://a:1"], "ca": false, "user": null,
    "client_certificate": false, "changing": false, "nodes": [
      {"side": "a", "name": "node-a", "reachable": true, "volumes_not_known": 2},
      {"side": "b", "name": "node-b", "reachable": false, "volumes_not_known": 0}]})");
  answer("GET /api/v1/pair/witness", 200, shown);
  EXPECT_EQ(run({"pair", "witness", "show"}), 0);
  EXPECT_THAT(out_.str(), HasSubstr("http://a:1"));
  EXPECT_THAT(out_.str(), HasSubstr("2 of its volumes are not known to it yet"));
  EXPECT_THAT(out_.str(), HasSubstr("cannot reach it"));
  shown["changing"] = true;
  answer("GET /api/v1/pair/witness", 200, shown);
  EXPECT_EQ(run({"pair", "witness", "show"}), 0);
  EXPECT_THAT(out_.str(), HasSubstr("if a node fails now, I/O stops"));
}

TEST_F(Run, PairLeaveSaysWhatTheNodeSaysIsLostBeforeItAsks) {
  const json nodes{
      {"items", {{{"side", "a"}, {"name", "node-a"}, {"local", true}}, {{"side", "b"}, {"name", "node-b"}}}}};
  const json refused{
      {"type", "urn:lockstep:problem:confirmation-needed"},
      {"title", "This needs a confirmation"},
      {"detail",
       "node-b leaves. Lost with node-b, since this node has no copy of it yet: vm2. Send `node-b` as `confirm`."}};
  answer("GET /api/v1/nodes", 200, nodes);
  answer("POST /api/v1/nodes/b/leave", 409, refused);
  answer("POST /api/v1/nodes/b/leave", 202, job("running"));
  EXPECT_EQ(run({"pair", "leave", "b", "--lost", "--no-wait"}, true, "node-b\n"), 0) << err_.str();
  EXPECT_THAT(err_.str(), HasSubstr("Lost with node-b, since this node has no copy of it yet: vm2.\nType node-b"));
  EXPECT_THAT(err_.str(), testing::Not(HasSubstr("Send `")));
  EXPECT_EQ(sent(1), (json{{"lost", true}}));
  EXPECT_EQ(sent(2), (json{{"lost", true}, {"confirm", "node-b"}}));
}

TEST_F(Run, PairLeaveNamesTheOptionWhereChangesOfTheLostNodeWouldGo) {
  answer("GET /api/v1/nodes", 200, {{"items", {{{"side", "b"}, {"name", "node-b"}}}}});
  answer("POST /api/v1/nodes/b/leave", 409,
         {{"type", "urn:lockstep:problem:confirmation-needed"},
          {"title", "This needs a confirmation"},
          {"detail", "node-b went on alone. Send `node-b without its changes` as `confirm`."}});
  EXPECT_NE(run({"pair", "leave", "b", "--lost", "--no-wait"}, true, "node-b\n"), 0);
  EXPECT_THAT(err_.str(), HasSubstr("node-b went on alone. If that is meant, repeat the command with "
                                    "--without-its-changes."));
  EXPECT_THAT(err_.str(), testing::Not(HasSubstr("Type node-b")));
}

TEST_F(Run, PairLeaveAsksNothingOfWhatIsRefusedAnyway) {
  answer("GET /api/v1/nodes", 200, {{"items", {{{"side", "b"}, {"name", "node-b"}}}}});
  answer("POST /api/v1/nodes/b/leave", 409,
         {{"type", "urn:lockstep:problem:conflict"}, {"title", "Not now"}, {"detail", "node-b answers."}});
  EXPECT_NE(run({"pair", "leave", "b", "--lost"}, true, "node-b\n"), 0);
  EXPECT_THAT(err_.str(), HasSubstr("node-b answers."));
  EXPECT_THAT(err_.str(), testing::Not(HasSubstr("to confirm")));
}

TEST_F(Run, NodeReplaceAsksForTheNodesNameAndPrintsOnlyTheInvitationToStandardOutput) {
  const json nodes{{"items", {{{"side", "a"}, {"name", "node-a"}}, {{"side", "b"}, {"name", "node-b"}}}}};
  answer("GET /api/v1/nodes", 200, nodes);
  answer("POST /api/v1/nodes/b/replacement", 409,
         {{"type", "urn:lockstep:problem:confirmation-needed"},
          {"title", "This needs a confirmation"},
          {"detail", "It may have changed the configuration alone."}});
  answer("POST /api/v1/nodes/b/replacement", 201,
         {{"invitation", "lsi1.x.y"}, {"expires_at", "2026-11-21T09:15:00Z"}, {"undecided_change", "Token ops made"}});
  EXPECT_EQ(run({"node", "replace", "b"}, true, "node-b\n"), 0);
  EXPECT_EQ(sent(2), (json{{"confirm", "node-b"}}));
  EXPECT_EQ(out_.str(), "lsi1.x.y\n");
  EXPECT_THAT(err_.str(), HasSubstr("shut out for good"));
  EXPECT_THAT(err_.str(), HasSubstr("It may have changed the configuration alone."));
  EXPECT_THAT(err_.str(), HasSubstr("Token ops made"));
}

TEST_F(Run, NodeReplaceDoesNothingWithoutTheNodesName) {
  const json nodes{{"items", {{{"side", "a"}, {"name", "node-a"}}, {{"side", "b"}, {"name", "node-b"}}}}};
  answer("GET /api/v1/nodes", 200, nodes);
  answer("POST /api/v1/nodes/b/replacement", 409,
         {{"type", "urn:lockstep:problem:confirmation-needed"}, {"title", "This needs a confirmation"}});
  EXPECT_EQ(run({"node", "replace", "b"}, true, "node-a\n"), 2);
  answer("GET /api/v1/nodes", 200, nodes);
  EXPECT_EQ(run({"node", "replace", "b", "--confirm", "pair1"}), 2);
}

TEST_F(Run, PairRecoverShowsWhatWasFoundAndPutsItInForceWhenItIsConfirmed) {
  const json found = json::parse(
      R"({"recoverable": true, "problem": "", "partner": "away", "partner_says": "node-b cannot be reached.", "replicas": [],
          "saved": {"pair": "pair1", "revision": 17, "saved_at": "2026-11-21T08:14:05Z", "side": "a", "node": "node-a",
                    "volumes": [{"id": "x", "name": "vm1", "size_bytes": 1073741824}]}})");
  answer("GET /api/v1/pair/recovery", 200, found);
  answer("POST /api/v1/pair/recovery", 201, {{"state", "complete"}, {"name", "pair1"}, {"local_side", "a"}});
  EXPECT_EQ(run({"pair", "recover"}, true, "pair1\n"), 0);
  EXPECT_EQ(sent(1), (json{{"confirm", "pair1"}}));
  EXPECT_THAT(err_.str(), HasSubstr("vm1 (1 GiB)"));
  EXPECT_THAT(err_.str(), HasSubstr("node-b cannot be reached."));
  EXPECT_THAT(out_.str(), HasSubstr("lockstep node replace b"));
}

TEST_F(Run, PairRecoverThatCannotWorkSaysWhyAndEndsWithOne) {
  const json found = json::parse(
      R"({"recoverable": false, "problem": "There is no saved copy.", "partner": "none", "partner_says": "", "saved": null,
          "rebuild": null, "replicas": [{"volume_id": "5b0e9a52-6f8e-4a55-9d6e-0d5b7f0f8a11", "copy": 1, "bytes": 1073741824,
                                         "left_alone": "It is cut \u001b[2J short."}]})");
  answer("GET /api/v1/pair/recovery", 200, found);
  EXPECT_EQ(run({"pair", "recover", "--confirm", "pair1"}), 1);
  EXPECT_THAT(err_.str(), HasSubstr("There is no saved copy."));
  EXPECT_THAT(err_.str(), HasSubstr("5b0e9a52-6f8e-4a55-9d6e-0d5b7f0f8a11 copy 1 (1 GiB): It is cut ?[2J short."));
}

json replicas_found() {
  return json::parse(
      R"({"recoverable": true, "problem": "", "partner": "none", "partner_says": "", "saved": null,
          "rebuild": {"pair_id": "0b7fd3a3-61f0-4a53-9d4d-6f5a1c0e4a02", "side": "b",
                      "arbiter": {"kind": "preferred", "preferred_side": "a"},
                      "volumes": [{"id": "x", "name": "vm1", "recorded_name": null, "lun": 0, "size_bytes": 1073741824,
                                   "serial": "5b0e9a526f8e", "encrypted": true, "copy": 2,
                                   "epoch": {"number": 12, "members": "both"}}]},
          "replicas": [{"volume_id": "x", "copy": 2, "bytes": 1073741824, "left_alone": null},
                       {"volume_id": "y", "copy": 1, "bytes": 0, "left_alone": "Its data is missing."}]})");
}

TEST_F(Run, PairRecoverFromReplicasWantsThePairsNameAndShowsWhatItHas) {
  answer("GET /api/v1/pair/recovery", 200, replicas_found());
  EXPECT_EQ(run({"pair", "recover", "--confirm", "pair1"}), 2);
  EXPECT_THAT(err_.str(), HasSubstr("Say the pair's name with --name"));
  EXPECT_THAT(err_.str(), HasSubstr("vm1"));
  answer("GET /api/v1/pair/recovery", 200, replicas_found());
  EXPECT_EQ(run({"pair", "recover", "--show"}), 0);
  for (const char* shown :
       {"side b", "side a is preferred", "both nodes", "encrypted, copy 2", "y copy 1 (0 B): Its data is missing."})
    EXPECT_THAT(out_.str(), HasSubstr(shown));
}

TEST_F(Run, PairRecoverFromReplicasSendsWhatTheOperatorAddsAndSaysHowToGoOn) {
  answer("GET /api/v1/pair/recovery?pair=0b7fd3a3-61f0-4a53-9d4d-6f5a1c0e4a02", 200, replicas_found());
  answer("POST /api/v1/pair/recovery", 201, {{"state", "alone"}, {"name", "pair1"}, {"local_side", "b"}});
  EXPECT_EQ(run({"pair", "recover", "--name", "pair1", "--pair", "0b7fd3a3-61f0-4a53-9d4d-6f5a1c0e4a02", "--witness",
                 "http://10.0.0.10:2379", "--portal", "10.0.0.12:3260"},
                true, "pair1\n"),
            0);
  EXPECT_EQ(sent(1), (json{{"confirm", "pair1"},
                           {"name", "pair1"},
                           {"pair", "0b7fd3a3-61f0-4a53-9d4d-6f5a1c0e4a02"},
                           {"arbiter", {{"kind", "witness"}, {"endpoints", {"http://10.0.0.10:2379"}}}},
                           {"node", {{"portals", {"10.0.0.12:3260"}}}}}));
  EXPECT_THAT(err_.str(), HasSubstr("no host may use a volume until it is let in again"));
  EXPECT_THAT(out_.str(), HasSubstr("lockstep pair invite"));
}

TEST_F(Run, PairRecoverFromReplicasDoesNothingWithoutTheNameTypedAgain) {
  answer("GET /api/v1/pair/recovery", 200, replicas_found());
  EXPECT_EQ(run({"pair", "recover", "--name", "pair1"}, true, "pair2\n"), 2);
}

TEST_F(Run, PairInvitePrintsOnlyTheInvitationToStandardOutput) {
  answer("POST /api/v1/pair/invitations", 201, {{"invitation", "lsi1.x.y"}, {"expires_at", "2026-11-21T09:15:00Z"}});
  EXPECT_EQ(run({"pair", "invite"}), 0);
  EXPECT_EQ(out_.str(), "lsi1.x.y\n");
  EXPECT_THAT(err_.str(), HasSubstr("2026-11-21 09:15:00"));
}

TEST_F(Run, NodeListDoesNotShowWhatAStoppedNodeSaidLast) {
  answer("GET /api/v1/nodes", 200, {{"items", json::parse(R"([
    {"side": "a", "name": "node-a", "local": true, "reachable": true, "lockstepd": {"state": "running", "uptime_seconds": 61, "message": ""},
     "version": "0.1.0", "partner_link": {"connected": true, "path": "tcp"}, "witness": {"kind": "witness", "reachable": true},
     "addresses": {"portals": ["10.0.0.11:3260"]}},
    {"side": "b", "name": "node-b", "local": false, "reachable": true, "lockstepd": {"state": "stopped", "uptime_seconds": null, "message": "It is gone."},
     "version": null, "partner_link": {"connected": true, "path": "tcp"}, "witness": {"kind": "witness", "reachable": true},
     "addresses": {"portals": []}}])")}});
  EXPECT_EQ(run({"node", "list"}), 0);
  EXPECT_EQ(out_.str(),
            "SIDE  NAME      MANAGEMENT  LOCKSTEPD  VERSION  UP FOR     LINK      WITNESS    PORTALS\n"
            "a     node-a *  reachable   running    0.1.0    1 min 1 s  up (tcp)  reachable  10.0.0.11:3260\n"
            "b     node-b    reachable   stopped    -        -          -         -          -\n"
            "node-b: It is gone.\n"
            "* the node that answered\n");
}

}  // namespace
}  // namespace lockstep::cli
