// The end of lockstepd beside what hangs in the kernel: it comes, and says what it did not wait for.
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <future>
#include <optional>
#include <sstream>
#include <string>
#include <thread>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/runtime/system_random.hpp"
#include "engine/stores/descriptor.hpp"
#include "mgmt/data_plane/daemon.hpp"
#include "mgmt/data_plane/end_watch.hpp"
#include "mgmt/data_plane/instance_lock.hpp"
#include "mgmt/data_plane/node.hpp"
#include "mgmt/log/log.hpp"
#include "tests/support/ports/free_port.hpp"
#include "tests/unit/mgmt/temporary_folder.hpp"
#include "tests/unit/rdma/golden_trees.hpp"

namespace lockstep::data_plane {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

/// A device whose queues do not end.
class StuckFabric final : public rdma::Fabric {
  class Nothing final : public rdma::Completions {};

 public:
  ~StuckFabric() override {
    while (true) ::pause();
  }
  void add_arena(std::span<std::byte>) override {}
  void remove_arena(std::span<std::byte>) override {}
  [[nodiscard]] rdma::Registrations registrations() const override { return {}; }
  [[nodiscard]] std::unique_ptr<rdma::Completions> attach(engine::Reactor&) override {
    return std::make_unique<Nothing>();
  }
  [[nodiscard]] engine::Result<std::unique_ptr<rdma::Listener>> listen(
      rdma::Completions&, std::string_view, engine::Callback<std::unique_ptr<rdma::Call>>) override {
    return engine::fail(engine::Errc::refused, "Nobody calls.");
  }
  [[nodiscard]] std::unique_ptr<rdma::QueuePair> connect(rdma::Completions&, rdma::Domain, std::string_view,
                                                         std::string_view, const rdma::Wanted&,
                                                         std::span<const std::byte>, rdma::QueuePairUser&) override {
    return nullptr;
  }
};

engine::Result<std::unique_ptr<rdma::Fabric>> open_stuck_fabric() { return std::make_unique<StuckFabric>(); }
engine::Result<std::unique_ptr<rdma::Fabric>> open_nothing() {
  return engine::fail(engine::Errc::refused, "There is no RDMA.");
}

/// A lockstepd in a process of its own.
class ChildDaemon {
 public:
  explicit ChildDaemon(rdma::OpenFabric open_fabric) {
    child_ = ::fork();
    if (child_ == 0) run(open_fabric);
  }
  ~ChildDaemon() {
    if (child_ <= 0) return;
    (void)::kill(child_, SIGKILL);
    (void)::waitpid(child_, nullptr, 0);
  }
  ChildDaemon(const ChildDaemon&) = delete;
  ChildDaemon& operator=(const ChildDaemon&) = delete;

  [[nodiscard]] bool serves() const {
    return eventually(20s, [&] { return std::filesystem::exists(socket()); });
  }
  /// Its exit code; nothing: it did not end within that time.
  std::optional<int> stopped(std::chrono::seconds within) {
    (void)::kill(child_, SIGTERM);
    int status = 0;
    if (!eventually(within, [&] { return ::waitpid(child_, &status, WNOHANG) == child_; })) return std::nullopt;
    child_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  [[nodiscard]] std::string said() const {
    std::ostringstream text;
    text << std::ifstream(log()).rdbuf();
    return text.str();
  }
  [[nodiscard]] std::string socket() const { return (folder_.path() / "lockstepd.sock").string(); }

 private:
  [[nodiscard]] std::string log() const { return (folder_.path() / "log").string(); }
  template <class What>
  static bool eventually(std::chrono::seconds within, What what) {
    const auto limit = std::chrono::steady_clock::now() + within;
    while (!what()) {
      if (std::chrono::steady_clock::now() > limit) return false;
      std::this_thread::sleep_for(5ms);
    }
    return true;
  }
  [[noreturn]] void run(rdma::OpenFabric open_fabric) const {
    const int out = ::open(log().c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    (void)::dup2(out, STDERR_FILENO);
    mgmt::start_log("lockstepd", "info");
    Configuration configuration;
    configuration.rpc_socket = socket();
    configuration.state_folder = folder_.path().string();
    configuration.buffer_mib = configuration.link_buffer_mib = 16;
    auto daemon = Daemon::create(configuration, open_fabric);
    if (!daemon) {
      mgmt::log_error(daemon.error().message);
      mgmt::flush_log();
      ::_exit(2);
    }
    const int status = (*daemon)->run();
    daemon->reset();
    mgmt::flush_log();
    ::_exit(status);
  }

  test::TemporaryFolder folder_;
  pid_t child_ = -1;
};

TEST(DaemonEnd, BesideAnRdmaDeviceThatHangsComesAndGivesBackTheLock) {
  ChildDaemon daemon(open_stuck_fabric);
  ASSERT_TRUE(daemon.serves()) << daemon.said();
  EXPECT_EQ(daemon.stopped(20s), 0) << daemon.said();
  EXPECT_THAT(daemon.said(), HasSubstr("waits for RDMA devices whose queues are to end"));
  EXPECT_TRUE(InstanceLock::take(daemon.socket()));
}

TEST(DaemonEnd, ThatWaitsForNothingSaysNothing) {
  ChildDaemon daemon(open_nothing);
  ASSERT_TRUE(daemon.serves()) << daemon.said();
  EXPECT_EQ(daemon.stopped(20s), 0) << daemon.said();
  EXPECT_THAT(daemon.said(), testing::Not(HasSubstr("waits for")));
}

TEST(EndWatch, TellsWhatIsWaitedForLastAndNothingIsTakenApartMeanwhile) {
  std::promise<std::string> told;
  std::promise<void> let_go;
  EndWatch watch([&](const std::string& what) {
    told.set_value(what);
    let_go.get_future().wait();
  });
  watch.begin(50ms);
  watch.waits_for("the first");
  watch.waits_for("the second");
  EXPECT_EQ(told.get_future().get(), "the second");
  auto next = std::async(std::launch::async, [&] { watch.waits_for("the third"); });
  EXPECT_EQ(next.wait_for(100ms), std::future_status::timeout);
  let_go.set_value();
  next.wait();
}

struct NobodyHears final : EventSink {
  void publish(Event) override {}
};

/// On the loopback interface. Who asks for the port's state waits until hang_up(): its driver hangs.
class HungDriver {
 public:
  HungDriver() {
    tree_.remove(kState);
    EXPECT_EQ(::mkfifo(state().c_str(), 0600), 0);
  }
  ~HungDriver() { hang_up(); }
  void hang_up() { asked_ = {}; }
  [[nodiscard]] const std::filesystem::path& root() const { return tree_.root(); }
  /// Somebody asks it, and waits.
  [[nodiscard]] bool is_asked() {
    for (const auto limit = std::chrono::steady_clock::now() + 20s; std::chrono::steady_clock::now() < limit;
         std::this_thread::sleep_for(1ms)) {
      asked_ = engine::Descriptor(::open(state().c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
      if (asked_.valid()) return true;
    }
    return false;
  }

 private:
  static constexpr const char* kState = "sys/class/infiniband/rxe0/ports/1/state";
  [[nodiscard]] std::filesystem::path state() const { return tree_.root() / kState; }
  const rdma::test::Tree tree_{R"(
sys/class/infiniband/rxe0
  node_type 1: CA
sys/class/infiniband/rxe0/ports/1
  state 4: ACTIVE
  link_layer Ethernet
  gids/0 0000:0000:0000:0000:0000:ffff:7f00:0001
  gid_attrs/types/0 RoCE v2
  gid_attrs/ndevs/0 lo
)"};
  engine::Descriptor asked_;
};

TEST(NodeEnd, NamesADriverThatDoesNotAnswer) {
  const test::TemporaryFolder folder;
  HungDriver driver;
  engine::SystemRandom random;
  NobodyHears events;
  Configuration configuration;
  configuration.buffer_mib = 16;
  auto workers = make_workers(configuration);
  ASSERT_TRUE(workers);
  engine::Reactor& home = workers->front()->reactor;
  std::promise<void> reached;
  NodeOptions options;
  options.fabric.wanted = true;
  options.fabric.root = driver.root();
  options.waits_for = [&](const char* what) {
    if (std::string_view(what) == "an RDMA driver that was asked for its counters") reached.set_value();
  };
  auto node = std::make_unique<Node>(*workers, random, random.uuid(), folder.path().string(), events, options);
  home.start();
  std::promise<void> stopped;
  home.post([&] {
    DesiredState state;
    state.revision = 1;
    state.pair = random.uuid();
    state.pair_name = "pair1";
    state.target.name = "iqn.2026-11.io.lockstep:pair1";
    state.target.portals = {{"127.0.0.1", tests::free_port()}};
    node->apply(state, [](const engine::Result<ApplyOutcome>&) {});
  });
  ASSERT_TRUE(driver.is_asked());
  home.post([&] { node->shutdown([&] { stopped.set_value(); }); });
  stopped.get_future().get();
  home.stop();
  home.join();
  auto end = std::async(std::launch::async, [&] { node.reset(); });
  EXPECT_EQ(reached.get_future().wait_for(20s), std::future_status::ready);
  EXPECT_EQ(end.wait_for(50ms), std::future_status::timeout) << "the driver did not hang: this shows nothing";
  driver.hang_up();
  end.get();
}

}  // namespace
}  // namespace lockstep::data_plane
