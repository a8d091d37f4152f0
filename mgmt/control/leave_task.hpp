#pragma once
// What the steps of a leaving job work on; for the sources of LeaveJobs alone.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "mgmt/control/job_steps.hpp"
#include "mgmt/control/leave_jobs.hpp"
#include "mgmt/control/secrets.hpp"

namespace lockstep::mgmt {

/// A job with the configuration that is in force as its step begins.
struct LeaveJobs::Task {
  Job& job;
  std::shared_ptr<const Configuration> configuration;
  nlohmann::json parameters;

  [[nodiscard]] bool has_other() const { return parameters.contains("node"); }
  /// Who leaves, as it stood in the configuration.
  [[nodiscard]] Node node() const {
    const auto& j = parameters.at("node");
    Node n;
    n.id = Uuid::parse(j.at("id").get<std::string>()).value_or(Uuid{});
    n.side = j.at("side") == "a" ? NodeSide::a : NodeSide::b;
    n.name = j.at("name");
    n.management_address = j.at("management_address");
    n.fingerprint = j.at("fingerprint");
    return n;
  }
  [[nodiscard]] NodeSide side() const { return node().side; }
  [[nodiscard]] NodeSide stays() const { return engine::other(side()); }
  /// Of a dissolution: who asked for it has agreed to its end.
  [[nodiscard]] bool is_to_end(const Volume& volume) const {
    if (volume.lifecycle == Lifecycle::deleting) return true;  // by a word of its own, or this one's
    const auto agreed = parameters.value("volumes", std::vector<std::string>());
    return std::ranges::find(agreed, volume.id.to_string()) != agreed.end();
  }
  /// Of a dissolution: all volumes were marked, whether they are there still or not.
  [[nodiscard]] bool has_marked() const { return parameters.value(kHasMarked, false); }
  [[nodiscard]] bool lost() const { return parameters.value("lost", false); }
  /// False once it was decided that the node is out.
  [[nodiscard]] bool in_pair() const {
    const Node* n = configuration->node(side());
    return n && n->id == node().id;
  }
  [[nodiscard]] std::int64_t since_ms() const { return age_ms(parameters.value("step_since_ms", job.created_ms)); }
  void note(const std::string& sentence) {
    parameters["notes"] = parameters.value("notes", std::string()) + " " + sentence;
    job.parameters = parameters.dump();
  }
  [[nodiscard]] std::string notes() const { return parameters.value("notes", std::string()); }
  StepResult next(const char* step, double progress, std::string message) {
    parameters["step_since_ms"] = wall_clock_ms();
    job.parameters = parameters.dump();
    return move_on(job, step, progress, std::move(message));
  }
};

/// "one volume", "2 volumes".
inline std::string counted(std::size_t volumes) {
  return volumes == 1 ? "one volume" : fmt::format("{} volumes", volumes);
}
inline std::string volumes_of(const Configuration& configuration) { return counted(configuration.volumes.size()); }

}  // namespace lockstep::mgmt
