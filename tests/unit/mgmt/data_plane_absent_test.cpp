// A node on real files that are not there when a volume is to be attached: what its hosts see in the meantime.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <future>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "engine/base/byte_order.hpp"
#include "engine/runtime/system_random.hpp"
#include "engine/scsi/sense.hpp"
#include "mgmt/data_plane/node.hpp"
#include "tests/unit/mgmt/temporary_folder.hpp"

namespace lockstep::data_plane {
namespace {

using namespace std::chrono_literals;
using engine::Result;
using engine::Uuid;
using scsi::AdditionalSense;
using Bytes = std::vector<std::uint8_t>;

constexpr auto kSoon = 20s;  ///< much more than anything takes
constexpr std::uint16_t kLun = 1;
constexpr const char* kHost = "iqn.1994-05.com.example:one";

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

struct NoEvents final : EventSink {
  void publish(Event) override {}
};

/// As a session would give it to the device server.
class Asked final : public scsi::Command {
 public:
  Asked(scsi::Nexus& by, const Bytes& bytes) {
    nexus = &by;
    std::ranges::copy(bytes, cdb.begin());
    lun = std::uint64_t{kLun} << 48;
    expected_in = 4096;
  }
  void pull(std::span<std::byte>, engine::IoCallback) override {}
  void complete(std::span<const std::byte> data, engine::Buffer) override {
    data_in.assign(reinterpret_cast<const std::uint8_t*>(data.data()),
                   reinterpret_cast<const std::uint8_t*>(data.data()) + data.size());
    over.set_value();
  }
  [[nodiscard]] bool aborted() const override { return false; }
  [[nodiscard]] scsi::Sense told() const {
    return scsi::parse_sense(std::span(sense).first(sense_length)).value_or(scsi::Sense{});
  }
  Bytes data_in;
  std::promise<void> over;
};

class AbsentVolumeTest : public testing::Test {
 protected:
  static constexpr std::uint64_t kSize = std::uint64_t{4} << 20;

  void SetUp() override {
    Configuration configuration;
    configuration.buffer_mib = 16;
    auto made = make_workers(configuration);
    ASSERT_TRUE(made) << made.error().message;
    workers_ = std::move(*made);
    node_ = std::make_unique<Node>(workers_, random_, random_.uuid(), folder_.path().string(), events_);
    workers_.front()->reactor.start();
    make_replica();
    std::filesystem::create_directory(elsewhere());
    spec_ = first_spec();
  }
  void TearDown() override {
    if (nexus_.device_state) on_home<bool>([this] { return device().on_nexus_closed(nexus_), true; });
    EXPECT_TRUE(answer<bool>([this](auto done) {
      node_->shutdown([done = std::move(done)]() mutable { done(true); });
    })) << "the node stops";
    EXPECT_TRUE(eventually([this] { return !on_home<bool>([this] { return node_->is_owed(); }); }));
    workers_.front()->reactor.stop();
    workers_.front()->reactor.join();
    node_.reset();
  }

  void take_disk_away() { move_files(folder_.path(), elsewhere()); }
  void bring_disk_back() { move_files(elsewhere(), folder_.path()); }
  /// The problems' objects, in one line; what is wrong otherwise.
  std::string applied() {
    DesiredState state;
    state.revision = ++revision_;
    state.pair = numbered(100);
    state.pair_name = "pair1";
    state.target.name = "iqn.2026-11.io.lockstep:pair1";
    if (spec_) state.volumes.push_back(*spec_);
    auto outcome = answer<Result<ApplyOutcome>>([this, state](auto done) { node_->apply(state, std::move(done)); });
    if (!outcome) return "no answer";
    if (!*outcome) return outcome->error().message;
    std::string objects;
    for (const Problem& problem : (*outcome)->problems) objects += problem.object + ";";
    return objects;
  }
  void log_in() {
    nexus_.id = 1;
    nexus_.initiator_name = kHost;
    on_home<bool>([this] { return device().on_nexus_opened(nexus_), true; });
  }
  std::unique_ptr<Asked> ask(const Bytes& cdb) {
    auto asked = std::make_unique<Asked>(nexus_, cdb);
    auto over = asked->over.get_future();
    workers_.front()->reactor.post([this, &asked] { device().execute(*asked); });
    EXPECT_EQ(over.wait_for(kSoon), std::future_status::ready) << "it is kept by nobody";
    return asked;
  }
  std::unique_ptr<Asked> test_unit_ready() { return ask({0x00}); }
  void expect_told(AdditionalSense what) {
    const auto asked = test_unit_ready();
    EXPECT_EQ(asked->status, scsi::Status::check_condition);
    EXPECT_EQ(asked->told().additional.code, what.code);
    EXPECT_EQ(asked->told().additional.qualifier, what.qualifier);
  }
  /// Soon after it was attached; attentions come before that.
  bool becomes_ready() {
    return eventually([this] { return test_unit_ready()->status == scsi::Status::good; });
  }
  /// An access state may have changed since.
  Bytes answered(const Bytes& cdb) {
    auto asked = ask(cdb);
    while (asked->told().key == scsi::SenseKey::unit_attention) asked = ask(cdb);
    EXPECT_EQ(asked->status, scsi::Status::good) << "opcode " << int(cdb[0]) << " page " << int(cdb[2]);
    return asked->data_in;
  }
  /// All that a host goes by that looks for units: names, limits, size, caching.
  std::vector<Bytes> scanned() {
    std::vector<Bytes> all{answered({0xA0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0}), answered({0x12, 0, 0, 0, 96})};
    for (const std::uint8_t page : Bytes{0x00, 0x80, 0x83, 0x86, 0xB0, 0xB1, 0xB2})
      all.push_back(answered({0x12, 1, page, 0, 255}));
    all.push_back(answered({0x25, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
    all.push_back(answered({0x9E, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 32}));
    all.push_back(answered({0x1A, 0, 0x3F, 0, 255}));
    return all;
  }
  std::uint64_t bytes_shown() {
    const Bytes capacity = answered({0x9E, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 32});
    return capacity.size() < 8 ? 0 : (engine::load_be<std::uint64_t>(capacity.data()) + 1) * 512;
  }
  /// REPORT IDENTIFYING INFORMATION, the text.
  std::string name_told() {
    const Bytes report = answered({0xA3, 0x05, 0, 0, 0, 0, 0, 0, 1, 0, 0x02 << 1, 0});
    return report.size() < 5 ? "" : std::string(report.begin() + 4, report.end() - 1);
  }
  /// Of this node's port group: REPORT TARGET PORT GROUPS.
  int access_told() {
    const Bytes report = answered({0xA3, 0x0A, 0, 0, 0, 0, 0, 0, 0, 0xFF});
    return report.size() < 5 ? -1 : report[4] & 0xF;
  }

  std::optional<VolumeSpec> spec_;  ///< what is wanted

 private:
  [[nodiscard]] std::filesystem::path elsewhere() const { return folder_.path() / "elsewhere"; }
  void move_files(const std::filesystem::path& from, const std::filesystem::path& to) {
    for (const char* name : {"vm1.data", "vm1.meta"}) std::filesystem::rename(from / name, to / name);
  }
  [[nodiscard]] VolumeSpec first_spec() const {
    VolumeSpec volume;
    volume.any_initiator = true;
    volume.id = numbered(1);
    volume.name = "vm1";
    volume.serial = "LS1";
    volume.lun = kLun;
    volume.size = kSize;
    volume.write_cache = true;
    volume.data = (folder_.path() / "vm1.data").string();
    volume.metadata = (folder_.path() / "vm1.meta").string();
    return volume;
  }
  void make_replica() {
    const VolumeSpec volume = first_spec();
    ReplicaCreate create;
    create.identity.pair = numbered(100);
    create.identity.volume = volume.id;
    create.identity.name = volume.name;
    create.identity.serial = volume.serial;
    create.identity.size = create.epoch.size = kSize;
    create.epoch.number = 1;
    create.epoch.id = numbered(50);
    create.epoch.members = engine::MemberSet::only(engine::NodeSide::a);
    create.data = volume.data;
    create.metadata = volume.metadata;
    const auto made = answer<Result<void>>([this, create](auto done) { node_->create(create, std::move(done)); });
    ASSERT_TRUE(made && *made) << "the replica is made";
  }
  iscsi_target::TargetDevice& device() { return workers_.front()->device; }
  template <class T, class Act>
  T on_home(Act act) {
    std::promise<T> promise;
    workers_.front()->reactor.post([&] { promise.set_value(act()); });
    return promise.get_future().get();
  }
  template <class T, class Ask>
  std::optional<T> answer(Ask ask) {
    auto promise = std::make_shared<std::promise<T>>();
    auto future = promise->get_future();
    workers_.front()->reactor.post([promise, ask = std::move(ask)]() mutable {
      ask([promise](T value) { promise->set_value(std::move(value)); });
    });
    if (future.wait_for(kSoon) != std::future_status::ready) return std::nullopt;
    return future.get();
  }

  test::TemporaryFolder folder_;
  engine::SystemRandom random_;
  Workers workers_;
  NoEvents events_;
  std::unique_ptr<Node> node_;
  scsi::Nexus nexus_;
  std::uint64_t revision_ = 0;
};

constexpr auto kDown = scsi::asc::kLogicalUnitNotAccessibleTargetPortInUnavailableState;
constexpr auto kNoUnit = scsi::asc::kLogicalUnitNotSupported;

/// "No such unit" is for good: ESXi ends what runs on it, and who looks for units now would never have this path.
TEST_F(AbsentVolumeTest, IsAPathThatIsDownToTheUnitThatItIs) {
  take_disk_away();
  ASSERT_EQ(applied(), "volume vm1;");
  log_in();
  expect_told(scsi::asc::kPowerOnOccurred);
  expect_told(kDown);
  const auto read = ask({0x28, 0, 0, 0, 0, 0, 0, 0, 1, 0});
  EXPECT_EQ(read->told().key, scsi::SenseKey::not_ready);
  EXPECT_EQ(access_told(), 0x3) << "unavailable";
  const auto before = scanned();
  EXPECT_EQ(engine::load_be<std::uint32_t>(before.front().data()), 8u) << "one unit";
  bring_disk_back();
  ASSERT_EQ(applied(), "");
  expect_told(scsi::asc::kPowerOnOccurred);
  expect_told(scsi::asc::kReportedLunsDataHasChanged);
  EXPECT_TRUE(becomes_ready());
  EXPECT_EQ(access_told(), 0x0) << "active";
  EXPECT_EQ(scanned(), before);
}

/// Management tries to attach it every few seconds.
TEST_F(AbsentVolumeTest, IsTheSameUnitUntilItIsAttached) {
  take_disk_away();
  ASSERT_EQ(applied(), "volume vm1;");
  log_in();
  expect_told(scsi::asc::kPowerOnOccurred);
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(applied(), "volume vm1;");
    expect_told(kDown);
  }
  spec_->write_cache = false;
  ASSERT_EQ(applied(), "volume vm1;");
  expect_told(scsi::asc::kModeParametersChanged);
  expect_told(kDown);
}

TEST_F(AbsentVolumeTest, IsGoneWhenItIsNotWantedAnyMore) {
  take_disk_away();
  ASSERT_EQ(applied(), "volume vm1;");
  log_in();
  expect_told(scsi::asc::kPowerOnOccurred);
  spec_.reset();
  ASSERT_EQ(applied(), "");
  expect_told(kNoUnit);
}

TEST_F(AbsentVolumeTest, IsSeenByThoseAloneThatMayUseIt) {
  take_disk_away();
  spec_->any_initiator = false;
  spec_->access.push_back({"iqn.1994-05.com.example:another", {}});
  ASSERT_EQ(applied(), "volume vm1;");
  log_in();
  expect_told(kNoUnit);
  spec_->access.push_back({kHost, {}});
  ASSERT_EQ(applied(), "volume vm1;");
  expect_told(scsi::asc::kPowerOnOccurred);
}

/// It may be wanted larger than any node serves it yet.
TEST_F(AbsentVolumeTest, DoesNotGrowWhileItIsAway) {
  take_disk_away();
  ASSERT_EQ(applied(), "volume vm1;");
  spec_->size = 2 * kSize;
  ASSERT_EQ(applied(), "volume vm1;");
  log_in();
  expect_told(scsi::asc::kPowerOnOccurred);
  EXPECT_EQ(bytes_shown(), kSize);
}

TEST_F(AbsentVolumeTest, HasTheSizeThatItHadWhenItWasDetached) {
  ASSERT_EQ(applied(), "");
  take_disk_away();
  spec_->physical_block_size = 512;  // which has it attached again
  spec_->size = 2 * kSize;
  ASSERT_EQ(applied(), "volume vm1;");
  log_in();
  expect_told(scsi::asc::kPowerOnOccurred);
  EXPECT_EQ(bytes_shown(), kSize);
}

TEST_F(AbsentVolumeTest, IsSaidToHaveAnotherSizeWhereThatIsWhatItIsAttachedWith) {
  take_disk_away();
  spec_->size = 2 * kSize;
  ASSERT_EQ(applied(), "volume vm1;");
  log_in();
  expect_told(scsi::asc::kPowerOnOccurred);
  bring_disk_back();
  spec_->size = kSize;
  ASSERT_EQ(applied(), "");
  expect_told(scsi::asc::kPowerOnOccurred);
  expect_told(scsi::asc::kReportedLunsDataHasChanged);
  expect_told(scsi::asc::kCapacityDataHasChanged);
  EXPECT_TRUE(becomes_ready());
  EXPECT_EQ(bytes_shown(), kSize);
}

/// The other node, which was restarted since, knows no other name.
TEST_F(AbsentVolumeTest, IsCalledWhatItIsCalledNowWhetherItIsAttachedOrNot) {
  take_disk_away();
  ASSERT_EQ(applied(), "volume vm1;");
  log_in();
  expect_told(scsi::asc::kPowerOnOccurred);
  spec_->name = "vm2";
  ASSERT_EQ(applied(), "volume vm2;");
  expect_told(kDown);
  EXPECT_EQ(name_told(), "vm2");
  bring_disk_back();
  ASSERT_EQ(applied(), "");
  ASSERT_TRUE(becomes_ready());
  EXPECT_EQ(name_told(), "vm2");
  spec_->name = "vm3";
  ASSERT_EQ(applied(), "");
  EXPECT_EQ(name_told(), "vm3");
}

}  // namespace
}  // namespace lockstep::data_plane
