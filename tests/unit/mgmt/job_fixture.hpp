#pragma once
// A node of a pair whose jobs are real, for tests that play what the jobs deal with: both lockstepds, and the partner.
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "mgmt/control/job_steps.hpp"
#include "mgmt/control/pair_members.hpp"
#include "mgmt/control/secrets.hpp"
#include "tests/unit/mgmt/ready_volume.hpp"
#include "tests/unit/mgmt/temporary_folder.hpp"

namespace lockstep::mgmt::test {

using lockstep::test::TemporaryFolder;

/// Side A, "node-a".
class JobTest : public ::testing::Test {
 protected:
  /// As after a start of lockstep-mgmtd, or a kill: what was in memory is gone. The jobs are taught anew.
  void open_core() {
    runner_.reset();
    core_.reset();
    LocalSettings local;
    local.data_folder = folder_->path() / "mgmt";
    local.volume_folder = folder_->path() / "volumes";
    local.node_name = "node-a";
    local.management_address = "127.0.0.1:8443";
    local.create_patience = patience_;
    auto core = NodeCore::open(local);
    ASSERT_TRUE(core) << core.error().message;
    core_ = std::move(*core);
    runner_ = std::make_unique<JobRunner>(*core_, [](const Job&) { return true; });
  }
  /// A pair of two nodes; `rest` is what else it has, or has otherwise.
  void make_pair(const std::function<void(Configuration&)>& rest = [](Configuration&) {}) {
    edit([&](Configuration& c) {
      c.pair = Pair{};
      c.pair->id = random_uuid();
      c.pair->name = "pair1";
      c.nodes = {{core_->node_id, NodeSide::a, "node-a", {}, "", "", ""},
                 {random_uuid(), NodeSide::b, "node-b", {}, "", "", ""}};
      rest(c);
    });
  }
  /// One whose saved copy can be read.
  void make_whole_pair() {
    make_pair([](Configuration& c) {
      c.pair->target_name = "iqn.2026-11.io.lockstep:pair1";
      make_link_secrets(*c.pair);
      for (auto& node : c.nodes) {
        node.portals = {"127.0.0.1:3260"};
        node.link_address = "127.0.0.1:3261";
        node.management_address = "127.0.0.1:8443";
      }
    });
  }
  void edit(const std::function<void(Configuration&)>& how) {
    const auto changed = core_->revisions.change(
        "A test's own",
        [&](Configuration& c) -> Outcome<void> {
          how(c);
          return {};
        },
        nullptr);
    ASSERT_TRUE(changed) << changed.error().detail;
  }
  /// As with a partner: without its answer nothing is changed.
  [[nodiscard]] Outcome<RevisionId> change_with(bool partner_answers, const std::string& summary,
                                                const Revisions::Edit& how) {
    if (!partner_answers) return away();
    return core_->revisions.change(summary, how, nullptr);
  }
  [[nodiscard]] static std::unexpected<Refusal> away() {
    return refuse(RefusalKind::not_current, "The partner cannot be reached.");
  }
  [[nodiscard]] Job job(const Uuid& id) const { return core_->jobs.get(id).value_or(Job{}); }

  std::unique_ptr<TemporaryFolder> folder_ = std::make_unique<TemporaryFolder>();
  std::chrono::seconds patience_{60};
  std::unique_ptr<NodeCore> core_;
  std::unique_ptr<JobRunner> runner_;
};

}  // namespace lockstep::mgmt::test
