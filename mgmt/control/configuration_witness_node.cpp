#include "mgmt/control/configuration_witness_node.hpp"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "mgmt/control/job_steps.hpp"
#include "mgmt/control/secrets.hpp"

namespace lockstep::mgmt {

using nlohmann::json;
using replication::WitnessRecord;
using replication::WitnessView;

namespace {

constexpr auto kWitnessPatience = std::chrono::seconds(20);  // over a slow line; one that is lost is told at once
/// A job that has not ended by then may never do, if this node is not let go on any more.
constexpr auto kAtWorkAlone = std::chrono::milliseconds(180'000);
constexpr const char* kKnownKey = "configuration.witness";

json json_of(const WitnessRecord& record) {
  return {{"number", record.number},
          {"epoch", record.epoch.to_string()},
          {"members", record.members.bits},
          {"generations", {{"a", record.generations[0]}, {"b", record.generations[1]}}}};
}

Uuid uuid(const json& j) { return Uuid::parse(j.get<std::string>()).value_or(Uuid{}); }

WitnessRecord record_of(const json& j) {
  const json& reached = j.at("generations");
  return {j.at("number"),
          uuid(j.at("epoch")),
          {j.at("members").get<std::uint8_t>()},
          {reached.at("a").get<std::uint64_t>(), reached.at("b").get<std::uint64_t>()}};
}

json json_of(const WitnessView& view) {
  return {{"record", view.record ? json_of(*view.record) : json()},
          {"mod_revision", view.mod_revision},
          {"cluster", view.cluster},
          {"revision", view.revision},
          {"writes", view.writes},
          {"tampered", view.tampered}};
}

WitnessView view_of(const json& j) {
  WitnessView view;
  if (!j.at("record").is_null()) view.record = record_of(j.at("record"));
  view.mod_revision = j.at("mod_revision");
  view.cluster = j.at("cluster");
  view.revision = j.at("revision");
  view.writes = j.at("writes");
  view.tampered = j.at("tampered");
  return view;
}

}  // namespace

ConfigurationKnowledge NodeWitnessSurroundings::known(const engine::Uuid& pair) {
  ConfigurationKnowledge known;
  const auto kept = core_.settings.get(kKnownKey);
  const json j = json::parse(kept.value_or("null"));
  if (j.is_null() || uuid(j.at("pair")) != pair) return known;
  known.partner_knows_epochs = j.at("partner_knows_epochs");
  known.partner_reads = j.value("partner_reads", 0);  // an earlier version did not keep it
  known.reached = j.at("reached");
  known.witness.witness_cluster = j.at("cluster");
  known.witness.witness_revision = j.at("revision");
  known.witness.witness_repairs = j.at("repairs");
  known.witness.record_number = j.at("number");
  known.witness.record_members.bits = j.at("members");
  known.witness.record_epoch = uuid(j.at("epoch"));
  return known;
}

void NodeWitnessSurroundings::keep(const engine::Uuid& pair, const ConfigurationKnowledge& known) {
  if (known == this->known(pair)) return;
  core_.settings.set(kKnownKey, json{{"pair", pair.to_string()},
                                     {"partner_knows_epochs", known.partner_knows_epochs},
                                     {"partner_reads", known.partner_reads},
                                     {"reached", known.reached},
                                     {"cluster", known.witness.witness_cluster},
                                     {"revision", known.witness.witness_revision},
                                     {"repairs", known.witness.witness_repairs},
                                     {"number", known.witness.record_number},
                                     {"members", known.witness.record_members.bits},
                                     {"epoch", known.witness.record_epoch.to_string()}}
                                    .dump());
}

// The endpoints go along, so that a lockstepd that was not told yet of another witness does not ask the one of before.
Outcome<WitnessView> NodeWitnessSurroundings::read(const Arbiter& witness) {
  const auto answer = data_plane_.call("witness.read", json{{"endpoints", witness.endpoints}}.dump(), kWitnessPatience);
  if (!answer) return std::unexpected(answer.error());
  try {
    const json j = json::parse(*answer);
    if (!j.at("view").is_null()) return view_of(j.at("view"));
    return refuse(RefusalKind::not_current, j.at("problem").get<std::string>());
  } catch (const std::exception& e) {
    return refuse(RefusalKind::internal, std::string("lockstepd's answer can't be read: ") + e.what());
  }
}

WitnessSurroundings::Swapped NodeWitnessSurroundings::swap(const Arbiter& witness, const WitnessView& seen,
                                                           const WitnessRecord& record) {
  const json wanted{{"endpoints", witness.endpoints}, {"seen", json_of(seen)}, {"record", json_of(record)}};
  const auto answer = data_plane_.call("witness.swap", wanted.dump(), kWitnessPatience);
  if (!answer) return {};
  try {
    const json j = json::parse(*answer);
    if (j.at("view").is_null()) return {};
    return {true, j.at("won"), view_of(j.at("view"))};
  } catch (const std::exception&) {
    return {};
  }
}

void NodeWitnessSurroundings::tell(const std::string& kind, Severity severity, const std::string& message) {
  core_.events.append({.kind = kind, .severity = severity, .side = {}, .volume = {}, .message = message});
}

bool NodeWitnessSurroundings::is_at_work_alone() {
  return std::ranges::any_of(core_.jobs.unfinished(), [this](const Job& job) {
    return job.runner == core_.node_id && is_alone(job) && age_ms(job.created_ms) < kAtWorkAlone.count();
  });
}

}  // namespace lockstep::mgmt
