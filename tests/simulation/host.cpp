#include "tests/simulation/host.hpp"

#include <algorithm>
#include <utility>

#include "tests/simulation/world.hpp"

namespace lockstep::simulation {

using engine::NodeSide;
using replication::MirrorState;

const char* state_name(MirrorState state) {
  static constexpr const char* kNames[] = {"starting",  "in_sync", "solo",        "syncing_source", "syncing_target",
                                           "suspended", "waiting", "split_brain", "failed",         "left"};
  return kNames[static_cast<std::size_t>(state)];
}

Host::Host(World& world, engine::NodeSide side, SimRandom random)
    : world_(world), side_(side), owner_(side == engine::NodeSide::a ? Owner::node_a : Owner::node_b), random_(random) {
  const Scenario& scenario = world.scenario;
  clock_ = std::make_unique<SimClock>(world.scheduler, random_.split(), owner_,
                                      scenario.clock_rate[static_cast<std::size_t>(side)]);
  witness_ = std::make_unique<WitnessClient>(world.scheduler, world.trace, random_.split(), owner_, world.witness);
  slow_witness_ = std::make_unique<SlowWitness>(
      world.scheduler, SimRandom(scenario.seed ^ 0x736c6f77u ^ static_cast<std::uint64_t>(side)), owner_, *witness_);
  fence_ = std::make_unique<SimFence>(world, side, owner_, *clock_);
  if (scenario.shards > 1) {
    SimRandom timers(scenario.seed ^ 0x7365636f6e64 ^ static_cast<std::uint64_t>(side));
    second_clock_ = std::make_unique<SimClock>(world.scheduler, timers, owner_of(side, 1), *clock_);
  }
  const SimStore::World seams{world.scheduler, world.trace, world.verdict};
  for (const engine::DiskInfo& disk : scenario.volumes) {
    VolumeStores stores;
    stores.data =
        std::make_unique<SimStore>(seams, random_.split(), owner_, disk.name + ".data", scenario.largest_size());
    stores.data->set_encrypts(disk.encrypted);
    stores.metadata = std::make_unique<SimStore>(seams, random_.split(), owner_, disk.name + ".meta",
                                                 world.kind.metadata_size(scenario));
    StoreFaults faults;
    faults.slowest = scenario.slowest_store;
    stores.data->set_faults(faults);
    stores.metadata->set_faults(faults);
    stores.data->expect_reserved(world.kind.replicates);
    stores.data->set_flushes_what_is_applied(scenario.cached);
    stores_.push_back(std::move(stores));
  }
  states_.resize(scenario.volumes.size(), MirrorState::starting);
  epochs_.resize(scenario.volumes.size(), 0);
  failing_.resize(scenario.volumes.size());
  place_volumes();
}

Host::~Host() {
  if (running()) end(End::killed);
}

SimLink& Host::way_out() { return world_.way_from(side_); }
bool Host::thread_is_frozen(unsigned thread) const { return world_.scheduler.frozen(owner_of(side_, thread)); }
bool Host::frozen() const { return thread_is_frozen(0) || thread_is_frozen(1); }

/// Now and then by a configuration that was taken over half. Not when everything is mended.
void Host::place_volumes() {
  const Scenario& s = world_.scenario;
  SimRandom random(s.seed ^ 0x706c616365 ^ (life_ * 2 + static_cast<std::uint64_t>(side_)) * 0x9E3779B97F4A7C15);
  const bool drawn = s.faults.misplaced && world_.scheduler.now() < s.duration && random.chance(150'000);
  const std::uint64_t which = random.below(s.volumes.size());
  const std::optional<unsigned> misplaced = drawn ? static_cast<unsigned>(which) : std::exchange(to_misplace_, {});
  shards_.clear();
  for (unsigned v = 0; v < s.volumes.size(); ++v) {
    const unsigned shard = s.shard_of(v);
    shards_.push_back(misplaced == v ? 1 - shard : shard);
    for (SimStore* store : {stores_[v].data.get(), stores_[v].metadata.get()}) {
      store->belong_to(owner_of(side_, shards_.back()));
    }
    if (shards_[v] != shard) world_.trace.add(name(), "volume.misplaced", {{"volume", v}});
  }
}

bool Host::misplaces() const {
  for (unsigned v = 0; v < shards_.size(); ++v) {
    if (shards_[v] != world_.scenario.shard_of(v)) return true;
  }
  return false;
}

std::unique_ptr<Machine> Host::machine() {
  const bool may_ask = world_.scenario.changes_arbiter || world_.scenario.arbiter.kind == engine::ArbiterKind::witness;
  replication::Witness* witness = may_ask ? slow_witness_.get() : nullptr;
  const bool may_fence = world_.scenario.fences_in_use || world_.scenario.arbiter.kind == engine::ArbiterKind::fence;
  replication::Fence* fence = may_fence ? fence_.get() : nullptr;
  std::vector<MachineThread> threads{{owner_, *clock_}};
  if (second_clock_) threads.push_back({owner_of(side_, 1), *second_clock_});
  return std::unique_ptr<Machine>(new Machine{side_,
                                              world_.scenario,
                                              world_.trace,
                                              world_.verdict,
                                              world_.scheduler,
                                              owner_,
                                              *clock_,
                                              random_.split(),
                                              way_out(),
                                              witness,
                                              fence,
                                              stores_,
                                              left_records_,
                                              world_.wanted_size,
                                              world_.arbiter_changer->wish(side_),
                                              world_.lease_changer->told(side_),
                                              *this,
                                              world_.paths_from(side_),
                                              std::move(threads),
                                              shards_,
                                              witness_->uses(),
                                              same_process_});
}

void Host::format() {
  const auto m = machine();
  world_.kind.format(*m);
}

void Host::boot() {
  if (lost_power_) clock_->reboot();
  lost_power_ = false;
  stopping_ = false;
  ++life_;
  booted_at_ = world_.scheduler.now();
  world_.trace.add(name(), "node.boot", {{"life", life_}});
  for (auto& s : stores_) {
    s.data->set_open(true);
    s.metadata->set_open(true);
  }
  place_volumes();
  world_.caches->booted();
  machine_ = machine();
  program_ = world_.kind.start(*machine_);
  found_set_back_ = false;
  went_back_ = !std::exchange(same_process_, {}).is_nil();
  if (world_.scenario.faults.memory || remembers_) keep_memory();
  program_->start();
  for (std::size_t path = 0; path < world_.networks.size(); ++path) {
    world_.paths_from(engine::other(side_))[path]->receiver_started(program_->path_events(path), speaks());
    world_.paths_from(side_)[path]->sender_started(program_->path_events(path), speaks());
  }
}

/// Programs are upgraded, and set back, when they start.
std::uint16_t Host::speaks() const {
  if (!world_.scenario.older_programs) return world_.scenario.link_version;
  SimRandom random(world_.scenario.seed ^ (life_ * 2 + static_cast<std::uint64_t>(side_)) * 0x9E3779B97F4A7C15);
  const std::uint16_t highest = std::max(world_.scenario.link_version, replication::kPartnerVersions.highest);
  return random.chance(500'000) ? replication::kPartnerVersions.lowest : highest;
}

void Host::forget_events() {
  for (unsigned thread = 0; thread < world_.scenario.shards; ++thread) {
    world_.scheduler.forget(owner_of(side_, thread));
  }
}

void Host::clear_clocks() {
  clock_->clear();
  if (second_clock_) second_clock_->clear();
}

void Host::end(End how) {
  const bool silent = how == End::power_cut;
  world_.trace.add(name(), silent ? "node.power_cut" : "node.killed", {{"life", life_}});
  if (silent) lost_power_ = true;
  if (program_ == nullptr) {
    if (silent) {
      for (auto& s : stores_) {
        s.data->power_cut();
        s.metadata->power_cut();
      }
      world_.caches->ended(*this, true);
    }
    return;
  }
  forget_events();
  if (std::exchange(paused_, false)) clock_->resume();
  // The disks first: what they were writing may come from requests of the partner's, whose memory goes with the link.
  for (auto& s : stores_) {
    for (SimStore* store : {s.data.get(), s.metadata.get()}) {
      store->set_open(false);
      silent ? store->power_cut() : store->process_died();
    }
  }
  for (const auto& path : world_.paths_from(side_)) path->sender_died(silent);
  for (const auto& path : world_.paths_from(engine::other(side_))) path->receiver_died(silent);
  slow_witness_->clear();
  witness_->clear();
  fence_->clear();
  clear_clocks();
  program_.reset();
  // Whatever destructors have asked of the seams is dropped as well.
  slow_witness_->clear();
  witness_->clear();
  clear_clocks();
  forget_events();
  machine_.reset();
  stopping_ = false;
  for (const auto& initiator : world_.initiators) initiator->host_ended(*this, silent);
  for (auto& state : states_) state = MirrorState::starting;
  world_.caches->ended(*this, silent);
}

void Host::shut_down() {
  if (!running() || stopping_) return;
  stopping_ = true;
  world_.trace.add(name(), "node.shutdown");
  const std::uint64_t life = life_;
  world_.scheduler.after(8 * kSecond, Owner::world, &Host::on_shutdown_late, this, life);
  program_->shutdown([this, life] {
    world_.trace.add(name(), "node.shutdown_done");
    world_.scheduler.after(0, Owner::world, &Host::on_shutdown_done, this, life);
  });
}

void Host::on_shutdown_late(void* self, std::uint64_t life) {
  auto& host = *static_cast<Host*>(self);
  if (host.running() && host.life_ == life) host.end(End::killed);
}

void Host::on_shutdown_done(void* self, std::uint64_t life) { on_shutdown_late(self, life); }

void Host::freeze() {
  world_.trace.add(name(), "node.freeze");
  frozen_since_ = world_.scheduler.now();
  for (unsigned thread = 0; thread < world_.scenario.shards; ++thread) {
    world_.scheduler.freeze(owner_of(side_, thread));
  }
}

void Host::freeze_thread(unsigned thread) {
  world_.trace.add(name(), "node.freeze_thread", {{"thread", thread}});
  frozen_since_ = world_.scheduler.now();
  world_.scheduler.freeze(owner_of(side_, thread));
}

void Host::pause() {
  freeze();
  paused_ = true;
  clock_->pause();
}

Host::Disks Host::disks_now() {
  Disks now;
  for (const VolumeStores& s : stores_) {
    now.stores.push_back(s.data->snapshot());
    now.stores.push_back(s.metadata->snapshot());
  }
  now.left = left_records_;
  now.generations.assign(stores_.size(), 0);
  for (unsigned v = 0; program_ != nullptr && v < stores_.size(); ++v) {
    if (const auto learnt = program_->learnt(v)) now.generations[v] = learnt->generation;
  }
  return now;
}

void Host::put_disks_back(const Disks& then) {
  for (std::size_t v = 0; v < stores_.size(); ++v) {
    stores_[v].data->set_back(then.stores[2 * v]);
    stores_[v].metadata->set_back(then.stores[2 * v + 1]);
  }
  left_records_ = then.left;
  world_.checkers->set_back(side_);
}

void Host::take_snapshot() {
  world_.trace.add(name(), "node.snapshot");
  snapshot_ = disks_now();
}

void Host::set_back() {
  world_.trace.add(name(), "node.set_back");
  put_disks_back(*snapshot_);
}

void Host::keep_memory() {
  memory_.emplace();
  static_cast<Disks&>(*memory_) = disks_now();
  memory_->process = program_->process();
  memory_->clock = clock_->now();
}

void Host::set_back_with_memory() {
  end(End::power_cut);
  world_.trace.add(name(), "node.set_back_with_memory");
  put_disks_back(*memory_);
  lost_power_ = false;
  same_process_ = memory_->process;
  clock_->set_back(memory_->clock);
  boot();
}

void Host::found_set_back(const std::string& why) {
  if (std::exchange(found_set_back_, true)) return;
  if (!went_back_) world_.verdict.fail("a process that was never set back takes itself for one that was: " + why);
  world_.trace.add(name(), "node.found_set_back");
  world_.trace.note(name(), why);
  world_.scheduler.after(random_.below(5 * kMillisecond), Owner::world, &Host::on_end_set_back, this, life_);
}

void Host::on_end_set_back(void* self, std::uint64_t life) {
  auto& host = *static_cast<Host*>(self);
  if (!host.running() || host.life_ != life) return;
  host.end(End::killed);
  host.world_.scheduler.after(kSecond, Owner::world, &Host::on_start_again, self, life);
}

void Host::on_start_again(void* self, std::uint64_t life) {
  auto& host = *static_cast<Host*>(self);
  if (!host.running() && host.life_ == life) host.boot();
}

bool Host::is_only_a_target(unsigned volume) const {
  const NodeSide partner = engine::other(side_);
  const auto survivor = world_.host(partner).status(volume);
  return survivor && survivor->serving && survivor->epoch.members == engine::MemberSet::only(partner);
}

void Host::replace_copy(unsigned volume) {
  world_.trace.add(name(), "operator.replace", {{"volume", volume}});
  program_->replace_copy(volume, [this, volume]() -> std::optional<engine::EpochRecord> {
    if (!is_only_a_target(volume)) return std::nullopt;
    engine::EpochRecord record = world_.host(engine::other(side_)).status(volume)->epoch;
    record.ancestors.clear();  // management is told the epoch's name only
    return record;
  });
}

void Host::thaw() {
  if (!frozen()) return;
  world_.trace.add(name(), "node.thaw");
  if (std::exchange(paused_, false)) clock_->resume();
  for (unsigned thread = 0; thread < world_.scenario.shards; ++thread) {
    if (thread_is_frozen(thread)) world_.scheduler.thaw(owner_of(side_, thread));
  }
}

std::optional<replication::VolumeStatus> Host::status(unsigned volume) {
  return program_ == nullptr ? std::nullopt : program_->status(volume);
}

std::optional<engine::EpochRecord> Host::recorded(unsigned volume) const {
  if (!world_.kind.recorded) return std::nullopt;
  return world_.kind.recorded(world_.scenario, side_, volume, stores_[volume].metadata->visible());
}

void Host::volume_changed(unsigned volume) {
  world_.scheduler.after(0, owner_of(side_, shards_[volume]), &Host::on_look, this, volume);
}

void Host::on_look(void* self, std::uint64_t volume) { static_cast<Host*>(self)->look(static_cast<unsigned>(volume)); }

void Host::look(unsigned volume) {
  const auto now = status(volume);
  if (!now) return;
  if (now->state != states_[volume] || now->epoch.number != epochs_[volume]) {
    world_.trace.add(name(), std::string("volume.") + state_name(now->state),
                     {{"volume", volume},
                      {"serving", now->serving},
                      {"epoch", now->epoch.number},
                      {"members", now->epoch.members.bits},
                      {"sequencer", static_cast<std::uint64_t>(now->epoch.sequencer)},
                      {"limited", now->failover_limited}});
    world_.nemesis->state_changed();
    if (world_.trace.printing() && !now->reason.empty()) world_.trace.note(name(), now->reason);
  }
  const bool fails = now->state == MirrorState::in_sync && !now->failover_limited && !now->reason.empty();
  if (fails && !failing_[volume]) world_.nemesis->store_failed(*this);
  failing_[volume] = fails;
  states_[volume] = now->state;
  epochs_[volume] = now->epoch.number;
  world_.grower->status_seen(volume, *now);
  world_.bad_sectors->status_seen(*this, volume, *now);
  world_.caches->status_seen(*this, volume, *now);
  world_.checkers->volume_seen(*this, volume, *now);
}

void Host::fenced() {
  ++fences_;
  world_.trace.add(name(), "node.fenced");
  for (const auto& initiator : world_.initiators) initiator->host_fenced(*this);
}

void Host::closed_on(unsigned thread) {
  if (thread == 0) ++fences_;
  world_.trace.add(name(), "node.closes_sessions", {{"thread", thread}});
  world_.nemesis->sessions_are_closed(*this);
  for (const auto& initiator : world_.initiators) {
    if (initiator->thread_at(*this) == thread) initiator->host_fenced(*this);
  }
}

void Host::state_loaded(unsigned volume, const scsi::LuState& state) { world_.states->loaded(*this, volume, state); }

void Host::state_installed(unsigned volume, const scsi::LuState& state) {
  world_.states->installed(*this, volume, state);
}

void Host::attach_refused(unsigned volume, const engine::Error& why) {
  world_.trace.add(name(), "volume.refused", {{"volume", volume}});
  world_.verdict.fail(std::string("node ") + name() + " refuses its own replica: " + why.message);
}

}  // namespace lockstep::simulation
