#include <gtest/gtest.h>

#include "mgmt/data_plane/desired_state.hpp"
#include "mgmt/data_plane/json_rpc.hpp"
#include "mgmt/data_plane/witness_question.hpp"

namespace lockstep::data_plane {
namespace {

using nlohmann::json;

TEST(JsonRpc, ReadsARequestWithItsParameters) {
  const auto request = parse_request(R"({"jsonrpc":"2.0","id":7,"method":"node.status","params":{"x":1}})");
  ASSERT_TRUE(request);
  EXPECT_EQ(request->id, 7);
  EXPECT_EQ(request->method, "node.status");
  EXPECT_EQ(request->params["x"], 1);
  EXPECT_TRUE(parse_request(R"({"jsonrpc":"2.0","id":"a","method":"node.status"})")->params.empty());
}

TEST(JsonRpc, RefusesEachKindOfNonsenseWithTheCodeOfTheStandard) {
  const std::pair<std::string, RpcCode> cases[] = {
      {"{", RpcCode::parse_error},
      {"\xff\xfe", RpcCode::parse_error},
      {std::string(100000, '['), RpcCode::parse_error},
      {"[]", RpcCode::invalid_request},
      {"1", RpcCode::invalid_request},
      {R"({"jsonrpc":"2.0","method":"x"})", RpcCode::invalid_request},
      {R"({"jsonrpc":"2.0","id":{},"method":"x"})", RpcCode::invalid_request},
      {R"({"jsonrpc":"1.0","id":1,"method":"x"})", RpcCode::invalid_request},
      {R"({"id":1,"method":"x"})", RpcCode::invalid_request},
      {R"({"jsonrpc":"2.0","id":1})", RpcCode::invalid_request},
      {R"({"jsonrpc":"2.0","id":1,"method":5})", RpcCode::invalid_request},
      {R"({"jsonrpc":"2.0","id":1,"method":"x","params":[1]})", RpcCode::invalid_params},
  };
  for (const auto& [line, code] : cases) {
    const auto request = parse_request(line);
    ASSERT_FALSE(request) << line.substr(0, 80);
    EXPECT_EQ(request.error().error.code, code) << line.substr(0, 80);
  }
}

TEST(JsonRpc, AnErrorSaysItsCodeByName) {
  const RpcError error = to_rpc_error({make_error_code(engine::Errc::timed_out), "The partner did not answer."});
  const json answer = json::parse(answer_line("q", std::unexpected(error)));
  EXPECT_EQ(answer["id"], "q");
  EXPECT_EQ(answer["error"]["message"], "The partner did not answer.");
  EXPECT_EQ(answer["error"]["data"]["code"], "timed_out");
  EXPECT_EQ(errc_name(make_error_code(engine::Errc::resource_exhausted)), "resource_exhausted");
  EXPECT_EQ(errc_name(make_error_code(engine::Errc::not_serving)), "not_serving");
  EXPECT_EQ(errc_name(std::make_error_code(std::errc::no_space_on_device)), "io_error");
}

TEST(JsonRpc, LinesHoldNoNewlineWithinWhateverTheirText) {
  const std::string line = answer_line(1, json{{"text", "a\nb\xff"}});
  EXPECT_EQ(line.find('\n'), line.size() - 1);
}

const char* const kApply = R"({"revision": 17,
 "pair": {"id": "00112233-4455-6677-8899-aabbccddeeff", "name": "pair1"},
 "node": {"side": "a", "id": "10112233-4455-6677-8899-aabbccddeeff", "name": "node-a"},
 "target": {"name": "iqn.2026-11.io.lockstep:pair1", "portals": ["127.0.0.11:3260", "[::1]:3260"], "discovery_auth": null},
 "partner": {"name": "node-b", "portals": ["127.0.0.12:3260"],
             "link": {"listen": "127.0.0.11:3261", "connect": "127.0.0.12:3261",
                      "chap_user": "u", "chap_secret": "s", "mutual_user": "m", "mutual_secret": "t"}},
 "arbiter": {"kind": "witness", "endpoints": ["http://127.0.0.10:2379", "http://127.0.0.9:2379"]},
 "settings": {"lease_ms": 1500, "resync_floor": 8388608, "resync_ceiling": 0},
 "volumes": [{"id": "20112233-4455-6677-8899-aabbccddeeff", "name": "vm1", "serial": "LS01", "lun": 0, "size": 1073741824,
   "block_size": 512, "thin": true, "read_only": false, "write_cache": false, "mirrored": true,
   "data": "/v/vm1.data", "metadata": "/v/vm1.meta",
   "access": [{"initiator": "iqn.2026-11.x:host", "chap_user": "host", "chap_secret": "0123456789ab",
               "mutual_user": null, "mutual_secret": null}]}]})";

TEST(NodeApply, IsReadWithEverythingThatItSays) {
  const auto state = read_desired_state(json::parse(kApply));
  ASSERT_TRUE(state) << state.error().message;
  EXPECT_EQ(state->revision, 17u);
  EXPECT_EQ(state->side, engine::NodeSide::a);
  ASSERT_EQ(state->target.portals.size(), 2u);
  EXPECT_EQ(state->target.portals[1].to_string(), "[::1]:3260");
  ASSERT_TRUE(state->partner);
  EXPECT_EQ(state->partner->link.connect.to_string(), "127.0.0.12:3261");
  EXPECT_EQ(state->partner->link.authentication.mutual->secret, "t");
  EXPECT_EQ(state->arbiter.address, "http://127.0.0.10:2379,http://127.0.0.9:2379");
  ASSERT_EQ(state->volumes.size(), 1u);
  EXPECT_EQ(state->volumes[0].size, 1073741824u);
  EXPECT_EQ(state->volumes[0].access[0].authentication.chap->user, "host");
  EXPECT_FALSE(state->volumes[0].access[0].authentication.mutual);
}

TEST(NodeApply, IsReadWithTheLinksFurtherPathsInTheirOrder) {
  json params = json::parse(kApply);
  const json path = {{"listen", "127.0.0.11:3262"}, {"connect", "127.0.0.12:3262"}};
  const json last = {{"listen", "[::1]:3263"}, {"connect", "[::2]:3263"}, {"last_resort", true}};
  json& paths = params["partner"]["link"]["more_paths"] = {path, last};
  const auto state = read_desired_state(params);
  ASSERT_TRUE(state) << state.error().message;
  const auto& more = state->partner->link.more_paths;
  ASSERT_EQ(more.size(), 2u);
  EXPECT_EQ(more[0].listen.to_string(), "127.0.0.11:3262");
  EXPECT_EQ(more[0].connect.to_string(), "127.0.0.12:3262");
  EXPECT_FALSE(more[0].last_resort);
  EXPECT_EQ(more[1].connect.to_string(), "[::2]:3263");
  EXPECT_TRUE(more[1].last_resort);
  paths = {path, path, path, path};
  EXPECT_EQ(read_desired_state(params).error().field, "params.partner.link.more_paths");
  paths = {path, {{"listen", "127.0.0.11:3262"}}};
  EXPECT_EQ(read_desired_state(params).error().field, "params.partner.link.more_paths[1].connect");
}

TEST(NodeApply, IsReadWithWhatTheWitnessIsSpokenToWith) {
  json params = json::parse(kApply);
  params["arbiter"].update({{"ca", "c"}, {"certificate", "d"}, {"key", "k"}, {"user", "u"}, {"password", "p"}});
  const auto state = read_desired_state(params);
  ASSERT_TRUE(state) << state.error().message;
  EXPECT_EQ(state->witness_access, (replication::WitnessAccess{"c", "d", "k", "u", "p"}));
  params["arbiter"]["ca"] = std::string(replication::kMaxPem + 1, 'x');
  EXPECT_EQ(read_desired_state(params).error().field, "params.arbiter.ca");
}

TEST(WitnessTry, IsReadWithItsEndpoint) {
  const auto wanted = read_witness_try({{"endpoint", "https://10.0.0.1:2379"}, {"ca", "c"}});
  ASSERT_TRUE(wanted) << wanted.error().message;
  EXPECT_EQ(wanted->endpoint, "https://10.0.0.1:2379");
  EXPECT_EQ(wanted->access.ca, "c");
  EXPECT_TRUE(wanted->pair.is_nil());
  const std::string pair = "0f8fad5b-d9cb-469f-a165-70867728950e";
  EXPECT_EQ(read_witness_try({{"endpoint", "x"}, {"pair", pair}})->pair.to_string(), pair);
  EXPECT_EQ(read_witness_try({{"endpoint", "x"}, {"pair", "p"}}).error().field, "params.pair");
  EXPECT_EQ(read_witness_try(json::object()).error().field, "params.endpoint");
  EXPECT_EQ(read_witness_try({{"endpoint", "x"}, {"pass", "p"}}).error().field, "params.pass");
}

// Changes one field of a good request and gives what is said about it.
RpcError refusal_of(const char* pointer, const json& value) {
  json params = json::parse(kApply);
  params[json::json_pointer(pointer)] = value;
  const auto state = read_desired_state(params);
  EXPECT_FALSE(state) << pointer << " = " << value;
  return state ? RpcError{} : state.error();
}

TEST(NodeApply, ABadFieldIsNamedByItsPathWithWhatWasExpected) {
  struct Case {
    const char* pointer;
    json value;
    const char* field;
    const char* expected;
  };
  const Case cases[] = {
      {"/revision", "x", "params.revision", "must be a whole number"},
      {"/revision", -1, "params.revision", "must be a whole number"},
      {"/pair/id", "nonsense", "params.pair.id", "must be a UUID"},
      {"/pair/id", "00000000-0000-0000-0000-000000000000", "params.pair.id", "must be a UUID"},
      {"/node/side", "c", "params.node.side", "one of \"a\", \"b\""},
      {"/target/name", "disk", "params.target.name", "iSCSI name"},
      {"/target/portals/1", "localhost:3260", "params.target.portals[1]", "an IP address and a port"},
      {"/target/portals/0", "127.0.0.1:0", "params.target.portals[0]", "an IP address and a port"},
      {"/target/portals", "127.0.0.1:1", "params.target.portals", "must be a list"},
      {"/partner/link", nullptr, "params.partner.link", "is missing"},
      {"/partner/link/chap_secret", nullptr, "params.partner.link.chap_secret", "go together"},
      {"/arbiter/kind", "coin", "params.arbiter.kind", "one of"},
      {"/arbiter/endpoints", json::array(), "params.arbiter.endpoints", "is empty"},
      {"/arbiter/changing", true, "params.arbiter.endpoints", "while none is to be asked"},
      {"/settings/lease_ms", 10, "params.settings.lease_ms", "from 500 to 60000"},
      {"/settings/other_lease_ms", 10, "params.settings.other_lease_ms", "0, or from 500 to 60000"},
      {"/volumes/0/size", 1000, "params.volumes[0].size", "from 4096"},
      {"/volumes/0/size", 4097, "params.volumes[0].size", "multiple of 4096"},
      {"/volumes/0/block_size", 1024, "params.volumes[0].block_size", "512 or 4096"},
      {"/volumes/0/thin", 1, "params.volumes[0].thin", "true or false"},
      {"/volumes/0/data", "relative", "params.volumes[0].data", "starts with /"},
      {"/volumes/0/data", "memory:", "params.volumes[0].data", "not mirrored"},
      {"/volumes/0/name", std::string(64, 'n'), "params.volumes[0].name", "longer than 63"},
      {"/volumes/0/access/0/initiator", 5, "params.volumes[0].access[0].initiator", "a string"},
      {"/volumes/0/sise", 5, "params.volumes[0].sise", "not a field"},
      {"/volumes/0", 5, "params.volumes[0]", "must be an object"},
  };
  for (const auto& [pointer, value, field, expected] : cases) {
    const RpcError error = refusal_of(pointer, value);
    EXPECT_EQ(error.code, RpcCode::invalid_params) << pointer;
    EXPECT_EQ(error.field, field);
    EXPECT_NE(error.message.find(expected), std::string::npos) << error.message;
    EXPECT_TRUE(error.message.starts_with(field)) << error.message;
  }
}

TEST(NodeApply, NeverShowsASecretInAnError) {
  const RpcError error = refusal_of("/volumes/0/access/0/chap_secret", std::string(300, 'S'));
  EXPECT_EQ(error.message.find("SS"), std::string::npos) << error.message;
}

TEST(NodeApply, NamesNoWitnessWhileItIsBeingChanged) {
  json params = json::parse(kApply);
  params["arbiter"] = {{"kind", "witness"}, {"endpoints", json::array()}, {"changing", true}};
  const auto state = read_desired_state(params);
  ASSERT_TRUE(state) << state.error().message;
  EXPECT_TRUE(state->witness_changing);
  EXPECT_EQ(state->arbiter.kind, engine::ArbiterKind::witness);
  EXPECT_EQ(state->arbiter.address, "");
}

TEST(WitnessForget, NamesThePairItsVolumesAndTheClusterThatIsLeftAlone) {
  const json good = {{"endpoint", "http://127.0.0.1:2379"},
                     {"pair", "11111111-1111-4111-8111-111111111111"},
                     {"volumes", {"22222222-2222-4222-8222-222222222222"}},
                     {"keep", "8e9e05c52164694d"}};
  const auto read = read_witness_forget(good);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->keep, 0x8e9e05c52164694du);
  EXPECT_EQ(read->volumes.size(), 1u);
  for (const auto& [field, bad] : {std::pair<const char*, json>{"keep", ""},
                                   {"keep", "0"},
                                   {"keep", "8e9x"},
                                   {"volumes", {"x"}},
                                   {"pair", "x"},
                                   {"endpoint", nullptr}}) {
    json wrong = good;
    wrong[field] = bad;
    EXPECT_FALSE(read_witness_forget(wrong)) << field << " " << bad.dump();
  }
}

TEST(NodeApply, AllowsANodeWithoutAPartner) {
  json params = json::parse(kApply);
  params["partner"] = nullptr;
  params["arbiter"] = {{"kind", "preferred"}, {"preferred", "b"}};
  params["volumes"][0]["mirrored"] = false;
  params["volumes"][0]["data"] = "memory:";
  const auto state = read_desired_state(params);
  ASSERT_TRUE(state) << state.error().message;
  EXPECT_FALSE(state->partner);
  EXPECT_EQ(state->arbiter.preferred, engine::NodeSide::b);
}

TEST(ReplicaCreate, IsReadAndItsSequencerMustBeAMember) {
  json params = {{"volume", "20112233-4455-6677-8899-aabbccddeeff"},
                 {"pair", "00112233-4455-6677-8899-aabbccddeeff"},
                 {"side", "b"},
                 {"name", "vm1"},
                 {"serial", "LS01"},
                 {"size", 1048576},
                 {"block_size", 4096},
                 {"data", "/v/x.data"},
                 {"metadata", "/v/x.meta"},
                 {"epoch", {{"id", "30112233-4455-6677-8899-aabbccddeeff"}, {"members", "both"}, {"sequencer", "a"}}},
                 {"arbiter", {{"kind", "preferred"}, {"preferred", "a"}}},
                 {"clean", true}};
  const auto create = read_replica_create(params);
  ASSERT_TRUE(create) << create.error().message;
  EXPECT_EQ(create->identity.owner, engine::NodeSide::b);
  EXPECT_EQ(create->epoch.number, 1u);
  EXPECT_EQ(create->epoch.size, 1048576u);
  EXPECT_TRUE(create->epoch.members.is_both());
  params["epoch"]["members"] = "b";
  EXPECT_EQ(read_replica_create(params).error().field, "params.epoch.sequencer");
}

json a_view() {
  return {{"record",
           {{"number", 7},
            {"epoch", "20112233-4455-6677-8899-aabbccddeeff"},
            {"members", 1},
            {"generations", {{"a", 12}, {"b", 11}}}}},
          {"mod_revision", 40},
          {"cluster", 18446744073709551615u},
          {"revision", 41},
          {"writes", 3},
          {"tampered", false}};
}

TEST(WitnessQuestion, IsReadWithTheWitnessThatIsMeant) {
  const auto read = read_witness_read({{"endpoints", {"http://10.0.0.1:2379", "http://10.0.0.2:2379"}}});
  ASSERT_TRUE(read);
  EXPECT_EQ(read->addresses, "http://10.0.0.1:2379,http://10.0.0.2:2379");
  const auto swap =
      read_witness_swap({{"endpoints", {"http://10.0.0.1:2379"}}, {"seen", a_view()}, {"record", a_view()["record"]}});
  ASSERT_TRUE(swap) << swap.error().message;
  EXPECT_EQ(swap->record.number, 7u);
  EXPECT_EQ(swap->record.members, engine::MemberSet::only(engine::NodeSide::a));
  EXPECT_EQ(swap->record.generations, (std::array<std::uint64_t, 2>{12, 11}));
  EXPECT_EQ(swap->seen.cluster, 18446744073709551615u);
  EXPECT_EQ(swap->seen.mod_revision, 40);
}

TEST(WitnessQuestion, WhatIsNotOneIsRefusedByTheFieldsName) {
  const json good{{"endpoints", {"http://10.0.0.1:2379"}}, {"seen", a_view()}, {"record", a_view()["record"]}};
  const std::pair<const char*, std::pair<const char*, json>> wrong[] = {
      {"params.endpoints", {"/endpoints", "http://10.0.0.1:2379"}},
      {"params.endpoints", {"/endpoints", json(std::vector<std::string>(17, "x"))}},
      {"params.seen", {"/seen", nullptr}},
      {"params.seen.writes", {"/seen/writes", -1}},
      {"params.seen.revision", {"/seen/revision", 9223372036854775808u}},
      {"params.seen.tampered", {"/seen/tampered", 0}},
      {"params.seen.record.members", {"/seen/record/members", 4}},
      {"params.record", {"/record", nullptr}},
      {"params.record.members", {"/record/members", 0}},
      {"params.record.number", {"/record/number", 0}},
      {"params.record.epoch", {"/record/epoch", "x"}},
      {"params.record.generations.b", {"/record/generations/b", nullptr}},
      {"params.record.more", {"/record/more", 1}},
      {"params.volume", {"/volume", "20112233-4455-6677-8899-aabbccddeeff"}},
  };
  for (const auto& [field, change] : wrong) {
    json params = good;
    params[json::json_pointer(change.first)] = change.second;
    const auto read = read_witness_swap(params);
    ASSERT_FALSE(read) << field;
    EXPECT_EQ(read.error().field, field);
  }
  EXPECT_EQ(read_witness_read(json::object()).error().field, "params.endpoints");
}

TEST(WitnessQuestion, IsAnsweredWithWhatStandsThereOrWithTheReason) {
  const auto asked = read_witness_swap({{"endpoints", {"x"}}, {"seen", a_view()}, {"record", a_view()["record"]}});
  ASSERT_TRUE(asked);
  const json answer = to_json(engine::IoResult<replication::WitnessView>(asked->seen));
  EXPECT_EQ(answer["view"], a_view());
  replication::WitnessView empty = asked->seen;
  empty.record.reset();
  EXPECT_TRUE(to_json(engine::IoResult<replication::WitnessView>(empty))["view"]["record"].is_null());
  const json won = to_json(engine::IoResult<replication::SwapOutcome>(replication::SwapOutcome{true, asked->seen}));
  EXPECT_EQ(won["won"], true);
  EXPECT_EQ(won["view"], a_view());
  using Outcome = engine::IoResult<replication::SwapOutcome>;
  const json unknown = to_json(Outcome(std::unexpected(make_error_code(engine::Errc::unknown_outcome))));
  EXPECT_TRUE(unknown["view"].is_null());
  using View = engine::IoResult<replication::WitnessView>;
  const json other = to_json(View(std::unexpected(make_error_code(engine::Errc::not_serving))));
  EXPECT_TRUE(other["view"].is_null());
  EXPECT_EQ(other["problem"], "lockstepd does not use this witness");
}

}  // namespace
}  // namespace lockstep::data_plane
