// The whole command: what it sends, what it prints, how it exits.
#include "tests/unit/cli/run_fixture.hpp"

namespace lockstep::cli {
namespace {

TEST_F(Run, WithoutACommandItSaysSoAndExitsWithTwo) {
  EXPECT_EQ(run({}), 2);
  EXPECT_THAT(err_.str(), HasSubstr("--help"));
  EXPECT_EQ(run({"volume"}), 2);
  EXPECT_EQ(run({"volume", "explode"}), 2);
  EXPECT_EQ(run({"volume", "create", "vm1"}), 2) << "without a size";
  EXPECT_TRUE(script_.asked.empty());
}

TEST_F(Run, AMistypedCommandIsNamedWithThoseThatThereAre) {
  EXPECT_EQ(run({"volume", "lsit"}), 2);
  EXPECT_THAT(
      err_.str(),
      HasSubstr("There is no command \"lockstep volume lsit\". Say one of: lockstep volume list, create, show"));
  EXPECT_EQ(run({"nonsense"}), 2);
  EXPECT_THAT(err_.str(), HasSubstr("There is no command \"lockstep nonsense\". Say one of: lockstep health, pair"));
}

TEST_F(Run, HelpHasExamplesAndExitsWithZero) {
  EXPECT_EQ(run({"--help"}), 0);
  EXPECT_THAT(out_.str(), HasSubstr("Exit codes"));
  EXPECT_EQ(run({"volume", "create", "--help"}), 0);
  EXPECT_THAT(out_.str(), HasSubstr("lockstep volume create vm1 --size 100GiB --initiator iqn."));
  EXPECT_EQ(run({"volume", "set", "--help"}), 0);
  EXPECT_THAT(out_.str(), HasSubstr("device/rescan")) << "what Linux hosts need to hear of a write cache";
  EXPECT_EQ(run({"--version"}), 0);
}

TEST_F(Run, GlobalOptionsMayStandBehindTheCommand) {
  answer("GET /api/v1/volumes", 200, {{"items", json::array()}});
  EXPECT_EQ(run({"volume", "list", "--server", "https://node-b:1", "--token", "other"}), 0);
  EXPECT_EQ(settings_.server, (Url{true, "node-b", "1"}));
  EXPECT_EQ(settings_.token, "other");
  EXPECT_THAT(out_.str(), HasSubstr("No volumes."));
}

TEST_F(Run, VolumeListIsATableWithTheResync) {
  answer_volumes();
  EXPECT_EQ(run({"volume", "list"}), 0);
  EXPECT_EQ(out_.str(),
            "NAME    SIZE  HEALTH    NODE A          NODE B  RESYNC                      LUN  ACCESS\n"
            "vm1   10 GiB  degraded  syncing_source  -       50.0 %, 90 MiB/s, 6 s left    3  1\n");
}

TEST_F(Run, JsonIsTheServersOwn) {
  answer_volumes();
  EXPECT_EQ(run({"--json", "volume", "list"}), 0);
  EXPECT_EQ(json::parse(out_.str()), json::array({volume()}));
}

TEST_F(Run, VolumeShowTellsReplicasAndHowToConnect) {
  answer_volumes();
  EXPECT_EQ(run({"volume", "show", kVolumeId}), 0) << "an id is as good as a name";
  for (const char* part : {"10.0.0.11:3260, 10.0.0.12:3260", "iqn.2026-11.io.lockstep:pair1",
                           "Replica on node-a (side a)", "512 MiB", "50.0 %"}) {
    EXPECT_THAT(out_.str(), HasSubstr(part));
  }
}

TEST_F(Run, VolumeShowSaysThatItIsEncryptedOnlyIfItIs) {
  answer_volumes();
  EXPECT_EQ(run({"volume", "show", "vm1"}), 0);
  EXPECT_THAT(out_.str(), testing::Not(HasSubstr("encrypted")));
  json encrypted = volume();
  encrypted["encrypted"] = true;
  answer("GET /api/v1/volumes", 200, {{"items", json::array({encrypted})}});
  EXPECT_EQ(run({"volume", "show", "vm1"}), 0);
  EXPECT_THAT(out_.str(), HasSubstr("thin, 512e blocks, encrypted on each node's disk"));
}

TEST_F(Run, VolumeCreateSendsTheSizeInBytesAndWaitsForTheJob) {
  answer("POST /api/v1/volumes", 202, job("pending"));
  answer("GET /api/v1/jobs/j1", 200, job("running", 0.5));
  answer("GET /api/v1/jobs/j1", 200, job("done", 1));
  EXPECT_EQ(run({"volume", "create", "vm1", "--size", "10GiB", "--block", "4kn", "--full", "--initiator", "iqn.x"}), 0);
  EXPECT_EQ(
      sent(0),
      json::parse(
          R"({"name": "vm1", "size_bytes": 10737418240, "thin": false, "block_format": "4kn", "access": ["iqn.x"]})"));
  EXPECT_EQ(slept_, 2);
  EXPECT_EQ(out_.str(), "It is done.\n");
}

TEST_F(Run, VolumeCreateSendsTheShapeThatWasAskedFor) {
  answer("POST /api/v1/volumes", 202, job("done", 1));
  EXPECT_EQ(run({"volume", "create", "vm1", "--size", "1MiB", "--block", "512n", "--read-only", "--removable",
                 "--encrypted", "--write-cache"}),
            0);
  EXPECT_EQ(sent(0), json::parse(R"({"name": "vm1", "size_bytes": 1048576, "thin": true, "block_format": "512n",
                                     "read_only": true, "removable": true, "encrypted": true, "write_cache": true})"));
  EXPECT_EQ(run({"volume", "create", "vm1", "--size", "1MiB", "--block", "520"}), 2);
  EXPECT_EQ(run({"volume", "create", "vm1", "--size", "1MiB", "--block", "4kn", "--block-size", "512"}), 2);
}

TEST_F(Run, VolumeSetSendsOnlyWhatWasSaid) {
  answer_volumes();
  answer("PATCH /api/v1/volumes/" + std::string(kVolumeId), 200, volume());
  EXPECT_EQ(run({"volume", "set", "vm1", "--write-cache", "off"}), 0);
  EXPECT_EQ(sent(1), json::parse(R"({"write_cache": false})"));
  answer_volumes();
  answer("PATCH /api/v1/volumes/" + std::string(kVolumeId), 200, volume());
  EXPECT_EQ(run({"volume", "set", "vm1", "--name", "mail"}), 0);
  EXPECT_EQ(sent(3), json::parse(R"({"name": "mail"})"));
  EXPECT_EQ(run({"volume", "set", "vm1"}), 2);
  EXPECT_EQ(run({"volume", "set", "vm1", "--read-only", "yes"}), 2);
}

TEST_F(Run, VolumeGrowSendsTheSizeAndWaitsForTheJob) {
  answer_volumes();
  answer("PATCH /api/v1/volumes/" + std::string(kVolumeId), 202, job("done", 1));
  EXPECT_EQ(run({"volume", "grow", "vm1", "--size", "20GiB"}), 0);
  EXPECT_EQ(sent(1), json::parse(R"({"size_bytes": 21474836480})"));
  EXPECT_EQ(run({"volume", "grow", "vm1"}), 2);
  EXPECT_EQ(run({"volume", "grow", "vm1", "--size", "much"}), 2);
}

TEST_F(Run, VolumeImportTakesTheSecretFromAFile) {
  const auto file = std::filesystem::temp_directory_path() / ("lockstep-secret-" + std::to_string(::getpid()));
  std::ofstream(file) << "of-twelve-ch\nnot this\n";
  answer("POST /api/v1/imports", 202, job("done", 1));
  EXPECT_EQ(run({"volume", "import", "iscsi://u@h/iqn.x/0", "--name", "m", "--secret-file", file.string()}), 0);
  EXPECT_EQ(sent(0), json::parse(R"({"source": "iscsi://u%of-twelve-ch@h/iqn.x/0", "name": "m", "thin": true})"));
  EXPECT_EQ(run({"volume", "import", "iscsi://h/iqn.x/0", "--name", "m", "--secret-file", file.string()}), 2)
      << "whose secret?";
  EXPECT_EQ(run({"volume", "import", "iscsi://u@h/iqn.x/0", "--name", "m", "--secret-file", "/nowhere"}), 2);
  std::filesystem::remove(file);
}

TEST_F(Run, VolumeImportSendsHowTheVolumeIsToBe) {
  answer("POST /api/v1/imports", 202, job("done", 1));
  EXPECT_EQ(run({"volume", "import", "iscsi://h/iqn.x/0", "--name", "m", "--full", "--read-only", "--encrypted",
                 "--write-cache"}),
            0);
  EXPECT_EQ(sent(0), json::parse(R"({"source": "iscsi://h/iqn.x/0", "name": "m", "thin": false, "read_only": true,
                                     "encrypted": true, "write_cache": true})"));
}

TEST_F(Run, JobCancelAsksForIt) {
  answer("POST /api/v1/jobs/j1/cancel", 202, job("running", 0.5));
  EXPECT_EQ(run({"job", "cancel", "j1"}), 0);
  EXPECT_EQ(script_.asked.size(), 1u);
}

TEST_F(Run, CompletionNamesEveryCommandAndOptionAndNeedsNoServer) {
  EXPECT_EQ(run({"completion"}), 0);
  EXPECT_THAT(out_.str(), HasSubstr("'volume create') words='"));
  EXPECT_THAT(out_.str(), HasSubstr("--write-cache"));
  EXPECT_THAT(out_.str(), HasSubstr("complete -o default -F _lockstep lockstep"));
  EXPECT_TRUE(script_.asked.empty());
}

TEST_F(Run, OnATerminalAJobHasAProgressBar) {
  answer("POST /api/v1/volumes", 202, job("running", 0.5));
  answer("GET /api/v1/jobs/j1", 200, job("done", 1));
  EXPECT_EQ(run({"volume", "create", "vm1", "--size", "1G"}, true), 0);
  EXPECT_THAT(err_.str(), HasSubstr("[###############...............]  50 %"));
}

TEST_F(Run, NoWaitOnlyNamesTheJob) {
  answer("POST /api/v1/volumes", 202, job("pending"));
  EXPECT_EQ(run({"volume", "create", "vm1", "--size", "1G", "--no-wait"}), 0);
  EXPECT_EQ(out_.str(), "Job j1 was started.\n");
}

TEST_F(Run, AFailedJobExitsWithOneAndTheReason) {
  answer("POST /api/v1/volumes", 202, job("running"));
  answer("GET /api/v1/jobs/j1", 200,
         job("failed", 0.2, {{"title", "No space"}, {"detail", "The disk of node-b is full."}}));
  EXPECT_EQ(run({"volume", "create", "vm1", "--size", "1G"}), 1);
  EXPECT_THAT(err_.str(), HasSubstr("No space.\nThe disk of node-b is full."));
  EXPECT_EQ(out_.str(), "");
}

TEST_F(Run, ARefusalExitsWithOneAndNamesTheField) {
  answer("POST /api/v1/volumes", 409,
         json::parse(R"({"type": "urn:lockstep:problem:conflict", "title": "The name is taken", "status": 409,
    "detail": "Choose another name.", "errors": [{"pointer": "/name", "detail": "There is a vm1."}]})"));
  EXPECT_EQ(run({"volume", "create", "vm1", "--size", "1G"}), 1);
  EXPECT_EQ(err_.str(), "lockstep: The name is taken.\nChoose another name.\n  name: There is a vm1.\n");
}

TEST_F(Run, NoAnswerExitsWithThree) {
  EXPECT_EQ(run({"health"}), 3);
  EXPECT_THAT(err_.str(), HasSubstr("nothing more is played"));
}

TEST_F(Run, AWrongSizeIsNeverSent) {
  EXPECT_EQ(run({"volume", "create", "vm1", "--size", "ten"}), 2);
  EXPECT_TRUE(script_.asked.empty());
}

TEST_F(Run, DeleteNeedsTheNameTypedOnATerminal) {
  answer_volumes();
  EXPECT_EQ(run({"volume", "delete", "vm1"}, true, "vm2\n"), 2);
  EXPECT_EQ(script_.asked.size(), 1u) << "nothing but the list was asked for";
  EXPECT_THAT(err_.str(), HasSubstr("All 10 GiB of vm1 are erased on both nodes"));

  script_ = {};
  answer_volumes();
  answer(std::string("DELETE /api/v1/volumes/") + kVolumeId + "?confirm=vm1", 202, job("done"));
  EXPECT_EQ(run({"volume", "delete", "vm1"}, true, "vm1\n"), 0);
}

TEST_F(Run, WithoutATerminalDeleteNeedsConfirmOrYes) {
  answer_volumes();
  EXPECT_EQ(run({"volume", "delete", "vm1"}, false, "vm1\n"), 2);
  script_ = {};
  answer_volumes();
  EXPECT_EQ(run({"volume", "delete", "vm1", "--confirm", "vm"}), 2);
  EXPECT_EQ(script_.asked.size(), 1u);
  for (const auto& sure : {std::vector<std::string>{"--confirm", "vm1"}, std::vector<std::string>{"--yes"}}) {
    script_ = {};
    answer_volumes();
    answer(std::string("DELETE /api/v1/volumes/") + kVolumeId + "?confirm=vm1", 202, job("done"));
    std::vector<std::string> arguments{"volume", "delete", "vm1"};
    arguments.insert(arguments.end(), sure.begin(), sure.end());
    EXPECT_EQ(run(arguments), 0);
  }
}

TEST_F(Run, ForceSoloFindsTheSideOfANamedNodeAndConfirms) {
  answer_volumes();
  answer("GET /api/v1/nodes", 200,
         {{"items", {{{"side", "a"}, {"name", "node-a"}}, {{"side", "b"}, {"name", "node-b"}}}}});
  answer(std::string("POST /api/v1/volumes/") + kVolumeId + "/actions", 202, job("done"));
  EXPECT_EQ(run({"volume", "force-solo", "vm1", "--node", "node-b", "--accept-inconsistent", "--confirm", "vm1"}), 0);
  EXPECT_EQ(sent(2),
            json::parse(R"({"action": "force_solo", "side": "b", "confirm": "vm1", "accept_inconsistent": true})"));
}

TEST_F(Run, LeaveNeedsNoConfirmation) {
  answer_volumes();
  answer(std::string("POST /api/v1/volumes/") + kVolumeId + "/actions", 202, job("done"));
  EXPECT_EQ(run({"volume", "leave", "vm1", "--node", "b"}), 0);
  EXPECT_EQ(sent(1), json::parse(R"({"action": "leave", "side": "b"})"));
}

TEST_F(Run, VolumeCreateNamesItsHostsOrAnyButNotBoth) {
  EXPECT_EQ(run({"volume", "create", "vm1", "--size", "1GiB", "--any", "--initiator", "iqn.x"}), 2);
  answer("POST /api/v1/volumes", 202, job("done", 1));
  EXPECT_EQ(run({"volume", "create", "vm1", "--size", "1GiB", "--any"}), 0);
  EXPECT_EQ(sent(0)["any_initiator"], true);
}

TEST_F(Run, HealthExitsWithOneWhenNotAllIsWell) {
  answer("GET /api/v1/health", 200, json::parse(R"({"status": "ok", "summary": "All is in order.", "problems": []})"));
  EXPECT_EQ(run({"health"}), 0);
  EXPECT_EQ(out_.str(), "OK: All is in order.\n");
  script_ = {};
  answer("GET /api/v1/health", 200, json::parse(R"({"status": "degraded", "summary": "Alone.",
    "problems": [{"severity": "warning", "message": "node-b is away.", "advice": "Check its power."},
                 {"severity": "info", "message": "eth1 has an MTU of 1500.", "advice": "Set 9000."}]})"));
  EXPECT_EQ(run({"health"}), 1);
  EXPECT_EQ(
      out_.str(),
      "DEGRADED: Alone.\n- node-b is away.\n  Check its power.\n- advice: eth1 has an MTU of 1500.\n  Set 9000.\n");
  EXPECT_EQ(err_.str(), "");
}

TEST_F(Run, FollowTakesABrokenStreamUpWhereItBroke) {
  answer("GET /api/v1/events?limit=50", 200,
         {{"items", {{{"id", 7}, {"time", "2026-11-21T08:14:05.120Z"}, {"severity", "info"}, {"message", "old"}}}}});
  script_.streams = {"event: node\ndata: {}\n\nevent: event\nid: 8\ndata: {\"message\":\"new\"}\n\n", ": nothing\n\n"};
  EXPECT_EQ(run({"event", "list", "--follow"}), 1) << "the played server refuses the third stream";
  EXPECT_EQ(script_.asked.at(1).target, "7");
  EXPECT_EQ(script_.asked.at(2).target, "8");
  EXPECT_EQ(script_.asked.at(3).target, "8");
  EXPECT_THAT(out_.str(), HasSubstr("2026-11-21 08:14:05  info      -     old\n"));
  EXPECT_THAT(out_.str(), HasSubstr("new"));
}

TEST_F(Run, TokenCreatePrintsOnlyTheSecretToStandardOutput) {
  answer("POST /api/v1/tokens", 201, {{"token", "lst_x"}});
  EXPECT_EQ(run({"token", "create", "prometheus", "--role", "viewer", "--expires-days", "2"}), 0);
  EXPECT_EQ(sent(0), json::parse(R"({"name": "prometheus", "role": "viewer", "expires_in_seconds": 172800})"));
  EXPECT_EQ(out_.str(), "lst_x\n");
}

TEST_F(Run, TokenRevokeFindsTheTokenByName) {
  answer("GET /api/v1/tokens", 200, {{"items", {{{"id", "t1"}, {"name", "old"}}}}});
  answer("DELETE /api/v1/tokens/t1", 204);
  EXPECT_EQ(run({"token", "revoke", "old"}), 0);
}

TEST_F(Run, InitiatorListSaysWhichNodesAreReachedOverRdma) {
  answer("GET /api/v1/initiators", 200,
         {{"items", {{{"iqn", "iqn.x"}, {"chap", "none"}, {"volumes", json::array()}}}}});
  const auto session = [](const char* side, const char* transport) {
    return json{{"side", side}, {"initiator", "iqn.x"}, {"transport", transport}};
  };
  answer("GET /api/v1/sessions", 200, {{"items", {session("a", "tcp"), session("a", "rdma"), session("b", "tcp")}}});
  EXPECT_EQ(run({"initiator", "list"}), 0);
  EXPECT_THAT(out_.str(), HasSubstr("a (RDMA), b "));
}

TEST_F(Run, InitiatorSecretSendsTheTimeInSecondsAndSaysUntilWhenTheOldOneCounts) {
  const json shown = {{"iqn", "iqn.x"}, {"chap", "one_way"}, {"old_secret_valid_until", "2026-11-23T20:00:00Z"}};
  answer("POST /api/v1/initiators/iqn.x/secret", 200, shown);
  EXPECT_EQ(run({"initiator", "secret", "iqn.x", "--chap-secret-file", "-", "--old-valid-for", "2h"}, false,
                "a-new-secret-01\n"),
            0);
  EXPECT_EQ(sent(0), json::parse(R"({"chap": {"secret": "a-new-secret-01"}, "old_valid_for_seconds": 7200})"));
  EXPECT_THAT(out_.str(), HasSubstr("accepted until 2026-11-23 20:00:00 UTC"));
  EXPECT_THAT(out_.str(), testing::Not(HasSubstr("a-new-secret-01")));
}

TEST_F(Run, InitiatorSecretNeedsASecretAndAGoodTime) {
  EXPECT_EQ(run({"initiator", "secret", "iqn.x"}), 2);
  EXPECT_EQ(run({"initiator", "secret", "iqn.x", "--chap-secret", "a-new-secret-01", "--old-valid-for", "soon"}), 2);
  EXPECT_EQ(run({"initiator", "secret", "iqn.x", "--end-old", "--old-valid-for", "1h"}), 2);
  answer("DELETE /api/v1/initiators/iqn.x/old-secret", 204);
  EXPECT_EQ(run({"initiator", "secret", "iqn.x", "--end-old"}), 0);
}

TEST_F(Run, RotateSecretsWaitsForItsJob) {
  answer("POST /api/v1/pair/link-secrets", 202, job("running"));
  answer("GET /api/v1/jobs/j1", 200, job("done", 1));
  EXPECT_EQ(run({"pair", "rotate-secrets"}), 0);
}

TEST_F(Run, CertificateSetSendsTheChainBehindTheCertificate) {
  const auto folder = std::filesystem::temp_directory_path() / ("lockstep-cli-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  for (const char* name : {"crt", "key", "ca"}) std::ofstream(folder / name) << name;
  answer("PUT /api/v1/certificate", 200, {{"node", "node-a"}, {"own", true}, {"names", {"a.example"}}});
  EXPECT_EQ(run({"node", "certificate", "set", "--certificate", folder / "crt", "--key", folder / "key", "--chain",
                 folder / "ca"}),
            0);
  EXPECT_EQ(sent(0), json::parse(R"({"certificate": "crt\nca", "key": "key"})"));
  EXPECT_THAT(out_.str(), HasSubstr("node-a shows its own certificate"));
  std::filesystem::remove_all(folder);
}

TEST_F(Run, ALocalTokenIsAskedOfNoServer) {
  const auto file = std::filesystem::temp_directory_path() / ("lockstep-token-" + std::to_string(::getpid()));
  std::ofstream(file) << "lst_before";
  EXPECT_EQ(run({"token", "create", "--local", "--token-file", file}), 3) << "nobody makes another one here";
  EXPECT_FALSE(std::filesystem::exists(file));
  EXPECT_TRUE(script_.asked.empty());
  EXPECT_EQ(run({"token", "create", "name", "--local"}), 2);
  EXPECT_EQ(run({"token", "create"}), 2);
}

}  // namespace
}  // namespace lockstep::cli
