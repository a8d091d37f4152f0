#pragma once
// The whole command against a server that is played here.
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "ui-api/cli/run.hpp"

namespace lockstep::cli {

using nlohmann::json;
using testing::HasSubstr;

inline constexpr const char* kVolumeId = "5b0e9a52-6f8e-4a55-9d6e-0d5b7f0f8a11";

inline json volume() {
  return json::parse(
      R"({"id": "5b0e9a52-6f8e-4a55-9d6e-0d5b7f0f8a11", "name": "vm1", "size_bytes": 10737418240, "block_format": "512e", "block_size_bytes": 512,
    "thin": true, "access": ["iqn.2026-11.org.example:h1"], "serial": "5b0e", "lun": 3, "target_name": "iqn.2026-11.io.lockstep:pair1",
    "portals": [{"side": "a", "address": "10.0.0.11:3260"}, {"side": "b", "address": "10.0.0.12:3260"}], "lifecycle": "ready",
    "health": "degraded", "summary": "Served by node-a.", "created_at": "2026-11-21T08:01:00Z", "replicas": [
      {"side": "a", "node": "node-a", "state": "syncing_source", "serving": true, "access": "active_optimized", "failover_limited": false,
       "dirty_bytes": 536870912, "allocated_bytes": 2147483648, "reason": "",
       "epoch": {"number": 4, "id": "9f0b4d5e-1d57-4d54-8a1f-0d1f2e3c4b5a", "members": "a", "sequencer": "a"},
       "resync": {"running": true, "bytes_total": 1073741824, "bytes_done": 536870912, "bytes_per_second": 94371840, "seconds_left": 6},
       "io": {"reads": 1, "writes": 2, "read_bytes": 4096, "write_bytes": 8192}}]})");
}

/// Answers what a test laid out, in order, and keeps what was asked.
class PlayedServer final : public Transport {
 public:
  struct Script {
    std::vector<std::pair<std::string, Response>> answers;  ///< "METHOD target" and the answer
    std::vector<Request> asked;
    std::vector<std::string> streams;
  };
  explicit PlayedServer(Script& script) : script_(script) {}

  Outcome<Response> send(const Request& request) override {
    script_.asked.push_back(request);
    const std::size_t n = script_.asked.size() - 1;
    if (n >= script_.answers.size()) return fail(Exit::unreachable, "nothing more is played");
    EXPECT_EQ(request.method + " " + request.target, script_.answers[n].first);
    return script_.answers[n].second;
  }
  Outcome<std::optional<Response>> stream(const std::string&, const std::string& last,
                                          const std::function<bool(std::string_view)>& on_data) override {
    script_.asked.push_back({"STREAM", last, std::nullopt});
    if (script_.streams.empty())
      return Response{401, "application/problem+json", R"({"title": "Over", "status": 401, "detail": "Over."})"};
    const std::string body = script_.streams.front();
    script_.streams.erase(script_.streams.begin());
    on_data(body);
    return std::nullopt;
  }

 private:
  Script& script_;
};

class Run : public testing::Test {
 protected:
  void answer(const std::string& request, unsigned status, const json& body = nullptr) {
    script_.answers.emplace_back(request, Response{status, "application/json", body.is_null() ? "" : body.dump()});
  }
  void answer_volumes() { answer("GET /api/v1/volumes", 200, {{"items", json::array({volume()})}}); }
  static json job(const char* state, double progress = 0, json error = nullptr) {
    return {{"id", "j1"},
            {"kind", "volume.create"},
            {"state", state},
            {"progress", progress},
            {"message", std::string("It is ") + state + "."},
            {"error", std::move(error)},
            {"volume_id", kVolumeId}};
  }
  int run(std::vector<std::string> arguments, bool terminal = false, const std::string& typed = "") {
    std::istringstream in(typed);
    out_.str("");
    err_.str("");
    World world{in, out_, err_, terminal, {}, {}, {}};
    world.getenv = [](const char* name) -> std::optional<std::string> {
      if (std::string(name) == "LOCKSTEP_TOKEN") return "t";
      if (std::string(name) == "LOCKSTEP_CONFIG") return "/dev/null";
      return std::nullopt;
    };
    world.connect = [this](const Settings& settings) {
      settings_ = settings;
      return std::make_unique<PlayedServer>(script_);
    };
    world.sleep = [this](unsigned) { ++slept_; };
    return cli::run(arguments, std::move(world));
  }
  json sent(std::size_t n) const { return json::parse(script_.asked.at(n).body.value_or("null")); }

  PlayedServer::Script script_;
  std::ostringstream out_, err_;
  Settings settings_;
  int slept_ = 0;
};

}  // namespace lockstep::cli
