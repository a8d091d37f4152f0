// The node goes on while a file system takes its time over a replica's files: its reactor has the heartbeats.
#include <atomic>
#include <condition_variable>
#include <mutex>

#include <gtest/gtest.h>

#include "engine/runtime/system_random.hpp"
#include "mgmt/data_plane/node.hpp"
#include "tests/unit/engine/reactor_fixture.hpp"
#include "tests/unit/mgmt/data_plane_file_calls.hpp"

namespace lockstep::data_plane {
namespace {

using namespace std::chrono_literals;
using engine::Result;

/// Holds up the first of some system call until it is let go.
class SlowCall {
 public:
  explicit SlowCall(std::string name) : name_(std::move(name)), hook_([this](const char* call) { before(call); }) {}
  ~SlowCall() { let_go(); }
  [[nodiscard]] bool reached() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, 10s, [this] { return reached_; });
  }
  void let_go() {
    const std::lock_guard lock(mutex_);
    go_on_ = true;
    changed_.notify_all();
  }

 private:
  void before(const char* call) {
    if (name_ != call) return;
    std::unique_lock lock(mutex_);
    reached_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return go_on_; });
  }

  std::string name_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool reached_ = false;
  bool go_on_ = false;
  test::FileCallHook hook_;
};

struct NoEvents final : EventSink {
  void publish(Event) override {}
};

struct ANode : testing::Test {
  engine::TestFolder folder;
  Workers workers = make();
  engine::SystemRandom random;
  NoEvents events;
  std::unique_ptr<Node> node = std::make_unique<Node>(workers, random, random.uuid(), folder.path(), events);

  std::mutex mutex;
  std::condition_variable changed;
  int ticks = 0;
  std::vector<std::string> ended;

  static Workers make() {
    Configuration configuration;
    configuration.buffer_mib = 1;
    return std::move(make_workers(configuration)).value();
  }
  void SetUp() override { home().start(); }
  void TearDown() override {
    home().stop();
    home().join();
    node.reset();
  }
  engine::Reactor& home() { return workers.front()->reactor; }

  void tick() {
    {
      const std::lock_guard lock(mutex);
      ++ticks;
    }
    changed.notify_all();
    home().call_after(1ms, [this] { tick(); });
  }
  void end(const std::string& what) {
    {
      const std::lock_guard lock(mutex);
      ended.push_back(what);
    }
    changed.notify_all();
  }
  bool wait_for(const std::function<bool()>& state) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, 10s, state);
  }
  /// Timers on the reactor go on firing, from now on.
  bool ticks_on() {
    home().post([this] { tick(); });
    return wait_for([this] { return ticks >= 5; });
  }
  engine::Callback<Result<void>> tell(const std::string& what) {
    return [this, what](Result<void> outcome) { end(what + (outcome ? "" : ": " + outcome.error().message)); };
  }
  void create() { create(creation()); }
  void create(const ReplicaCreate& request) {
    home().post([this, request] { node->create(request, tell("created")); });
  }
  ReplicaCreate creation() {
    ReplicaCreate request;
    request.identity.pair = random.uuid();
    request.identity.volume = volume;
    request.identity.name = "v";
    request.identity.size = 1 << 20;
    request.epoch.number = 1;
    request.epoch.id = random.uuid();
    request.epoch.members = engine::MemberSet::only(engine::NodeSide::a);
    request.epoch.size = request.identity.size;
    request.data = folder / "v.data";
    request.metadata = folder / "v.meta";
    request.thin = false;
    return request;
  }
  void remove() {
    const ReplicaDelete request{volume, {}, 0, folder / "v.data", folder / "v.meta"};
    home().post([this, request] { node->remove(request, tell("removed")); });
  }
  /// The volume as one that is not mirrored, larger than it was made.
  void attach_larger() {
    VolumeSpec spec;
    spec.id = volume;
    spec.name = "v";
    spec.size = kLarger;
    spec.thin = false;
    spec.mirrored = false;
    spec.data = folder / "v.data";
    spec.metadata = folder / "v.meta";
    attach(spec);
  }
  void attach(const VolumeSpec& spec) {
    DesiredState state;
    state.pair = random.uuid();
    state.target.name = "iqn.2026-11.io.lockstep:pair1";
    state.volumes.push_back(spec);
    home().post([this, state] {
      node->apply(state, [this](Result<ApplyOutcome> outcome) {
        if (!outcome) return end("not attached: " + outcome.error().message);
        end(outcome->problems.empty() ? "attached" : outcome->problems.front().message);
      });
    });
  }
  void shut_down() {
    home().post([this] { node->shutdown([this] { end("shut down"); }); });
  }

  static constexpr std::uint64_t kLarger = 2 << 20;
  engine::Uuid volume = random.uuid();
};

TEST_F(ANode, GoesOnWhileTheSpaceOfAReplicaIsReserved) {
  SlowCall slow("fallocate");
  create();
  ASSERT_TRUE(slow.reached());
  EXPECT_TRUE(ticks_on());
  EXPECT_TRUE(ended.empty());
  slow.let_go();
  EXPECT_TRUE(wait_for([this] { return !ended.empty(); }));
  EXPECT_EQ(ended, std::vector<std::string>{"created"});
  EXPECT_TRUE(std::filesystem::exists(folder / "v.data"));
}

TEST_F(ANode, GoesOnWhileTheSpaceOfAReplicaIsGivenBack) {
  create();
  ASSERT_TRUE(wait_for([this] { return !ended.empty(); }));
  SlowCall slow("unlink");
  remove();
  ASSERT_TRUE(slow.reached());
  EXPECT_TRUE(ticks_on());
  slow.let_go();
  EXPECT_TRUE(wait_for([this] { return ended.size() == 2; }));
  EXPECT_EQ(ended, (std::vector<std::string>{"created", "removed"}));
  EXPECT_FALSE(std::filesystem::exists(folder / "v.meta"));
}

TEST_F(ANode, GoesOnWhileAVolumeThatIsNotMirroredGetsItsSpace) {
  create();
  ASSERT_TRUE(wait_for([this] { return !ended.empty(); }));
  SlowCall slow("fallocate");
  attach_larger();
  ASSERT_TRUE(slow.reached());
  EXPECT_TRUE(ticks_on());
  slow.let_go();
  EXPECT_TRUE(wait_for([this] { return ended.size() == 2; }));
  shut_down();
  EXPECT_TRUE(wait_for([this] { return ended.size() == 3; }));
  EXPECT_EQ(ended, (std::vector<std::string>{"created", "attached", "shut down"}));
  EXPECT_EQ(std::filesystem::file_size(folder / "v.data"), kLarger);
}

TEST_F(ANode, ShutsDownWhenTheVolumeThatGetsItsSpaceIsAttached) {
  create();
  ASSERT_TRUE(wait_for([this] { return !ended.empty(); }));
  SlowCall slow("fallocate");
  attach_larger();
  ASSERT_TRUE(slow.reached());
  shut_down();
  EXPECT_TRUE(ticks_on());
  EXPECT_TRUE(wait_for([this] { return ticks >= 100; }));
  end("let go");
  slow.let_go();
  EXPECT_TRUE(wait_for([this] { return ended.size() == 4; }));
  EXPECT_EQ(ended, (std::vector<std::string>{"created", "let go", "shut down", "not attached: The node is stopping."}));
}

TEST_F(ANode, CarriesOutWhatIsAskedMeanwhileAfterwards) {
  SlowCall slow("fallocate");
  create();
  remove();
  create();
  ASSERT_TRUE(slow.reached());
  EXPECT_TRUE(ticks_on());
  EXPECT_TRUE(ended.empty());
  slow.let_go();
  EXPECT_TRUE(wait_for([this] { return ended.size() == 3; }));
  EXPECT_EQ(ended, (std::vector<std::string>{"created", "removed", "created"}));
  EXPECT_TRUE(std::filesystem::exists(folder / "v.data"));
}

/// Its encrypted copy can't be read, and would be lost with another key in the place of the missing one.
TEST_F(ANode, MakesNoOtherKeyForANewVolumeBesideCopiesThatNeedTheMissingOne) {
  VolumeSpec older;
  older.id = random.uuid();
  older.name = "older";
  older.size = 1 << 20;
  older.mirrored = false;
  older.encrypted = true;
  older.data = folder / "older.data";
  older.metadata = folder / "older.meta";
  attach(older);
  ASSERT_TRUE(wait_for([this] { return ended.size() == 1; }));
  ReplicaCreate request = creation();
  request.encrypted = true;
  create(request);
  ASSERT_TRUE(wait_for([this] { return ended.size() == 2; }));
  EXPECT_TRUE(ended[1].starts_with("created: The node key " + folder / "node.key" + " is missing")) << ended[1];
  EXPECT_FALSE(std::filesystem::exists(folder / "node.key"));
  EXPECT_FALSE(std::filesystem::exists(folder / "v.data"));
  request.epoch.members = engine::MemberSet::only(engine::NodeSide::b);
  request.epoch.sequencer = engine::NodeSide::b;
  request.clean = false;
  create(request);
  ASSERT_TRUE(wait_for([this] { return ended.size() == 3; }));
  EXPECT_EQ(ended[2], "created") << "in the place of a lost copy";
  EXPECT_TRUE(std::filesystem::exists(folder / "node.key"));
  shut_down();
  EXPECT_TRUE(wait_for([this] { return ended.size() == 4; }));
}

TEST_F(ANode, MakesItsKeyWithItsFirstEncryptedVolume) {
  ReplicaCreate request = creation();
  request.encrypted = true;
  create(request);
  ASSERT_TRUE(wait_for([this] { return !ended.empty(); }));
  EXPECT_EQ(ended, std::vector<std::string>{"created"});
  EXPECT_TRUE(std::filesystem::exists(folder / "node.key"));
}

TEST_F(ANode, ShutsDownWhenTheReplicaThatIsBeingMadeIsDone) {
  SlowCall slow("fallocate");
  create();
  ASSERT_TRUE(slow.reached());
  shut_down();
  EXPECT_TRUE(ticks_on());
  EXPECT_TRUE(ended.empty());
  slow.let_go();
  EXPECT_TRUE(wait_for([this] { return ended.size() == 2; }));
  EXPECT_EQ(ended, (std::vector<std::string>{"created", "shut down"}));
}

}  // namespace
}  // namespace lockstep::data_plane
