#include "tests/simulation/pair_program.hpp"

#include <algorithm>
#include <cassert>
#include <functional>
#include <map>
#include <utility>

#include "engine/metadata/metadata_area.hpp"
#include "replication/core/messages.hpp"
#include "tests/simulation/grower.hpp"
#include "tests/simulation/node_shards.hpp"
#include "tests/simulation/read_message.hpp"
#include "tests/simulation/scratch_store.hpp"

namespace lockstep::simulation {

namespace {

using engine::Callback;
using engine::MetadataArea;
using engine::Result;
using engine::Uuid;
using replication::PairNode;

using OpenResult = Result<std::unique_ptr<MetadataArea>>;

replication::NodeSettings settings_for(Machine& m) {
  const Scenario& s = m.scenario;
  replication::NodeSettings settings;
  settings.pair = s.pair;
  settings.side = m.side;
  for (auto& byte : settings.process.bytes) byte = static_cast<std::uint8_t>(m.random.next());
  if (!m.process.is_nil()) settings.process = m.process;
  settings.boot = m.clock.boot();
  settings.witness_refresh = engine::Duration(2 * s.lease);
  settings.lease = engine::Duration(s.lease);
  settings.heartbeat_interval = engine::Duration(s.heartbeat);
  if (s.longer_lease != 0 && m.side == engine::NodeSide::b) {
    settings.lease = engine::Duration(s.longer_lease);
    settings.heartbeat_interval = settings.lease / (s.lease / s.heartbeat);
  }
  if (m.lease.lease != 0) {
    settings.lease = engine::Duration(m.lease.lease);
    settings.other_lease = engine::Duration(m.lease.other);
    settings.heartbeat_interval = settings.lease / (s.lease / s.heartbeat);
  }
  settings.dirty_bound = s.dirty_bound;
  settings.clean_after = engine::Duration(s.clean_after);
  settings.resync_ceiling = s.resync_ceiling;
  settings.resync_floor = s.resync_ceiling == 0 ? s.resync_floor : s.resync_ceiling;
  settings.store_deadline = settings.store_silence = engine::Duration(s.store_deadline);
  if (s.link_orders.requests != 0) settings.link_orders = s.link_orders;
  if (s.link_forwards.requests != 0) settings.link_forwards = s.link_forwards;
  if (s.link_copies.requests != 0) settings.link_copies = s.link_copies;
  settings.confirms_reads = s.faults.pause || s.virtual_machines;
  return settings;
}

engine::VolumeIdentity identity_of(const Machine& m, unsigned volume) {
  const engine::DiskInfo& disk = m.scenario.volumes[volume];
  engine::VolumeIdentity id;
  id.pair = m.scenario.pair;
  id.volume = disk.id;
  id.owner = m.side;
  id.name = disk.name;
  id.serial = disk.serial;
  id.size = disk.size;
  id.block_size = disk.block_size;
  id.region_size = m.scenario.region_size;
  return id;
}

/// What is in force at first came from the disk, and need not be in force at all.
struct StateOutlet final : scsi::LuStateListener {
  StateOutlet(ProgramOutlet& to, unsigned of) : outlet(to), volume(of) {}
  void on_state(const scsi::LuState& state, std::span<const scsi::LuEvent>) override {
    std::exchange(first, false) ? outlet.state_loaded(volume, state) : outlet.state_installed(volume, state);
  }
  ProgramOutlet& outlet;
  unsigned volume;
  bool first = true;
};

/// What opening an image gives: nothing when it is refused.
std::unique_ptr<MetadataArea> open_now(ScratchStore& store, const Scenario& scenario, engine::NodeSide side,
                                       unsigned volume, std::error_code& why) {
  std::unique_ptr<MetadataArea> found;
  MetadataArea::open(store, scenario.volumes[volume].id, side, [&](OpenResult area) {
    if (area) {
      found = std::move(*area);
    } else {
      why = area.error().code;
    }
  });
  store.drain();
  return found;
}

class PairProgram final : public Program, public replication::NodeObserver {
 public:
  explicit PairProgram(Machine& machine) : PairProgram(machine, settings_for(machine)) {}
  PairProgram(Machine& machine, const replication::NodeSettings& settings)
      : machine_(machine), process_(settings.process), left_records_(machine.clock, machine.left_records) {
    if (machine.threads.size() == 1) {
      const ShardParts all{0, machine.clock, machine.witness, machine.fence, left_records_, nullptr, *this};
      shards_.push_back(std::make_unique<MirrorShard>(machine, settings, all));
      return;
    }
    shared_ = std::make_unique<SharedByShards>(
        machine, left_records_, [this](unsigned shard) { join_fence(shard); },
        [this](unsigned shard) { shard_changed(shard); }, [this](const std::string& why) { on_set_back(why); });
    for (unsigned shard = 0; shard < machine.threads.size(); ++shard) {
      shards_.push_back(std::make_unique<MirrorShard>(machine, settings, shared_->parts_of(shard)));
      watch_thread(shard, settings.lease, settings.other_lease);
    }
    for (unsigned v = 0; v < volumes(); ++v) shared_->volumes().put(id_of(v), shard_of(v));
  }

  ~PairProgram() override {
    if (shared_) shared_->close();
    shards_.clear();
  }

  void start() override {
    start_early_ = machine_.random.chance(500'000) && !machine_.scenario.attaches_first;
    for (unsigned shard = 0; shard < shards_.size(); ++shard) {
      if (start_early_ || volumes_in(shard) == 0) shards_[shard]->node().start();
    }
    for (unsigned v = 0; v < volumes(); ++v) open(v);
  }

  engine::Uuid process() const override { return process_; }
  engine::Disk* disk(unsigned volume) override { return node_of(volume).disk(id_of(volume)); }

  std::optional<replication::VolumeStatus> status(unsigned volume) override {
    for (auto& s : node_of(volume).status()) {
      if (s.volume == id_of(volume)) return std::move(s);
    }
    return std::nullopt;
  }

  unsigned shard_of(unsigned volume) const override { return shards_.size() == 1 ? 0 : machine_.shards[volume]; }
  void post(unsigned thread, Callback<> work) override { shared_->thread(thread).post(std::move(work)); }
  engine::TimePoint came_since(unsigned thread) override { return shared_->stalls(thread).came_since(); }
  void use_fence(bool on) override {
    if (shared_) post(0, [this, on] { shared_->use_fence(on); });
  }

  replication::LinkEvents& link_events() override { return shards_.front()->node(); }
  replication::LinkEvents& path_events(std::size_t path) override {
    const std::size_t each = machine_.paths.size() / shards_.size();
    return shards_[path / each]->path_events(path % each);
  }
  void change_path(std::size_t path) override {
    const std::size_t each = machine_.paths.size() / shards_.size();
    shards_[path / each]->change_path(path % each);
  }

  std::optional<engine::Knowledge> learnt(unsigned volume) override {
    ScratchStore store(machine_.stores[volume].metadata->stable());
    std::error_code why;
    const auto area = open_now(store, machine_.scenario, machine_.side, volume, why);
    return area ? std::optional(area->knowledge()) : std::nullopt;
  }

  void leave(unsigned volume, Said said) override {
    if (disk(volume) == nullptr) return;
    auto left = [this, volume, said = std::move(said)](Result<void> done) mutable {
      machine_.trace.add(letter(machine_.owner), "operator.left", {{"volume", volume}, {"agreed", done.has_value()}});
      if (!done) machine_.trace.note(letter(machine_.owner), done.error().message);
      said(std::move(done));
    };
    with(volume, [this, volume, left = std::move(left)](PairNode& node) mutable {
      node.leave(id_of(volume), std::move(left));
    });
  }

  void attach_again(unsigned volume) override {
    detach(volume, [this, volume] { open(volume); });
  }

  void replace_copy(unsigned volume, Survivor survivor) override {
    detach(volume, [this, volume, survivor = std::move(survivor)] {
      const auto record = survivor();
      machine_.trace.add(letter(machine_.owner), "operator.replaces",
                         {{"volume", volume}, {"new", record.has_value()}});
      record ? make_blank(volume, *record) : open(volume);
    });
  }

  void look_at_witness_again() override {
    with_each([](unsigned, PairNode& node) { node.look_at_witness_again(); });
  }
  void set_lease(Nanos lease, Nanos other) override {
    with_each([this, lease = engine::Duration(lease), other = engine::Duration(other)](unsigned shard, PairNode& node) {
      node.set_lease(lease, other);
      if (shared_) watch_thread(shard, lease, other);
    });
  }
  /// Held when all shards that have volumes hold it.
  PairNode::LeaseStatus lease() override {
    PairNode::LeaseStatus all = node_of(0).lease();
    for (unsigned v = 1; v < volumes(); ++v) {
      const PairNode::LeaseStatus one = node_of(v).lease();
      all.settled &= one.settled;
      if (one.held != all.held) all.held = {};
    }
    return all;
  }
  void set_write_cache(unsigned volume, bool on, std::function<void()> told) override {
    with(volume, [id = id_of(volume), on, told = std::move(told)](PairNode& node) {
      node.set_write_cache(id, on, [told] { told(); });
    });
  }

  void force_solo(unsigned volume, bool accept_inconsistent, Said done) override {
    with(volume, [id = id_of(volume), accept_inconsistent, done = std::move(done)](PairNode& node) mutable {
      node.force_solo(id, accept_inconsistent, std::move(done));
    });
  }
  void give_up(unsigned volume, Said done) override {
    with(volume,
         [id = id_of(volume), done = std::move(done)](PairNode& node) mutable { node.give_up(id, std::move(done)); });
  }

  void make_room(unsigned volume, std::uint64_t size, Callback<Result<void>> done) override {
    with(volume, [id = id_of(volume), size, done = std::move(done)](PairNode& node) mutable {
      node.make_room(id, size, std::move(done));
    });
  }
  void want_arbiter(unsigned volume, replication::ArbiterWish wish) override {
    with(volume, [id = id_of(volume), wish](PairNode& node) { node.want_arbiter(id, wish); });
  }
  void want_size(unsigned volume, std::uint64_t size) override {
    with(volume, [id = id_of(volume), size](PairNode& node) { node.want_size(id, size); });
  }
  /// This node's copy may have been set back since room was made, or another has taken its place. As lockstepd does
  /// with each volume that it is told of (mgmt/data_plane/node_apply.cpp), and again where it fails.
  void take_size(unsigned volume, std::uint64_t size) override {
    want_size(volume, size);
    make_room(volume, size, [this, volume, size](Result<void> made) {
      if (made || disk(volume) == nullptr) return;
      (void)clock_of(volume).call_after(std::chrono::milliseconds(200),
                                        [this, volume, size] { take_size(volume, size); });
    });
  }

  void detach(unsigned volume, Callback<> done) override {
    with(volume,
         [id = id_of(volume), done = std::move(done)](PairNode& node) mutable { node.detach(id, std::move(done)); });
  }
  void shutdown(Callback<> done) override {
    auto left = std::make_shared<std::size_t>(shards_.size());
    auto all = std::make_shared<Callback<>>(std::move(done));
    with_each([left, all](unsigned, PairNode& node) {
      node.shutdown([left, all] {
        if (--*left == 0) (*all)();
      });
    });
  }

  void on_volume_changed(const Uuid& id) override {
    for (unsigned v = 0; v < volumes(); ++v) {
      if (id_of(v) == id) machine_.outlet.volume_changed(v);
    }
  }
  void on_set_back(const std::string& why) override { machine_.outlet.found_set_back(why); }
  /// As on a node with several reactors, where sessions are closed a moment later, and what they brought comes later
  /// still.
  void on_fenced(Callback<> closed) override {
    if (!machine_.scenario.late_closes) return machine_.outlet.fenced(), closed();
    const auto moment = [this] { return std::chrono::microseconds(machine_.random.below(2'000)); };
    (void)machine_.clock.call_after(moment(), [this, later = moment(), closed = std::move(closed)]() mutable {
      machine_.outlet.fenced();
      (void)machine_.clock.call_after(later, std::move(closed));
    });
  }

 private:
  [[nodiscard]] unsigned volumes() const { return static_cast<unsigned>(machine_.scenario.volumes.size()); }
  [[nodiscard]] const Uuid& id_of(unsigned volume) const { return machine_.scenario.volumes[volume].id; }
  [[nodiscard]] PairNode& node_of(unsigned volume) { return shards_[shard_of(volume)]->node(); }
  [[nodiscard]] engine::Clock& clock_of(unsigned volume) { return shards_[shard_of(volume)]->clock(); }
  [[nodiscard]] std::size_t volumes_in(unsigned shard) const {
    std::size_t count = 0;
    for (unsigned v = 0; v < volumes(); ++v) count += shard_of(v) == shard;
    return count;
  }

  /// Where the volume's mirror lives: at once where there is one alone.
  void with(unsigned volume, Callback<PairNode&> work) {
    if (!shared_) return work(node_of(volume));
    post(shard_of(volume), [this, volume, work = std::move(work)]() mutable { work(node_of(volume)); });
  }
  void with_each(const std::function<void(unsigned, PairNode&)>& work) {
    if (!shared_) return work(0, shards_.front()->node());
    for (unsigned shard = 0; shard < shards_.size(); ++shard) {
      post(shard, [this, shard, work] { work(shard, shards_[shard]->node()); });
    }
  }

  /// From the home thread, as Pair::tell().
  void join_fence(unsigned shard) {
    if (shard == 0) return shards_.front()->node().fence();
    post(shard, [this, shard] { shards_[shard]->node().fence(); });
  }
  void shard_changed(unsigned shard) {
    for (unsigned v = 0; v < volumes(); ++v) {
      if (shard_of(v) == shard) machine_.outlet.volume_changed(v);
    }
  }
  void watch_thread(unsigned thread, engine::Duration lease, engine::Duration other) {
    shared_->stalls(thread).watch(other.count() == 0 ? lease : std::min(lease, other));
  }

  void open(unsigned volume) {
    machine_.stores[volume].data->opened_anew();
    machine_.stores[volume].metadata->opened_anew();
    MetadataArea::open(*machine_.stores[volume].metadata, machine_.scenario.volumes[volume].id, machine_.side,
                       [this, volume, before = machine_.stores[volume].metadata->failed()](OpenResult area) {
                         opened(volume, std::move(area), machine_.stores[volume].metadata->failed() != before);
                       });
  }

  /// All at once, as files get their names: a cut leaves the old copy or the new one.
  void make_blank(unsigned volume, const engine::EpochRecord& record) {
    VolumeStores& stores = machine_.stores[volume];
    for (SimStore* store : {stores.data.get(), stores.metadata.get()}) store->become_new();
    engine::VolumeIdentity identity = identity_of(machine_, volume);
    identity.size = std::max(record.size, wanted_of(volume));
    ScratchStore metadata(stores.metadata->visible());
    const auto made = [this](const OpenResult& area) {
      if (!area) machine_.verdict.fail("a new copy's metadata can't be laid out: " + area.error().message);
    };
    MetadataArea::format(metadata, identity, record, engine::InitialMap::all_dirty, made);
    metadata.drain();
    stores.metadata->poke(0, metadata.bytes());
    open(volume);
  }

  /// A replica that was away while its volume grew makes room before it is attached.
  void opened(unsigned volume, OpenResult area, bool store_failed) {
    const std::uint64_t wanted = wanted_of(volume);
    if (!area || (*area)->identity().size >= wanted) return attach(volume, std::move(area), store_failed);
    opening_.push_back(std::move(*area));
    MetadataArea& growing = *opening_.back();
    growing.grow(wanted, [this, volume, &growing](std::error_code error) {
      // In a later event: the area that calls may be closed by what follows.
      (void)clock_of(volume).call_after({}, [this, volume, &growing, error] { grown(volume, growing, error); });
    });
  }

  void grown(unsigned volume, MetadataArea& growing, std::error_code error) {
    const auto at = std::ranges::find(opening_, &growing, &std::unique_ptr<MetadataArea>::get);
    std::unique_ptr<MetadataArea> area = std::move(*at);
    opening_.erase(at);
    if (!error) return attach(volume, std::move(area), false);
    area.reset();
    attach(volume, std::unexpected(engine::Error{error, "The metadata can't grow: " + error.message() + "."}), true);
  }

  [[nodiscard]] std::uint64_t wanted_of(unsigned volume) const {
    return volume == Grower::kVolume ? machine_.wanted_size : 0;
  }

  void attach(unsigned volume, OpenResult area, bool store_failed) {
    if (!area) {
      machine_.trace.add(letter(machine_.owner), "metadata.refused", {{"volume", volume}});
      machine_.trace.note(letter(machine_.owner), area.error().message);
      if (!store_failed) return machine_.outlet.attach_refused(volume, area.error());
      (void)clock_of(volume).call_after(std::chrono::milliseconds(200), [this, volume] { open(volume); });
      return;
    }
    replication::VolumeSettings settings{machine_.scenario.volumes[volume]};
    const auto attached = node_of(volume).attach(std::move(settings), *machine_.stores[volume].data, std::move(*area));
    if (!attached) return machine_.outlet.attach_refused(volume, attached.error());
    disk(volume)->set_state_listener(std::make_shared<StateOutlet>(machine_.outlet, volume));
    machine_.trace.add(letter(machine_.owner), "volume.attached", {{"volume", volume}});
    if (wanted_of(volume) != 0) take_size(volume, wanted_of(volume));
    want_arbiter(volume, machine_.wish);
    machine_.outlet.volume_changed(volume);
    const unsigned shard = shard_of(volume);
    if (++attached_[shard] == volumes_in(shard) && !start_early_) node_of(volume).start();
  }

  Machine& machine_;
  const Uuid process_;
  SimLeftRecords left_records_;
  std::unique_ptr<SharedByShards> shared_;  // none where there is one shard
  std::vector<std::unique_ptr<MirrorShard>> shards_;
  std::vector<std::unique_ptr<MetadataArea>> opening_;  // those that make room first
  std::map<unsigned, std::size_t> attached_;            // times, in each shard
  bool start_early_ = false;
};

void format(Machine& m) {
  for (unsigned v = 0; v < m.scenario.volumes.size(); ++v) {
    engine::EpochRecord epoch;
    epoch.number = 1;
    epoch.id = m.scenario.first_epoch;
    epoch.members = engine::MemberSet::both();
    epoch.sequencer = m.scenario.first_sequencer;
    epoch.size = m.scenario.volume_size();
    epoch.arbiter = m.scenario.arbiter;
    bool done = false;
    MetadataArea::format(*m.stores[v].metadata, identity_of(m, v), epoch,
                         m.scenario.born_dirty ? engine::InitialMap::all_dirty : engine::InitialMap::clean,
                         [&](OpenResult area) {
                           if (!area) m.verdict.fail("metadata can't be laid out: " + area.error().message);
                           done = true;
                         });
    while (!done && m.scheduler.step()) {
    }
  }
}

std::optional<std::string> corruption_probe(Machine& m, unsigned volume, SimRandom& random) {
  SimStore& real = *m.stores[volume].metadata;
  ScratchStore whole(real.visible());
  ScratchStore damaged(real.visible());
  const std::uint64_t at = random.below(real.info().size);
  damaged.bytes()[at] ^= std::byte{static_cast<unsigned char>(1u << random.below(8))};
  const std::vector<std::byte> image(damaged.bytes().begin(), damaged.bytes().end());
  std::error_code why;
  const auto good = open_now(whole, m.scenario, m.side, volume, why);
  if (good == nullptr) return "a replica's metadata can't be opened after a crash: " + why.message();
  const auto bad = open_now(damaged, m.scenario, m.side, volume, why);
  m.trace.add(letter(m.owner), "metadata.bit_flip", {{"volume", volume}, {"at", at}, {"opened", bad != nullptr}});
  const std::string where = "promise 6: with a bit flipped at byte " + std::to_string(at) + " of the metadata, ";
  if (bad == nullptr) return why ? std::nullopt : std::optional(where + "opening it says neither yes nor no");
  const bool older_of_a_torn_pair = good->epoch().descends_from(bad->epoch());
  engine::VolumeIdentity identity = bad->identity();
  // The older superblock of a volume that grew says less room, and is right as long as nothing is served beyond it.
  if (identity.size >= bad->epoch().size) identity.size = good->identity().size;
  if (!older_of_a_torn_pair || identity != good->identity()) return where + "it is opened as something else";
  if (bad->epoch() == good->epoch()) {
    for (std::uint64_t r = 0; r < good->region_count(); ++r) {
      if (good->is_dirty(r) && !bad->is_dirty(r)) return where + "a dirty bit is lost";
    }
    real.poke(at / SimStore::kSector * SimStore::kSector,
              std::span(image).subspan(at / SimStore::kSector * SimStore::kSector, SimStore::kSector));
  }
  return std::nullopt;
}

std::optional<engine::EpochRecord> recorded(const Scenario& scenario, engine::NodeSide side, unsigned volume,
                                            std::span<const std::byte> metadata) {
  ScratchStore store(metadata);
  std::error_code why;
  const auto area = open_now(store, scenario, side, volume, why);
  return area ? std::optional(area->epoch()) : std::nullopt;
}

}  // namespace

const ProgramKind& pair_program() {
  static const ProgramKind kind{
      [](const Scenario& s) { return MetadataArea::size_with_state(s.largest_size(), s.region_size); },
      format,
      [](Machine& m) -> std::unique_ptr<Program> { return std::make_unique<PairProgram>(m); },
      corruption_probe,
      read_message,
      true,
      true,
      true,
      [](std::span<const std::byte> header) {
        return replication::is_heartbeat(header) || replication::frame_goes_ahead(header);
      },
      recorded,
      true,
      true,
      true,
  };
  return kind;
}

}  // namespace lockstep::simulation
