#include "tests/simulation/pair_program.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

#include "engine/metadata/metadata_area.hpp"
#include "engine/runtime/buffer_pool.hpp"
#include "replication/core/messages.hpp"
#include "tests/simulation/grower.hpp"
#include "tests/simulation/node_paths.hpp"
#include "tests/simulation/read_message.hpp"
#include "tests/simulation/scratch_store.hpp"

namespace lockstep::simulation {

namespace {

using engine::Callback;
using engine::MetadataArea;
using engine::Result;
using engine::Uuid;
using replication::PairNode;

constexpr std::size_t kPoolBytes = std::size_t{64} << 20;
using OpenResult = Result<std::unique_ptr<MetadataArea>>;

replication::NodeSettings settings_for(Machine& m) {
  const Scenario& s = m.scenario;
  replication::NodeSettings settings;
  settings.pair = s.pair;
  settings.side = m.side;
  for (auto& byte : settings.process.bytes) byte = static_cast<std::uint8_t>(m.random.next());
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

std::unique_ptr<replication::Fencing> fencing_for(Machine& m) {
  if (m.fence == nullptr) return nullptr;
  return std::make_unique<replication::Fencing>(m.clock, *m.fence, engine::Duration(m.scenario.heartbeat));
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
      : machine_(machine),
        pool_(kPoolBytes),
        left_records_(machine.clock, machine.left_records),
        fencing_(fencing_for(machine)),
        paths_(has_paths(machine) ? std::make_unique<NodePaths>(machine, settings.process) : nullptr),
        node_(std::make_unique<PairNode>(settings,
                                         replication::NodeSeams{machine.clock, machine.random, pool_, link(),
                                                                machine.witness, &left_records_, fencing_.get()},
                                         *this)) {
    if (paths_) paths_->start(*node_);
  }

  ~PairProgram() override {
    if (paths_) paths_->out().stop();
    node_.reset();
    paths_.reset();
    fencing_.reset();
    if (pool_.in_use() != 0) {
      machine_.verdict.fail("a process that ended left " + std::to_string(pool_.in_use()) + " bytes of buffers in use");
    }
  }

  void start() override {
    start_early_ = machine_.random.chance(500'000);
    if (start_early_) node_->start();
    for (unsigned v = 0; v < machine_.scenario.volumes.size(); ++v) open(v);
  }

  engine::Disk* disk(unsigned volume) override { return node_->disk(machine_.scenario.volumes[volume].id); }

  std::optional<replication::VolumeStatus> status(unsigned volume) override {
    for (auto& s : node_->status()) {
      if (s.volume == machine_.scenario.volumes[volume].id) return std::move(s);
    }
    return std::nullopt;
  }

  replication::LinkEvents& link_events() override { return *node_; }
  replication::LinkEvents& path_events(std::size_t path) override {
    return paths_ ? paths_->events_of(path) : link_events();
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
    node_->leave(machine_.scenario.volumes[volume].id, std::move(left));
  }

  void attach_again(unsigned volume) override {
    node_->detach(machine_.scenario.volumes[volume].id, [this, volume] {
      machine_.stores[volume].data->opened_anew();
      machine_.stores[volume].metadata->opened_anew();
      open(volume);
    });
  }

  void replace_copy(unsigned volume, Survivor survivor) override {
    node_->detach(machine_.scenario.volumes[volume].id, [this, volume, survivor = std::move(survivor)] {
      const auto record = survivor();
      machine_.trace.add(letter(machine_.owner), "operator.replaces",
                         {{"volume", volume}, {"new", record.has_value()}});
      record ? make_blank(volume, *record) : open(volume);
    });
  }

  void look_at_witness_again() override { node_->look_at_witness_again(); }
  void set_lease(Nanos lease, Nanos other) override {
    node_->set_lease(engine::Duration(lease), engine::Duration(other));
  }
  replication::PairNode::LeaseStatus lease() override { return node_->lease(); }
  void set_write_cache(unsigned volume, bool on) override {
    node_->set_write_cache(machine_.scenario.volumes[volume].id, on);
  }

  void force_solo(unsigned volume, bool accept_inconsistent, Said done) override {
    node_->force_solo(machine_.scenario.volumes[volume].id, accept_inconsistent, std::move(done));
  }
  void give_up(unsigned volume, Said done) override {
    node_->give_up(machine_.scenario.volumes[volume].id, std::move(done));
  }

  void make_room(unsigned volume, std::uint64_t size, Callback<Result<void>> done) override {
    node_->make_room(machine_.scenario.volumes[volume].id, size, std::move(done));
  }
  void want_arbiter(unsigned volume, replication::ArbiterWish wish) override {
    node_->want_arbiter(machine_.scenario.volumes[volume].id, wish);
  }
  void want_size(unsigned volume, std::uint64_t size) override {
    node_->want_size(machine_.scenario.volumes[volume].id, size);
  }
  /// This node's copy may have been set back since room was made, or another has taken its place. As lockstepd does
  /// with each volume that it is told of (mgmt/data_plane/node_apply.cpp), and again where it fails.
  void take_size(unsigned volume, std::uint64_t size) override {
    want_size(volume, size);
    make_room(volume, size, [this, volume, size](Result<void> made) {
      if (made || disk(volume) == nullptr) return;
      (void)machine_.clock.call_after(std::chrono::milliseconds(200),
                                      [this, volume, size] { take_size(volume, size); });
    });
  }

  void detach(unsigned volume, Callback<> done) override {
    node_->detach(machine_.scenario.volumes[volume].id, std::move(done));
  }
  void shutdown(Callback<> done) override { node_->shutdown(std::move(done)); }

  void on_volume_changed(const Uuid& id) override {
    for (unsigned v = 0; v < machine_.scenario.volumes.size(); ++v) {
      if (machine_.scenario.volumes[v].id == id) machine_.outlet.volume_changed(v);
    }
  }
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
  static bool has_paths(const Machine& machine) { return machine.paths.size() > 1 || machine.scenario.several_paths; }
  replication::Link& link() { return paths_ ? static_cast<replication::Link&>(paths_->out()) : machine_.link; }

  void open(unsigned volume) {
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
      (void)machine_.clock.call_after({}, [this, volume, &growing, error] { grown(volume, growing, error); });
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
      (void)machine_.clock.call_after(std::chrono::milliseconds(200), [this, volume] { open(volume); });
      return;
    }
    replication::VolumeSettings settings{machine_.scenario.volumes[volume]};
    const auto attached = node_->attach(std::move(settings), *machine_.stores[volume].data, std::move(*area));
    if (!attached) return machine_.outlet.attach_refused(volume, attached.error());
    disk(volume)->set_state_listener(std::make_shared<StateOutlet>(machine_.outlet, volume));
    machine_.trace.add(letter(machine_.owner), "volume.attached", {{"volume", volume}});
    if (wanted_of(volume) != 0) take_size(volume, wanted_of(volume));
    want_arbiter(volume, machine_.wish);
    machine_.outlet.volume_changed(volume);
    if (++attached_ == machine_.scenario.volumes.size() && !start_early_) node_->start();
  }

  Machine& machine_;
  engine::BufferPool pool_;
  SimLeftRecords left_records_;
  std::unique_ptr<replication::Fencing> fencing_;
  std::unique_ptr<NodePaths> paths_;  // none: the mirror has the one path's sessions themselves
  std::unique_ptr<PairNode> node_;
  std::vector<std::unique_ptr<MetadataArea>> opening_;  // those that make room first
  std::size_t attached_ = 0;
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
