// Two nodes on real files and a real link: what each says of both nodes' ways to a volume (REPORT TARGET PORT GROUPS).
// An initiator believes whichever node it asked last, so that they have to say the same.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "engine/runtime/system_random.hpp"
#include "mgmt/data_plane/node.hpp"
#include "tests/support/ports/free_port.hpp"
#include "tests/unit/mgmt/temporary_folder.hpp"

namespace lockstep::data_plane {
namespace {

using namespace std::chrono_literals;
using engine::Errc;
using engine::Extent;
using engine::IoCallback;
using engine::NodeSide;
using engine::Result;
using engine::Uuid;
using replication::MirrorState;

using Groups = std::vector<int>;                  ///< access states of node A's group and of B's
constexpr int kActive = 0x0, kUnavailable = 0x3;  ///< SPC-4 6.37
constexpr auto kSoon = 30s;                       ///< much more than anything takes
constexpr std::uint64_t kSize = std::uint64_t{4} << 20;

template <class What>
bool eventually(What what) {
  const auto limit = std::chrono::steady_clock::now() + kSoon;
  while (!what()) {
    if (std::chrono::steady_clock::now() > limit) return false;
    std::this_thread::sleep_for(5ms);
  }
  return true;
}

Uuid numbered(std::uint8_t n) {
  Uuid id;
  id.bytes.fill(n);
  return id;
}

/// Takes no write any more when it is told to: a disk that fails.
class FailingStore final : public engine::Store {
 public:
  explicit FailingStore(std::unique_ptr<engine::Store> inner) : inner_(std::move(inner)) {}
  /// Any thread.
  void fail() { failed_ = true; }

  [[nodiscard]] const engine::StoreInfo& info() const override { return inner_->info(); }
  void read(std::uint64_t offset, std::span<std::byte> into, IoCallback done) override {
    inner_->read(offset, into, std::move(done));
  }
  void write(std::uint64_t offset, std::span<const std::byte> from, engine::Durability how, IoCallback done) override {
    inner_->write(offset, from, how, judge(std::move(done)));
  }
  void write_zeroes(Extent extent, engine::Durability how, IoCallback done) override {
    inner_->write_zeroes(extent, how, judge(std::move(done)));
  }
  void discard(Extent extent, engine::Durability how, IoCallback done) override {
    inner_->discard(extent, how, judge(std::move(done)));
  }
  void flush(IoCallback done) override { inner_->flush(judge(std::move(done))); }
  void reserve(Extent extent, IoCallback done) override { inner_->reserve(extent, std::move(done)); }
  void next_run(std::uint64_t offset, engine::RunCallback done) override { inner_->next_run(offset, std::move(done)); }

 private:
  IoCallback judge(IoCallback done) {
    return [this, done = std::move(done)](std::error_code error) mutable {
      done(failed_ ? make_error_code(Errc::io_error) : error);
    };
  }
  std::unique_ptr<engine::Store> inner_;
  std::atomic<bool> failed_ = false;
};

/// As a session would give it to the device server; what it writes is zeros.
class Command final : public scsi::Command {
 public:
  Command(scsi::Nexus& by, engine::Reactor& reactor, std::initializer_list<std::uint8_t> bytes) : reactor_(reactor) {
    nexus = &by;
    std::ranges::copy(bytes, cdb.begin());
  }
  void pull(std::span<std::byte> into, IoCallback taken) override {
    std::ranges::fill(into, std::byte{0});
    reactor_.post([taken = std::move(taken)]() mutable { taken({}); });
  }
  void complete(std::span<const std::byte> data, engine::Buffer) override {
    data_in.assign(data.begin(), data.end());
    over.set_value();
  }
  [[nodiscard]] bool aborted() const override { return false; }

  std::vector<std::byte> data_in;
  std::promise<void> over;

 private:
  engine::Reactor& reactor_;
};

struct NoEvents final : EventSink {
  void publish(Event) override {}
};

/// One lockstepd, as it were, with one volume.
class ANode {
 public:
  /// As many reactors as there are shards up to the volume's.
  ANode(NodeSide side, SocketAddress link, SocketAddress partners_link, unsigned shard)
      : side_(side), link_(std::move(link)), partners_link_(std::move(partners_link)), shard_(shard) {
    Configuration configuration;
    configuration.reactors = shard + 1;
    configuration.buffer_mib = 16;
    auto made = make_workers(configuration);
    if (!made) throw std::runtime_error(made.error().message);
    workers_ = std::move(*made);
    NodeOptions options;
    options.open_replica = [this](auto& ring, const auto& place, const Uuid& volume, auto whose, auto done) {
      open_replica(ring, place, volume, whose, [this, done = std::move(done)](auto opened) mutable {
        if (opened) {
          auto failing = std::make_unique<FailingStore>(std::move(opened->stores.data));
          disk_ = failing.get();
          opened->stores.data = std::move(failing);
        }
        done(std::move(opened));
      });
    };
    node_ =
        std::make_unique<Node>(workers_, random_, random_.uuid(), folder_.path().string(), events_, std::move(options));
    nexus_.id = 1;
    nexus_.initiator_name = "iqn.1994-05.com.example:one";
    for (const auto& worker : workers_) worker->reactor.start();
  }
  ~ANode() {
    thaw();
    if (nexus_.device_state) on_home<bool>([this] { return device().on_nexus_closed(nexus_), true; });
    EXPECT_TRUE(answer<bool>([this](auto done) {
      node_->shutdown([done = std::move(done)]() mutable { done(true); });
    })) << "the node stops";
    EXPECT_TRUE(eventually([this] { return !on_home<bool>([this] { return node_->is_owed(); }); }));
    for (const auto& worker : workers_) worker->reactor.stop();
    for (const auto& worker : workers_) worker->reactor.join();
    node_.reset();
  }
  ANode(const ANode&) = delete;
  ANode& operator=(const ANode&) = delete;

  /// What is wrong; nothing when all is well.
  std::string make_volume() {
    ReplicaCreate create;
    const VolumeSpec volume = spec();
    create.identity.pair = numbered(100);
    create.identity.volume = volume.id;
    create.identity.owner = side_;
    create.identity.name = volume.name;
    create.identity.serial = volume.serial;
    create.identity.size = create.epoch.size = kSize;
    create.epoch.number = 1;
    create.epoch.id = numbered(50);
    create.epoch.members = engine::MemberSet::both();
    create.data = volume.data;
    create.metadata = volume.metadata;
    return told([&](auto done) { node_->create(create, std::move(done)); });
  }
  std::string serve() {
    const Authentication both_ways{Credentials{"link", "link-secret-0001"}, Credentials{"knil", "knil-secret-0001"}};
    DesiredState state;
    state.revision = 1;
    state.pair = numbered(100);
    state.pair_name = "pair1";
    state.side = side_;
    state.target.name = "iqn.2026-11.io.lockstep:pair1";
    state.partner = PartnerSpec{"partner", {}, {link_, partners_link_, both_ways}};
    state.volumes.push_back(spec());
    const auto outcome = answer<Result<ApplyOutcome>>([&](auto done) { node_->apply(state, std::move(done)); });
    if (!outcome) return "no answer";
    if (!*outcome) return outcome->error().message;
    for (const Problem& problem : (*outcome)->problems) return problem.object + ": " + problem.message;
    on_home<bool>([this] { return device().on_nexus_opened(nexus_), true; });
    return "";
  }
  std::string leave() {
    return told([this](auto done) { node_->leave(numbered(1), std::move(done)); });
  }

  MirrorState state() {
    const auto report = answer<NodeReport>([this](auto done) { node_->report(std::move(done)); });
    return !report || report->volumes.empty() ? MirrorState::starting : report->volumes.front().mirror.state;
  }
  void fail_disk() { disk_->fail(); }
  /// WRITE(10) of the first block, however it ends.
  bool write() { return carried_out({0x2A, 0, 0, 0, 0, 0, 0, 0, 1}, 512) != nullptr; }
  /// Nothing while the node does not answer with GOOD.
  Groups groups() {
    const auto report = carried_out({0xA3, 0x0A, 0, 0, 0, 0, 0, 0, 0, 0xFF}, 0);
    if (!report || report->status != scsi::Status::good || report->data_in.size() != 28) return {};
    return {std::to_integer<int>(report->data_in[4]) & 0xF, std::to_integer<int>(report->data_in[16]) & 0xF};
  }

  /// Its reactors do nothing, as those of a machine that is stopped.
  void freeze() {
    frozen_ = std::promise<void>();
    const auto until = frozen_->get_future().share();
    for (const auto& worker : workers_) worker->reactor.post([until] { until.wait(); });
  }
  void thaw() {
    if (frozen_) frozen_->set_value();
    frozen_.reset();
  }

 private:
  engine::Reactor& home() { return workers_.front()->reactor; }
  iscsi_target::TargetDevice& device() { return workers_.front()->device; }
  Command* carried_out(std::initializer_list<std::uint8_t> cdb, std::uint32_t out) {
    Command& command = *commands_.emplace_back(std::make_unique<Command>(nexus_, home(), cdb));
    command.expected_out = out;
    command.expected_in = 255;
    auto over = command.over.get_future();
    home().post([this, &command] { device().execute(command); });
    return over.wait_for(kSoon) == std::future_status::ready ? &command : nullptr;
  }
  [[nodiscard]] VolumeSpec spec() const {
    VolumeSpec volume;
    volume.any_initiator = true;
    volume.id = numbered(1);
    volume.name = "vm1";
    volume.serial = "LS1";
    volume.size = kSize;
    volume.shard = shard_;
    volume.data = (folder_.path() / "vm1.data").string();
    volume.metadata = (folder_.path() / "vm1.meta").string();
    return volume;
  }
  template <class T, class Act>
  T on_home(Act act) {
    std::promise<T> promise;
    home().post([&] { promise.set_value(act()); });
    return promise.get_future().get();
  }
  template <class T, class Ask>
  std::optional<T> answer(Ask ask) {
    auto promise = std::make_shared<std::promise<T>>();
    auto future = promise->get_future();
    home().post([promise, ask = std::move(ask)]() mutable {
      ask([promise](T value) { promise->set_value(std::move(value)); });
    });
    if (future.wait_for(kSoon) != std::future_status::ready) return std::nullopt;
    return future.get();
  }
  template <class Ask>
  std::string told(Ask ask) {
    const auto outcome = answer<Result<void>>(std::move(ask));
    if (!outcome) return "no answer";
    return *outcome ? "" : outcome->error().message;
  }

  NodeSide side_;
  SocketAddress link_, partners_link_;
  unsigned shard_;
  test::TemporaryFolder folder_;
  engine::SystemRandom random_;
  Workers workers_;
  NoEvents events_;
  FailingStore* disk_ = nullptr;
  std::unique_ptr<Node> node_;
  scsi::Nexus nexus_;
  std::vector<std::unique_ptr<Command>> commands_;  // the device server may keep one that is not over
  std::optional<std::promise<void>> frozen_;
};

/// With the volume in the first shard, and in another one.
struct PairAccess : testing::TestWithParam<unsigned> {
  const Groups both_serve{kActive, kActive}, b_serves{kUnavailable, kActive};
  // Each link has a port of each shard, one above the other.
  const SocketAddress link_a{"127.0.0.1", tests::free_port(GetParam() + 1)};
  const SocketAddress link_b{"127.0.0.1", tests::free_port(GetParam() + 1)};
  ANode a{NodeSide::a, link_a, link_b, GetParam()};
  ANode b{NodeSide::b, link_b, link_a, GetParam()};

  void SetUp() override {
    ASSERT_EQ(a.make_volume() + b.make_volume(), "");
    ASSERT_EQ(a.serve() + b.serve(), "");
    ASSERT_TRUE(become(MirrorState::in_sync, MirrorState::in_sync));
    ASSERT_TRUE(both_say(both_serve));
  }
  bool become(MirrorState of_a, MirrorState of_b) {
    return eventually([&] { return a.state() == of_a && b.state() == of_b; });
  }
  bool both_say(const Groups& groups) {
    return eventually([&] { return a.groups() == groups && b.groups() == groups; });
  }
  /// Node A forwards to B, which is alone.
  void says_the_truth_of_a_while_it_comes_and_goes() {
    ASSERT_TRUE(both_say(both_serve));
    a.freeze();
    EXPECT_TRUE(eventually([&] { return b.groups() == b_serves; })) << "node A answers nobody";
    a.thaw();
    EXPECT_TRUE(both_say(both_serve));
  }
};

TEST_P(PairAccess, OfANodeWhoseReplicaFailedIsSaidToBeActiveByBothAsLongAsItForwards) {
  a.fail_disk();
  EXPECT_TRUE(a.write());
  ASSERT_TRUE(become(MirrorState::failed, MirrorState::solo));
  says_the_truth_of_a_while_it_comes_and_goes();
}

TEST_P(PairAccess, OfANodeWhoseReplicaLeftIsSaidToBeActiveByBothAsLongAsItForwards) {
  ASSERT_EQ(a.leave(), "");
  ASSERT_TRUE(become(MirrorState::left, MirrorState::solo));
  says_the_truth_of_a_while_it_comes_and_goes();
}

/// Linux would fail what goes to the partner, which may be the one that serves.
TEST_P(PairAccess, ANodeThatServesNothingSaysNothingAgainstItsPartner) {
  a.freeze();
  EXPECT_TRUE(eventually([&] {
    const Groups told = b.groups();
    EXPECT_NE(told, b_serves) << "node B is in sync still, with a broken link";
    return told == Groups{kActive, kUnavailable};
  })) << "nothing lets node B go on";
  a.thaw();
  EXPECT_TRUE(both_say(both_serve));
}

INSTANTIATE_TEST_SUITE_P(OfShards, PairAccess, testing::Values(0, 1));

}  // namespace
}  // namespace lockstep::data_plane
