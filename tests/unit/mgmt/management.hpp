#pragma once
// One node's management over a lockstepd in memory, for tests that take its turns.
#include <chrono>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "mgmt/control/import_jobs.hpp"
#include "mgmt/control/pair_service.hpp"
#include "mgmt/control/reconciler.hpp"
#include "mgmt/control/volume_jobs.hpp"
#include "mgmt/control/volume_service.hpp"
#include "tests/unit/mgmt/fake_data_plane.hpp"
#include "tests/unit/mgmt/temporary_folder.hpp"

namespace lockstep::mgmt {

// One node's management without its threads: the test takes the turns.
struct Management {
  explicit Management(const std::filesystem::path& folder, test::FakeDataPlane& plane, std::chrono::seconds patience)
      : core(open(folder, patience)),
        agent(*core, plane),
        reconciler(
            plane, core->events, [this] { return wanted(); }, [this] { return core->side(); }),
        runner(*core),
        jobs(
            *core, agent,
            [this] {
              return PairReports{reconciler.report(), {}, false};
            },
            [] {}, [this](const Volume&, NodeSide) { return unserved; }),
        imports(*core, jobs),
        pair(*core, runner, agent, plane),
        volumes(
            *core, runner, []() -> Outcome<void> { return {}; }, {}, {},
            [this](const Volume&, NodeSide) { return unserved; }) {
    jobs.teach(runner);
    imports.teach(runner);
  }

  static std::unique_ptr<NodeCore> open(const std::filesystem::path& folder, std::chrono::seconds patience) {
    LocalSettings local;
    local.data_folder = folder / "mgmt";
    local.volume_folder = folder / "volumes";
    local.node_name = "node-a";
    local.portals = {};  // the pair was made with its own
    local.link_address = "127.0.0.1:3261";
    local.management_address = "127.0.0.1:8443";
    local.create_patience = patience;
    auto core = NodeCore::open(local);
    if (!core) throw std::runtime_error(core.error().message);
    return std::move(*core);
  }
  std::optional<WantedState> wanted() {
    if (!core->side()) return std::nullopt;
    const auto n = core->revisions.state().head.n;
    return WantedState{n, apply_parameters(*core->configuration(), n, NodeSide::a, core->local.volume_folder)};
  }
  void make_pair() {
    const auto made = pair.create({.name = "pair1",
                                   .target_name = "",
                                   .node = {.name = {},
                                            .portals = std::vector<std::string>{"127.0.0.1:3260"},
                                            .link_address = {},
                                            .management_address = {}},
                                   .arbiter = {},
                                   .settings = {}});
    ASSERT_TRUE(made) << made.error().detail;
  }
  void turns(int n = 6) {
    for (int i = 0; i < n; ++i) {
      reconciler.turn();
      runner.turn();
    }
  }
  Job job(const Uuid& id) { return core->jobs.get(id).value_or(Job{}); }

  Outcome<void> unserved;  ///< by the node beside one that is to be forced
  std::unique_ptr<NodeCore> core;
  ReplicaAgent agent;
  Reconciler reconciler;
  JobRunner runner;
  VolumeJobs jobs;
  ImportJobs imports;
  PairService pair;
  VolumeService volumes;
};

class ManagementTest : public ::testing::Test {
 protected:
  test::TemporaryFolder folder_;
  test::FakeDataPlane plane_;
  std::chrono::seconds patience_{60};
  std::unique_ptr<Management> node_;

  void SetUp() override {
    restart();
    node_->make_pair();
  }
  void restart() {
    node_.reset();
    node_ = std::make_unique<Management>(folder_.path(), plane_, patience_);
  }
  Job make_volume(const char* name = "vm1") {
    const auto job = node_->volumes.create({.name = name, .size = 1 << 30, .access = {}});
    EXPECT_TRUE(job) << job.error().detail;
    return job.value_or(Job{});
  }
};

}  // namespace lockstep::mgmt
