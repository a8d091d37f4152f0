// The API's description and what is shown of records agree, field by field: a new field that stands in one of them
// alone is named. (tests/e2e/rest checks each reply of real nodes, its values too.)
#include <algorithm>
#include <fstream>
#include <set>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "ui-api/rest/json_views.hpp"

namespace lockstep::ui_api {
namespace {

using nlohmann::json;

const json& description() {
  static const json whole = [] {
    std::ifstream file(DESCRIPTION_JSON);
    return json::parse(file);
  }();
  return whole;
}

const json& schema_of(const std::string& name) { return description().at("components").at("schemas").at(name); }

const json& resolved(const json& schema) {
  return schema.contains("$ref") ? description().at(json::json_pointer(schema.at("$ref").get<std::string>().substr(1)))
                                 : schema;
}

std::string type_of(const json& value) {
  if (value.is_boolean()) return "boolean";
  if (value.is_number_integer()) return "integer";
  return value.is_number() ? "number" : value.type_name();
}

bool may_be(const json& described, const std::string& type) {
  const json& schema = resolved(described);
  for (const char* several : {"oneOf", "allOf"})
    if (schema.contains(several))
      return std::ranges::any_of(schema.at(several), [&](const json& one) { return may_be(one, type); });
  const json types = schema.at("type").is_array() ? schema.at("type") : json::array({schema.at("type")});
  return std::ranges::any_of(types,
                             [&](const json& one) { return one == type || (one == "number" && type == "integer"); });
}

/// The described object or list that a value is, where null is the other possibility.
const json& what_it_is(const json& described) {
  const json& schema = resolved(described);
  return schema.contains("oneOf") ? resolved(schema.at("oneOf").at(0)) : schema;
}

void expect_agreement(const json& described, const json& shown, const std::string& where) {
  EXPECT_TRUE(may_be(described, type_of(shown)))
      << where << " is shown as " << shown << ", and lockstep.yaml has another type for it";
  const json& schema = what_it_is(described);
  if (shown.is_array())
    for (const auto& one : shown) expect_agreement(schema.at("items"), one, where + "[]");
  if (!shown.is_object()) return;
  const json& properties = schema.at("properties");
  for (const auto& [name, value] : shown.items()) {
    EXPECT_TRUE(properties.contains(name)) << where << "." << name << " is shown; lockstep.yaml does not describe it";
    if (properties.contains(name)) expect_agreement(properties.at(name), value, where + "." + name);
  }
  for (const auto& name : schema.at("required"))
    EXPECT_TRUE(shown.contains(name)) << where << "." << name << " is described in lockstep.yaml; nothing shows it";
}

/// Of what is shown always, every field has to be described as required.
void expect_shown_as_described(const std::string& name, const json& shown) {
  const json& schema = schema_of(name);
  for (const auto& [property, described] : schema.at("properties").items())
    EXPECT_TRUE(std::ranges::any_of(schema.at("required"), [&](const json& one) { return one == property; }))
        << name << "." << property << " is described in lockstep.yaml, but not as required";
  expect_agreement(schema, shown, name);
}

mgmt::Configuration configuration() {
  mgmt::Configuration c;
  c.pair.emplace();
  c.pair->created_ms = 1;
  c.pair->discovery = mgmt::Chap{"u", "s"};
  c.nodes.resize(2);
  c.nodes[0].portals = {"10.0.0.1:3260"};
  c.nodes[0].link_address = c.nodes[0].management_address = "10.0.0.1:1";
  c.nodes[1].side = mgmt::NodeSide::b;
  c.nodes[0].more_link_addresses = {"10.9.0.1:1"};
  c.nodes[1].more_link_addresses = {"10.9.0.2:1"};
  c.volumes.resize(1);
  c.volumes[0].created_ms = 1;
  c.volumes[0].access = {"iqn.2000-01.com.example:h1"};
  c.initiators = {{"iqn.2000-01.com.example:h1", mgmt::Chap{"u", "s"}, mgmt::Chap{"m", "s"}, 1}};
  return c;
}

mgmt::PairView view_of(const mgmt::Configuration& c) {
  mgmt::PairView view;
  view.configuration = std::make_shared<const mgmt::Configuration>(c);
  view.local_side = mgmt::NodeSide::a;
  for (std::size_t i = 0; i < c.nodes.size(); ++i) view.nodes[i].node = &view.configuration->nodes[i];
  mgmt::DataPlaneStatus status;
  status.version = "1";
  status.process = "p";
  status.partner_path = "tcp";
  status.partner_cipher = "TLS_AES_256_GCM_SHA384";
  status.witness_kind = "witness";
  status.witness_reachable = true;
  status.partner_connected = true;
  status.partner_since_ms = 1;
  status.partner_paths = {{.transport = "tcp", .state = "proven", .from = "10.9.0.1", .to = "10.9.0.2:1"}};
  status.partner_paths->front().cipher = "TLS_AES_256_GCM_SHA384";
  status.partner_paths->front().round_trip_us = 87;
  mgmt::CarriedStatus carried;
  carried.last_switch = {"tcp", 1, 1, "It was cut."};
  status.shards = {{.number = 0, .connected = true, .carried = carried}};
  if (!c.volumes.empty()) {
    mgmt::ReplicaStatus replica;
    replica.volume = c.volumes[0].id;
    replica.epoch = mgmt::EpochView{1, "e", "both", "a", "witness"};
    replica.resync_running = true;
    replica.resync_rate = 1;
    status.volumes = {replica};
  }
  status.sessions = {{"iqn.2000-01.com.example:h1", "10.0.0.2:1", "10.0.0.1:3260", "tcp", 1}};
  view.nodes[0].report.running = true;
  view.nodes[0].report.status = status;
  return view;
}

TEST(Description, AgreesWithWhatIsShownOfThePairItsNodesAndSessions) {
  const mgmt::PairView view = view_of(configuration());
  expect_shown_as_described("Pair", pair_json(view));
  expect_shown_as_described("Pair", pair_json(view_of({})));
  expect_shown_as_described("Witness", pair_witness_json(view));
  const json link = pair_link_json(view);
  expect_shown_as_described("PairLink", link);
  for (const auto& carrier : link["carriers"]) expect_shown_as_described("LinkCarrier", carrier);
  expect_shown_as_described("LinkSwitch", link["carriers"][0]["last_switch"]);
  ASSERT_EQ(link["paths"].size(), 2U);
  expect_shown_as_described("LinkPath", link["paths"][1]);
  for (const auto& end : link["paths"][1]["nodes"]) expect_shown_as_described("LinkPathEnd", end);
  EXPECT_EQ(link["paths"][1]["nodes"][0]["state"], "proven");
  for (const auto& node : view.nodes) expect_shown_as_described("Node", node_json(view, node));
  ASSERT_FALSE(sessions_json(view)["items"].empty());
  expect_shown_as_described("SessionList", sessions_json(view));
}

TEST(Description, AgreesWithWhatIsShownOfAVolumeAndItsReplicas) {
  const mgmt::PairView view = view_of(configuration());
  const json shown = volume_json(view, view.configuration->volumes[0]);
  ASSERT_EQ(shown["replicas"].size(), 2u);
  expect_shown_as_described("Volume", shown);
  for (const char* part : {"Replica", "Epoch", "Resync", "IoCounters"}) {
    const json& schema = schema_of(part);
    EXPECT_EQ(schema.at("properties").size(), schema.at("required").size()) << part << " has what is not required";
  }
}

TEST(Description, HasWhatMayBeAskedForOfAVolume) {
  std::set<std::string> asked = {"block_format", "name"};
  for (const auto& field : volume_wish_fields()) asked.insert(field);
  const auto expect_described = [&](const char* name) {
    std::set<std::string> described;
    for (const auto& [property, schema] : schema_of(name).at("properties").items()) described.insert(property);
    EXPECT_EQ(described, asked) << name;
  };
  asked.insert({"size_bytes", "block_size_bytes"});
  expect_described("VolumeCreate");
  asked.erase("size_bytes");
  asked.erase("block_size_bytes");
  asked.insert({"source", "initiator"});
  expect_described("VolumeImport");
}

TEST(Description, AgreesWithWhatIsShownOfHostsTokensJobsEventsAndHealth) {
  const mgmt::Configuration c = configuration();
  expect_shown_as_described("Initiator", initiator_json(c, c.initiators[0]));
  expect_shown_as_described("Token", token_json(mgmt::Token{{}, "t", "d", mgmt::Role::viewer, 1, 2}, 1, true));
  mgmt::Job job;
  job.created_ms = job.finished_ms = 1;
  expect_shown_as_described("Job", job_json(job));
  job.state = mgmt::JobState::failed;
  job.error = mgmt::Refusal{mgmt::RefusalKind::conflict, "No.", {{"/name", "Taken."}}};
  expect_shown_as_described("Job", job_json(job));
  job.state = mgmt::JobState::done;
  EXPECT_TRUE(job_json(job)["error"].is_null());
  expect_shown_as_described("Event",
                            event_json({.id = 1, .at_ms = 1, .kind = "k", .side = {}, .volume = {}, .message = "m"}));
  expect_shown_as_described("Health", health_json({mgmt::Verdict::degraded, "s", {mgmt::HealthProblem()}}));
}

// Secrets are hidden by name; this is what would be seen of one that was not.
TEST(Description, NothingThatIsShownIsASecret) {
  mgmt::Configuration c = configuration();
  c.volumes[0].import_secret = "hush-import";
  c.pair->link = {"u", "hush-link"};
  c.pair->seal = mgmt::SealSecrets{"hush-one", "hush-other"};
  c.pair->arbiter.access = {"ca", "certificate", "hush-key", "user", "hush-password"};
  c.initiators[0].chap = mgmt::Chap{"u", "hush-chap"};
  c.initiators[0].old = mgmt::OldCredentials{{"u", "hush-old"}, {}, 1};
  const mgmt::PairView view = view_of(c);
  for (const json& shown :
       {pair_json(view), pair_witness_json(view), nodes_json(view), volume_json(view, view.configuration->volumes[0]),
        initiator_json(c, c.initiators[0]), token_json(mgmt::Token{{}, "t", "hush", mgmt::Role::admin, 1, 2}, 1, true)})
    EXPECT_EQ(shown.dump().find("hush"), std::string::npos) << shown;
}

}  // namespace
}  // namespace lockstep::ui_api
