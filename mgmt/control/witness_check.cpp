#include "mgmt/control/witness_check.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "mgmt/control/desired_state.hpp"
#include "mgmt/control/validation.hpp"

namespace lockstep::mgmt {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

constexpr auto kPatience = 8s;             // lockstepd itself gives an endpoint half of it
constexpr std::size_t kRecordBytes = 255;  // of an epoch record, for all endpoints with a comma between them

// Nothing when it may be the witness.
std::optional<std::string> refusal_of(const std::string& answer) {
  const json found = json::parse(answer, nullptr, false);
  if (!found.is_object() || found.value("answers", true) || !found.value("refused", false)) return std::nullopt;
  return fmt::format("The witness was asked: {}.", found.value("problem", ""));
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

Outcome<void> try_witness(DataPlane& data_plane, const Arbiter& arbiter) {
  if (!arbiter.witness) return {};
  std::vector<FieldProblem> problems;
  for (std::size_t i = 0; i < arbiter.endpoints.size(); ++i) {
    const auto answer = data_plane.call("witness.try", try_parameters(arbiter.endpoints[i], arbiter.access), kPatience);
    if (!answer && answer.error().kind == RefusalKind::data_plane_away) return {};
    const auto refused = answer ? refusal_of(*answer) : answer.error().detail;
    if (refused) problems.push_back({fmt::format("/arbiter/endpoints/{}", i), *refused});
  }
  if (problems.empty()) return {};
  return refuse(RefusalKind::invalid, "The pair was not made: the witness cannot be used like this.",
                std::move(problems));
}

}  // namespace lockstep::mgmt
