// When the paths to the partner are dialled again, over real sockets.
#include "mgmt/data_plane/partner_paths.hpp"
#include "replication/link/paths_target.hpp"
#include "tests/unit/replication_link/link_fixture.hpp"

namespace lockstep::data_plane {
namespace {

using namespace std::chrono_literals;
using engine::NodeSide;
using replication::Hello;

struct NoMirror final : replication::LinkEvents {
  void on_link_up() override { ++ups; }
  void on_link_down() override {}
  void on_inbound_up(std::uint64_t) override {}
  void on_inbound_down(std::uint64_t) override {}
  void on_request(std::uint64_t, replication::InboundRequest&) override {}
  void on_set_back() override { ++set_backs; }
  unsigned ups = 0, set_backs = 0;
};

Hello hello(NodeSide side, std::uint8_t process) {
  Hello said = replication::hello_of(side);
  said.versions = replication::kPartnerVersions;
  said.process.bytes[0] = process;
  return said;
}

/// Node B listens on two addresses, node A has a path to each.
class TwoPathsOut : public replication::OnAReactor {
 protected:
  static constexpr std::size_t kPaths = 2;

  void SetUp() override {
    OnAReactor::SetUp();
    run([this] { make_server(); });
  }
  void TearDown() override {
    hang_up();
    stop_server();
    stop_reactor();
  }

  void make_server() {
    target_ = std::make_unique<replication::PathsTarget>(reactor_, reserve_, hello(NodeSide::b, 100), partner_);
    iscsi_target::Target target;
    target.name = replication::link_name(replication::kPair, NodeSide::b);
    target.device_servers = {target_.get()};
    target.access = std::make_shared<iscsi_target::AccessList>(std::vector<iscsi_target::AccessList::Entry>{
        {replication::link_name(replication::kPair, NodeSide::a), replication::credentials()}});
    target.discoverable = false;
    registry_.put(std::move(target));
    iscsi_target::ServerOptions options;
    options.session.brings_buffers = false;
    options.session.queue_depth = iscsi_target::kMaxQueueDepth;
    options.session.max_stash = std::size_t{iscsi_target::kMaxQueueDepth} * replication::kLinkFirstBurst;
    server_ = std::make_unique<iscsi_target::TargetServer>(
        std::vector<iscsi_target::ServerReactor>{{&reactor_, &buffers_}}, registry_, options);
  }
  void stop_server() {
    std::promise<void> stopped;
    server_->stop([&] { stopped.set_value(); });
    stopped.get_future().get();
    run([this] { target_.reset(); });
    server_.reset();
  }
  /// On addresses that are free, or on those of before.
  void listen() {
    for (std::size_t path = 0; path < kPaths; ++path) {
      auto& address = addresses_.at(path);
      const auto listens = server_->listen(address.empty() ? "127.0.0." + std::to_string(path + 1) + ":0" : address);
      ASSERT_TRUE(listens) << listens.error().message;
      address = *listens;
    }
  }

  [[nodiscard]] std::vector<PathPlan> plans(std::array<engine::Duration, kPaths> pauses,
                                            engine::Duration longest) const {
    std::vector<PathPlan> all(kPaths);
    for (std::size_t path = 0; path < kPaths; ++path) {
      all[path].settings.identity.ours = hello(NodeSide::a, process_);
      all[path].settings.identity.chap = replication::credentials();
      all[path].settings.address = addresses_.at(path);
      all[path].settings.first_retry = pauses.at(path);
      all[path].settings.last_retry = std::max(pauses.at(path), longest);
    }
    return all;
  }
  /// As a process of node A's with that number.
  void call(std::uint8_t process, std::array<engine::Duration, kPaths> pauses = {50ms, 50ms},
            engine::Duration longest = 1000ms) {
    hang_up();
    run([&] {
      process_ = process;
      dialled_ = {};
      paths_ = std::make_unique<PartnerPaths>(reactor_, random_, hello(NodeSide::a, process));
      (void)paths_->use(plans(pauses, longest));
      paths_->start(mirror_, [this](const std::string& name, const auto&) { ++dialled_.at(name.empty() ? 0 : 1); });
    });
  }
  void hang_up() {
    run([this] {
      if (paths_) paths_->stop();
      paths_.reset();
    });
  }
  [[nodiscard]] bool both_join() {
    return eventually([this] {
      return std::ranges::all_of(paths_->report(),
                                 [](const PathReport& path) { return path.state >= PathReport::State::proving; });
    });
  }

  engine::SystemRandom random_;
  engine::BufferPool buffers_{std::size_t{iscsi_target::kMaxQueueDepth} * replication::kLinkFirstBurst};
  engine::BufferPool reserve_{64 << 20};
  iscsi_target::TargetRegistry registry_;
  std::unique_ptr<replication::PathsTarget> target_;
  std::unique_ptr<iscsi_target::TargetServer> server_;
  std::array<std::string, kPaths> addresses_;
  NoMirror mirror_, partner_;
  std::uint8_t process_ = 0;
  std::array<unsigned, PartnerPaths::kPaths> dialled_{};  ///< how often each stood
  std::unique_ptr<PartnerPaths> paths_;
};

TEST_F(TwoPathsOut, PauseAfterEachAttemptWhereThePartnerLetsNoneIn) {
  run([this] { listen(); });
  for (const std::uint8_t process : {1, 2}) {
    call(process);
    ASSERT_TRUE(both_join());
  }
  const unsigned ups = run([this] { return mirror_.ups; });
  const auto begun = std::chrono::steady_clock::now();
  // It was replaced: each join is refused, for ever. The paths' pauses differ, so that one stands while the other
  // waits.
  call(1, {50ms, 70ms});
  ASSERT_TRUE(eventually([this] { return dialled_[0] >= 5 || dialled_[1] >= 5; }));
  EXPECT_GE(std::chrono::steady_clock::now() - begun, 50ms + 100ms + 200ms + 400ms);
  EXPECT_EQ(run([this] { return mirror_.ups; }), ups);
  call(1, {20ms, 20ms}, 20ms);
  EXPECT_TRUE(eventually([this] { return mirror_.set_backs > 0; })) << "lockstepd is told, and ends";
}

TEST_F(TwoPathsOut, AreDialledAtOnceWhenThePartnerLetsOneIn) {
  run([this] { listen(); });  // for addresses on which nobody listens then
  stop_server();
  run([this] { make_server(); });
  call(1, {50ms, 1h});
  ASSERT_TRUE(eventually([this] {
    return std::ranges::none_of(paths_->report(), [](const PathReport& path) { return path.problem.empty(); });
  }));
  run([this] { listen(); });
  EXPECT_TRUE(both_join()) << "the second one waits for an hour";
}

}  // namespace
}  // namespace lockstep::data_plane
