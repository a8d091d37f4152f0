#include "mgmt/control/witness_check.hpp"

#include <algorithm>
#include <future>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "mgmt/control/desired_state.hpp"
#include "mgmt/control/validation.hpp"

namespace lockstep::mgmt {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

constexpr auto kWitnessTrialPatience = 20s;  // lockstepd itself gives an endpoint 16 s
constexpr std::size_t kRecordBytes = 255;    // of an epoch record, for all endpoints with a comma between them

EndpointTrial try_endpoint(DataPlane& data_plane, const Uuid& pair, const std::string& endpoint,
                           const replication::WitnessAccess& access, bool& away) {
  const auto answer = data_plane.call("witness.try", try_parameters(endpoint, access, pair), kWitnessTrialPatience);
  away = !answer && answer.error().kind == RefusalKind::data_plane_away;
  if (!answer) {
    std::string why = answer.error().detail;
    if (why.ends_with('.')) why.pop_back();
    return {endpoint, false, true, why, ""};
  }
  const json found = json::parse(*answer, nullptr, false);
  if (!found.is_object()) return {endpoint, false, false, "lockstepd's answer cannot be read", ""};
  return {endpoint, found.value("answers", false), found.value("refused", false), found.value("problem", ""),
          found.value("cluster", "")};
}

void check_endpoints(const std::vector<std::string>& endpoints, std::vector<FieldProblem>& problems) {
  std::size_t total = 0;
  for (std::size_t i = 0; i < endpoints.size(); ++i) {
    total += endpoints[i].size() + (i > 0 ? 1 : 0);
    if (const auto complaint = check_endpoint(endpoints[i]))
      problems.push_back({fmt::format("/arbiter/endpoints/{}", i), *complaint});
  }
  if (total > kRecordBytes)
    problems.push_back({"/arbiter/endpoints", "Must be at most 255 characters together, with a comma between them."});
}

}  // namespace

std::vector<FieldProblem> problems_of(const Arbiter& arbiter) {
  std::vector<FieldProblem> problems;
  if (!arbiter.witness) {
    if (!arbiter.endpoints.empty()) problems.push_back({"/arbiter/endpoints", "Belongs to the kind witness."});
    const auto& access = arbiter.access;
    for (const auto& [field, text] : {std::pair<const char*, const std::string&>{"ca", access.ca},
                                      {"certificate", access.certificate},
                                      {"key", access.key},
                                      {"user", access.user},
                                      {"password", access.password}})
      if (!text.empty()) problems.push_back({fmt::format("/arbiter/{}", field), "Belongs to the kind witness."});
    return problems;
  }
  if (arbiter.endpoints.empty()) problems.push_back({"/arbiter/endpoints", "Is required for a witness."});
  check_endpoints(arbiter.endpoints, problems);
  if (!problems.empty()) return problems;
  for (const auto& problem : replication::problems_of(arbiter.endpoints, arbiter.access))
    problems.push_back({fmt::format("/arbiter/{}", problem.field), problem.message});
  return problems;
}

Outcome<WitnessTrial> try_endpoints(DataPlane& data_plane, const Uuid& pair, const Arbiter& arbiter) {
  struct Asked {
    EndpointTrial trial;
    bool away = false;
  };
  std::vector<std::future<Asked>> all;
  for (const auto& endpoint : arbiter.endpoints)
    all.push_back(std::async(std::launch::async, [&data_plane, &pair, &arbiter, endpoint] {
      Asked asked;
      asked.trial = try_endpoint(data_plane, pair, endpoint, arbiter.access, asked.away);
      return asked;
    }));
  WitnessTrial trial;
  bool away = false;
  for (auto& one : all) {
    Asked asked = one.get();
    away = away || asked.away;
    trial.push_back(std::move(asked.trial));
  }
  if (away) return refuse(RefusalKind::data_plane_away, trial.front().problem);
  return trial;
}

std::string to_json_text(const WitnessTrial& trial) {
  json list = json::array();
  for (const auto& t : trial)
    list.push_back({{"endpoint", t.endpoint},
                    {"answers", t.answers},
                    {"refused", t.refused},
                    {"problem", t.problem},
                    {"cluster", t.cluster}});
  return list.dump(-1, ' ', false, json::error_handler_t::replace);
}

Outcome<WitnessTrial> witness_trial_from(std::string_view text) {
  try {
    WitnessTrial trial;
    for (const auto& t : json::parse(text))
      trial.push_back({t.at("endpoint"), t.at("answers"), t.at("refused"), t.at("problem"), t.at("cluster")});
    return trial;
  } catch (const std::exception& e) {
    return refuse(RefusalKind::malformed, fmt::format("The partner's answer cannot be read: {}.", e.what()));
  }
}

namespace {

/// The first endpoint that told of its cluster, and whatever is told of another one.
struct OneCluster {
  std::string id, endpoint;

  std::optional<std::string> refusal_of(const EndpointTrial& t) {
    if (t.cluster.empty()) return std::nullopt;
    if (id.empty()) {
      id = t.cluster;
      endpoint = t.endpoint;
    }
    if (t.cluster == id) return std::nullopt;
    return fmt::format(
        "It is of another etcd cluster ({}) than {} ({}): a witness is one cluster, or both nodes could "
        "go on.",
        t.cluster, endpoint, id);
  }
};

}  // namespace

Outcome<void> try_witness(DataPlane& data_plane, const Uuid& pair, const Arbiter& arbiter) {
  if (!arbiter.witness) return {};
  const auto trial = try_endpoints(data_plane, pair, arbiter);
  if (!trial) return {};
  std::vector<FieldProblem> problems;
  OneCluster one;
  for (std::size_t i = 0; i < trial->size(); ++i) {
    const EndpointTrial& t = (*trial)[i];
    auto refused = one.refusal_of(t);
    if (t.refused) refused = fmt::format("The witness was asked: {}.", t.problem);
    if (refused) problems.push_back({fmt::format("/arbiter/endpoints/{}", i), *refused});
  }
  if (problems.empty()) return {};
  return refuse(RefusalKind::invalid, "The pair was not made: the witness cannot be used like this.",
                std::move(problems));
}

std::vector<FieldProblem> problems_of(const std::vector<NodeTrial>& trials) {
  std::vector<FieldProblem> problems;
  OneCluster one;
  for (const auto& [node, trial] : trials) {
    const bool reached = std::ranges::any_of(trial, &EndpointTrial::answers);
    for (std::size_t i = 0; i < trial.size(); ++i) {
      const EndpointTrial& t = trial[i];
      auto refused = one.refusal_of(t);
      if (t.refused || (!t.answers && !reached))
        refused = t.problem;
      else if (t.answers && t.cluster.empty())
        refused = "what answers there does not tell which etcd it is; is lockstepd there of an older version?";
      if (refused) problems.push_back({fmt::format("/endpoints/{}", i), fmt::format("{}: {}", node, *refused)});
    }
  }
  return problems;
}

std::string cluster_of(const WitnessTrial& trial) {
  std::string id;
  for (const auto& t : trial) {
    if (!id.empty() && !t.cluster.empty() && t.cluster != id) return {};
    if (!t.cluster.empty()) id = t.cluster;
  }
  return id;
}

}  // namespace lockstep::mgmt
