#pragma once
// A node on real files whose stores may hang: as they are opened, or with what they were given.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <future>
#include <map>
#include <memory>
#include <thread>

#include <gtest/gtest.h>

#include "engine/runtime/system_random.hpp"
#include "engine/stores/file_store.hpp"
#include "mgmt/data_plane/node.hpp"
#include "tests/unit/mgmt/data_plane_file_calls.hpp"
#include "tests/unit/mgmt/temporary_folder.hpp"

namespace lockstep::data_plane::hanging {

using namespace std::chrono_literals;
using engine::Errc;
using engine::Extent;
using engine::IoCallback;
using engine::Result;
using engine::Uuid;

/// Keeps to itself that operations ended, while it is held: a disk that hangs.
class HeldStore final : public engine::Store {
 public:
  explicit HeldStore(std::unique_ptr<engine::Store> inner) : inner_(std::move(inner)) {}
  ~HeldStore() override { EXPECT_TRUE(ended_.empty()) << "closed while it owes something"; }
  void hold() { held_ = true; }
  void release() {
    held_ = false;
    for (auto& end : std::exchange(ended_, {})) end();
  }
  [[nodiscard]] std::size_t owes() const { return ended_.size(); }

  [[nodiscard]] const engine::StoreInfo& info() const override { return inner_->info(); }
  void read(std::uint64_t offset, std::span<std::byte> into, IoCallback done) override {
    inner_->read(offset, into, keep(std::move(done)));
  }
  void write(std::uint64_t offset, std::span<const std::byte> from, engine::Durability how, IoCallback done) override {
    inner_->write(offset, from, how, keep(std::move(done)));
  }
  void write_zeroes(Extent extent, engine::Durability how, IoCallback done) override {
    inner_->write_zeroes(extent, how, keep(std::move(done)));
  }
  void discard(Extent extent, engine::Durability how, IoCallback done) override {
    inner_->discard(extent, how, keep(std::move(done)));
  }
  void flush(IoCallback done) override { inner_->flush(keep(std::move(done))); }
  void reserve(Extent extent, IoCallback done) override { inner_->reserve(extent, keep(std::move(done))); }
  void next_run(std::uint64_t offset, engine::RunCallback done) override { inner_->next_run(offset, std::move(done)); }

 private:
  IoCallback keep(IoCallback done) {
    return [this, done = std::move(done)](std::error_code error) mutable {
      if (!held_) return done(error);
      ended_.push_back([error, done = std::move(done)]() mutable { done(error); });
    };
  }
  std::unique_ptr<engine::Store> inner_;
  bool held_ = false;
  std::vector<engine::Callback<>> ended_;
};

/// READ(10) of one block, as a session would give it to the device server.
class Read final : public scsi::Command {
 public:
  Read(scsi::Nexus& by, std::uint16_t unit) {
    nexus = &by;
    cdb[0] = 0x28;
    cdb[8] = 1;
    lun = std::uint64_t{unit} << 48;
    expected_in = 512;
  }
  void pull(std::span<std::byte>, IoCallback) override {}
  void complete(std::span<const std::byte>, engine::Buffer) override { done = true; }
  [[nodiscard]] bool aborted() const override { return false; }
  std::atomic<bool> done = false;
};

struct NoEvents final : EventSink {
  void publish(Event) override {}
};

inline Uuid numbered(std::uint8_t n) {
  Uuid id;
  id.bytes.fill(n);
  return id;
}

class DetachTest : public testing::Test {
 protected:
  static constexpr auto kSoon = 20s;  ///< much less than the node's patience, much more than anything takes
  static constexpr std::uint64_t kSize = std::uint64_t{4} << 20;

  void start(engine::Duration patience) {
    Configuration configuration;
    configuration.reactors = 2;
    auto made = make_workers(configuration);
    ASSERT_TRUE(made) << made.error().message;
    workers_ = std::move(*made);
    NodeOptions options;
    options.detach_patience = options.disk_patience = patience;
    options.open_replica = [this](auto& ring, const auto& place, const Uuid& volume, auto side, auto done) {
      if (holds_metadata_) return open_with_held_metadata(ring, place, volume, side, std::move(done));
      open_replica(ring, place, volume, side, [this, volume, done = std::move(done)](auto opened) mutable {
        if (opening_[volume].held) {
          opening_[volume].ended = [opened = std::move(opened), done = std::move(done)]() mutable {
            done(std::move(opened));
          };
          return;
        }
        if (opened && may_hold_) {
          auto held = std::make_unique<HeldStore>(std::move(opened->stores.data));
          disks_[volume] = held.get();
          opened->stores.data = std::move(held);
        }
        done(std::move(opened));
      });
    };
    node_ =
        std::make_unique<Node>(workers_, random_, random_.uuid(), folder_.path().string(), events_, std::move(options));
    for (const auto& worker : workers_) worker->reactor.start();
  }
  void TearDown() override {
    if (!node_) return;
    EXPECT_TRUE(stopped_ || shut_down());
    EXPECT_TRUE(eventually([this] { return !on_home<bool>([this] { return node_->is_owed(); }); }));
    for (const auto& worker : workers_) worker->reactor.stop();
    for (const auto& worker : workers_) worker->reactor.join();
    node_.reset();
  }

  /// On the home reactor.
  template <class T, class Act>
  T on_home(Act act) {
    std::promise<T> promise;
    workers_.front()->reactor.post([&] { promise.set_value(act()); });
    return promise.get_future().get();
  }
  /// What `ask(done)` answers, if it does soon.
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
  template <class What>
  static bool eventually(What what) {
    const auto limit = std::chrono::steady_clock::now() + kSoon;
    while (!what()) {
      if (std::chrono::steady_clock::now() > limit) return false;
      std::this_thread::sleep_for(5ms);
    }
    return true;
  }

  [[nodiscard]] std::string path(std::uint8_t n, const std::string& kind) const {
    return (folder_.path() / (std::to_string(n) + kind)).string();
  }
  [[nodiscard]] VolumeSpec spec(std::uint8_t n) const {
    VolumeSpec volume;
    volume.any_initiator = true;
    volume.id = numbered(n);
    volume.name = "vm" + std::to_string(n);
    volume.serial = "LS" + std::to_string(n);
    volume.lun = n;
    volume.size = kSize;
    volume.data = path(n, ".data");
    volume.metadata = path(n, ".meta");
    return volume;
  }
  /// The problems' objects, in one line; what is wrong otherwise.
  std::string applied(std::vector<std::uint8_t> volumes) {
    DesiredState state;
    state.revision = ++revision_;
    state.pair = numbered(100);
    state.pair_name = "pair1";
    state.target.name = "iqn.2026-11.io.lockstep:pair1";
    for (const std::uint8_t n : volumes) state.volumes.push_back(spec(n));
    auto outcome = answer<Result<ApplyOutcome>>([this, state](auto done) { node_->apply(state, std::move(done)); });
    if (!outcome) return "no answer";
    if (!*outcome) return outcome->error().message;
    std::string objects;
    for (const Problem& problem : (*outcome)->problems) objects += problem.object + ";";
    return objects;
  }
  /// Its answer comes when it comes.
  using Answer = std::future<Result<void>>;
  template <class Ask>
  Answer asked(Ask ask) {
    auto promise = std::make_shared<std::promise<Result<void>>>();
    workers_.front()->reactor.post([promise, ask = std::move(ask)]() mutable {
      ask([promise](Result<void> value) { promise->set_value(std::move(value)); });
    });
    return promise->get_future();
  }
  Answer asked_to_make(std::uint8_t n) {
    ReplicaCreate create;
    const VolumeSpec volume = spec(n);
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
    return asked([this, create](auto done) { node_->create(create, std::move(done)); });
  }
  std::string made(std::uint8_t n) { return told(asked_to_make(n)); }
  Answer asked_to_grow(std::uint8_t n) {
    return asked([this, n](auto done) { node_->grow({numbered(n), 2 * kSize}, std::move(done)); });
  }
  Answer asked_to_remove(std::uint8_t n) {
    ReplicaDelete remove;
    remove.volume = numbered(n);
    remove.data = path(n, ".data");
    remove.metadata = path(n, ".meta");
    return asked([this, remove](auto done) { node_->remove(remove, std::move(done)); });
  }
  std::string removed(std::uint8_t n) { return told(asked_to_remove(n)); }
  void set_stopped() { stopped_ = true; }
  bool shut_down() {
    set_stopped();
    return answer<bool>([this](auto done) { node_->shutdown([done = std::move(done)]() mutable { done(true); }); })
        .has_value();
  }
  bool serves(std::uint8_t n) {
    return eventually([&] {
      const auto report = answer<NodeReport>([this](auto done) { node_->report(std::move(done)); });
      return report && std::ranges::any_of(report->volumes, [n](const VolumeReport& volume) {
               return volume.id == numbered(n) && volume.mirror.serving;
             });
    });
  }
  /// Of a volume in files. The metadata's has room for a larger volume already.
  void open_with_held_metadata(engine::IoUring& ring, const ReplicaPlace& place, const Uuid& volume,
                               engine::NodeSide side, engine::Callback<Result<OpenedReplica>> done) {
    const std::uint64_t larger = std::uint64_t{1} << 20;
    ASSERT_TRUE(engine::FileStore::extend(place.metadata, larger, engine::Allocation::allocated));
    auto data = engine::FileStore::open(ring, place.data, std::filesystem::file_size(place.data));
    auto file = engine::FileStore::open(ring, place.metadata, larger);
    ASSERT_TRUE(data && file);
    auto metadata = std::make_unique<HeldStore>(std::move(*file));
    disks_[volume] = metadata.get();
    auto opened = std::make_shared<OpenedReplica>();
    opened->stores.data = std::move(*data);
    opened->stores.metadata = std::move(metadata);
    engine::MetadataArea::open(
        *opened->stores.metadata, volume, side, [&ring, opened, done = std::move(done)](auto area) mutable {
          if (area) opened->area = std::move(*area);
          ring.reactor().post([opened, done = std::move(done)]() mutable { done(std::move(*opened)); });
        });
  }
  void hold(std::uint8_t n) {
    on_home<bool>([&] { return disks_.at(numbered(n))->hold(), true; });
  }
  /// What reads it from its disk, to attach it. Its worker is the first one.
  void hold_opening(std::uint8_t n) {
    on_home<bool>([&] { return opening_[numbered(n)].held = true; });
  }
  void release_opening(std::uint8_t n) {
    on_home<bool>([&] {
      Opening& opening = opening_.at(numbered(n));
      opening.held = false;
      if (auto end = std::exchange(opening.ended, {})) end();
      return true;
    });
  }
  bool is_opening(std::uint8_t n) {
    return on_home<bool>([&] { return bool(opening_.at(numbered(n)).ended); });
  }
  void release(std::uint8_t n) {
    on_home<bool>([&] { return disks_.at(numbered(n))->release(), true; });
  }
  bool owes(std::uint8_t n) {
    return on_home<bool>([&] { return disks_.at(numbered(n))->owes() > 0; });
  }

  test::TemporaryFolder folder_;
  engine::SystemRandom random_;
  Workers workers_;
  NoEvents events_;
  std::map<Uuid, HeldStore*> disks_;
  struct Opening {
    bool held = false;
    engine::Callback<> ended;
  };
  std::map<Uuid, Opening> opening_;
  bool may_hold_ = true;         ///< the stores of what is attached; such a volume can't be lengthened
  bool holds_metadata_ = false;  ///< the metadata's instead
  std::unique_ptr<Node> node_;

 private:
  static std::string told(Answer answer) {
    if (answer.wait_for(kSoon) != std::future_status::ready) return "no answer";
    const auto outcome = answer.get();
    return outcome ? "" : outcome.error().message;
  }
  std::uint64_t revision_ = 0;
  bool stopped_ = false;
};

}  // namespace lockstep::data_plane::hanging
