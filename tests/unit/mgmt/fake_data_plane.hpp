#pragma once
// A lockstepd in memory, for tests of management: it keeps replicas as disks would, and believes what it is told.
#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "mgmt/control/data_plane.hpp"

namespace lockstep::test {

class FakeDataPlane final : public mgmt::DataPlane {
 public:
  bool away = false;
  std::map<std::string, std::string> fail;  ///< method -> its sentence
  std::string problem;                      ///< of every volume in node.apply
  std::string state = "solo";
  std::string members;  ///< of each volume's epoch; "": none is told
  bool linked = false;  ///< to the partner
  std::string process = "p1";
  std::int64_t uptime_ms = 5;
  std::set<std::string> replicas;
  std::map<std::string, std::string> tried;  ///< endpoint -> what witness.try says is wrong with it; "": it is away
  nlohmann::json last_try;
  nlohmann::json witness_record;  ///< of the pair itself
  int witness_writes = 0;
  std::string witness_problem;   ///< why it does not answer
  nlohmann::json witness_asked;  ///< the parameters of the last swap
  nlohmann::json created;        ///< what the last replica.create was told
  nlohmann::json applied;
  std::vector<std::string> calls;

  mgmt::Outcome<std::string> call(const std::string& method, const std::string& parameters,
                                  std::chrono::milliseconds) override {
    const std::lock_guard lock(mutex_);
    if (away) return mgmt::refuse(mgmt::RefusalKind::data_plane_away, "lockstepd does not answer.");
    calls.push_back(method);
    if (const auto f = fail.find(method); f != fail.end()) return mgmt::refuse(mgmt::RefusalKind::conflict, f->second);
    const auto p = nlohmann::json::parse(parameters);
    if (method == "node.apply") return apply(p);
    if (method == "node.status") return status();
    if (method == "witness.try") return try_witness(p);
    if (method == "witness.read") return witness_view();
    if (method == "witness.swap") return swap_witness(p);
    if (method == "replica.create") {
      replicas.insert(p["volume"]);
      created = p;
    }
    if (method == "replica.delete") {
      if (attached(p["volume"])) return mgmt::refuse(mgmt::RefusalKind::conflict, "It is attached.");
      replicas.erase(p["volume"]);
    }
    return "{}";
  }
  [[nodiscard]] std::ptrdiff_t count(const std::string& method) const {
    return std::count(calls.begin(), calls.end(), method);
  }
  void restart(const std::string& new_process) {
    applied = nlohmann::json();
    process = new_process;
  }

 private:
  bool attached(const std::string& volume) const {
    if (!applied.is_object()) return false;
    for (const auto& v : applied["volumes"])
      if (v["id"] == volume) return true;
    return false;
  }
  std::string apply(const nlohmann::json& wanted) {
    applied = wanted;
    nlohmann::json problems = nlohmann::json::array();
    for (const auto& v : wanted["volumes"])
      if (!problem.empty())
        problems.push_back({{"object", "volume " + v["name"].get<std::string>()}, {"message", problem}});
    return nlohmann::json{{"revision", wanted["revision"]}, {"problems", problems}}.dump();
  }
  std::string try_witness(const nlohmann::json& p) {
    last_try = p;
    const auto at = tried.find(p["endpoint"]);
    const bool known = at != tried.end();
    return nlohmann::json{
        {"answers", !known}, {"refused", known && !at->second.empty()}, {"problem", known ? at->second : ""}}
        .dump();
  }
  // The record of the pair itself, at a witness that never loses anything.
  std::string witness_view() const {
    if (!witness_problem.empty())
      return nlohmann::json{{"view", nullptr}, {"won", false}, {"problem", witness_problem}}.dump();
    return nlohmann::json{{"view",
                           {{"record", witness_record},
                            {"mod_revision", witness_writes},
                            {"cluster", 1},
                            {"revision", witness_writes},
                            {"writes", witness_writes},
                            {"tampered", false}}},
                          {"won", true},
                          {"problem", ""}}
        .dump();
  }
  std::string swap_witness(const nlohmann::json& p) {
    witness_asked = p;
    if (!witness_problem.empty()) return witness_view();
    witness_record = p["record"];
    ++witness_writes;
    return witness_view();
  }
  std::string status() const {
    nlohmann::json volumes = nlohmann::json::array();
    nlohmann::json epoch;
    if (!members.empty())
      epoch = {{"number", 1},
               {"id", "9f0b4d5e-1d57-4d54-8a1f-0d1f2e3c4b5a"},
               {"members", members},
               {"sequencer", "a"},
               {"arbiter", "preferred_a"}};
    if (applied.is_object() && problem.empty())
      for (const auto& v : applied["volumes"])
        volumes.push_back({{"id", v["id"]},
                           {"state", state},
                           {"serving", true},
                           {"access", "active_optimized"},
                           {"epoch", epoch},
                           {"size", v["size"]}});
    return nlohmann::json{{"version", "0.1.0"},
                          {"process", process},
                          {"revision", applied.is_object() ? applied["revision"] : nlohmann::json(0)},
                          {"uptime_ms", uptime_ms},
                          {"partner", {{"connected", linked}}},
                          {"volumes", volumes}}
        .dump();
  }
  std::mutex mutex_;
};

}  // namespace lockstep::test
