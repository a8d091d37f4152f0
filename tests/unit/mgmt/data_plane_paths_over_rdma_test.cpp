// Which of the link's paths are tried over RDMA.
#include <gtest/gtest.h>

#include "engine/runtime/system_random.hpp"
#include "mgmt/data_plane/partner_paths.hpp"
#include "tests/support/rdma/fake_fabric.hpp"
#include "tests/unit/engine/tls_fixture.hpp"
#include "tests/unit/replication_link/link_fixture.hpp"

namespace lockstep::data_plane {
namespace {

struct NoMirror final : replication::LinkEvents {
  void on_link_up() override {}
  void on_link_down() override {}
  void on_inbound_up(std::uint64_t) override {}
  void on_inbound_down(std::uint64_t) override {}
  void on_request(std::uint64_t, replication::InboundRequest&) override {}
};

class PathsOverRdma : public replication::OnAReactor {
 protected:
  void SetUp() override {
    OnAReactor::SetUp();
    run([this] {
      fabric_.add_arena(messages_.arena());
      completions_ = fabric_.attach(reactor_);
      rdma_.emplace(fabric_, *completions_, messages_, memory_, figures_);
      paths_ = std::make_unique<PartnerPaths>(reactor_, random_, replication::hello_of(engine::NodeSide::a),
                                              "Partner link", &*rdma_);
    });
  }
  void TearDown() override {
    std::promise<void> stopped;
    run([&] { paths_->stop([&] { stopped.set_value(); }); });
    stopped.get_future().get();
    run([this] {
      paths_.reset();
      completions_.reset();
    });
    stop_reactor();
  }
  static PathPlan plan() {
    PathPlan plan;
    plan.settings.identity = {replication::hello_of(engine::NodeSide::a), replication::credentials()};
    plan.settings.address = "127.0.0.1:1";
    return plan;
  }
  bool is_tried(const PathPlan& plan) {
    return run([&] {
      (void)paths_->use({plan});
      return paths_->report().front().rdma.has_value();
    });
  }

  engine::SystemRandom random_;
  test::FakeFabric fabric_{reactor_, random_};
  engine::BufferPool messages_{64 << 20};
  iser::MessageMemory memory_{messages_};
  iser::Figures figures_;
  std::unique_ptr<rdma::Completions> completions_;
  std::optional<replication::LinkRdma> rdma_;
  NoMirror mirror_;
  std::unique_ptr<PartnerPaths> paths_;
};

TEST_F(PathsOverRdma, AreTriedWhetherTheLinkIsEncryptedOrNot) {
  EXPECT_TRUE(is_tried(plan()));
  PathPlan encrypted = plan();
  const auto own = engine::test::make_certificate();
  encrypted.settings.tls = engine::test::context_of(own, {own.fingerprint});
  EXPECT_TRUE(is_tried(encrypted));
}

TEST_F(PathsOverRdma, AreNotTriedWhereTheyAreOfLastResort) {
  PathPlan last = plan();
  last.last_resort = true;
  EXPECT_FALSE(is_tried(last));
}

TEST_F(PathsOverRdma, AMeasurementWithoutMemoryOfItsOwnSaysSo) {
  const auto copied = [this](bool over_rdma) {
    std::promise<bool> told;
    run([&] {
      const LinkTest which{.to = {"127.0.0.1", 1}, .over_rdma = over_rdma};
      EXPECT_TRUE(
          paths_->measure(which, [&](const replication::PathMeasured& found) { told.set_value(found.copied); }));
    });
    return told.get_future().get();
  };
  EXPECT_TRUE(is_tried(plan()));
  ASSERT_EQ(run([&] {
              paths_->start(mirror_, [](const std::string&, const replication::LinkWay&) {});
              return paths_->report().front().way.address;
            }),
            "127.0.0.1:1");
  EXPECT_FALSE(copied(true));
  std::vector<engine::Buffer> taken;
  run([&] {
    while (auto one = messages_.allocate(replication::kMaxLinkPayload)) taken.push_back(std::move(one));
  });
  EXPECT_TRUE(copied(true));
  EXPECT_FALSE(copied(false)) << "over TCP it always is the system's to copy";
}

}  // namespace
}  // namespace lockstep::data_plane
