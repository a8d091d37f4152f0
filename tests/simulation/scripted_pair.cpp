#include "tests/simulation/scripted_pair.hpp"

#include <algorithm>
#include <cstdlib>

namespace lockstep::simulation {

using engine::DiskOpcode;
using engine::NodeSide;

namespace {
constexpr std::size_t kAlignment = 4096;

WorldOptions options_for(const ScriptedPair::Adjust& adjust) {
  WorldOptions options;
  options.without_faults = true;
  options.trace = std::getenv("LOCKSTEP_TRACE") != nullptr ? stdout : nullptr;
  options.adjust = [adjust](Scenario& s) {
    s.volumes.resize(1);
    s.region_size = 4096;
    s.regions = 64;
    s.grown_regions = 0;
    s.arbiter.kind = engine::ArbiterKind::witness;
    s.arbiter.address = "http://192.0.2.1:2379";
    s.first_sequencer = NodeSide::a;
    s.born_dirty = false;
    s.lease = kSecond;
    s.heartbeat = kSecond / 5;
    s.clean_after = kSecond;
    s.store_deadline = 2 * kSecond;
    s.dirty_bound = s.volume_size();
    s.resync_ceiling = 0;
    s.clock_rate[0] = s.clock_rate[1] = 1'000'000;
    s.initiators = s.operations = 0;
    s.slowest_store = s.slowest_link = kMillisecond;
    s.link_window = s.link_bytes_a_second = 0;
    s.link_orders = s.link_forwards = s.link_copies = {};
    adjust(s);
    s.volumes[0].size = s.volume_size();
  };
  return options;
}
}  // namespace

ScriptedPair::ScriptedPair(const ProgramKind& kind, const Adjust& adjust)
    : world_(std::make_unique<World>(options_for(adjust), kind)) {
  for (const NodeSide side : {NodeSide::a, NodeSide::b}) host(side).format();
  for (const NodeSide side : {NodeSide::a, NodeSide::b}) host(side).boot();
  wait_for([this] { return in_sync(); });
}

ScriptedPair::~ScriptedPair() = default;

ScriptedPair::Io& ScriptedPair::submit(NodeSide side, DiskOpcode opcode, std::uint64_t block, std::uint32_t count,
                                       int fill, unsigned volume) {
  Io& io = ios_.emplace_back();
  const std::size_t bytes = count * kBlock * (opcode == DiskOpcode::compare_and_write ? 2 : 1);
  io.memory.resize(bytes + kAlignment, static_cast<std::byte>(fill));
  void* at = io.memory.data();
  std::size_t space = io.memory.size();
  std::align(kAlignment, bytes, at, space);
  io.request.opcode = opcode;
  io.request.extent = {block * kBlock, count * kBlock};
  const bool carries = opcode != DiskOpcode::unmap && opcode != DiskOpcode::write_zeroes &&
                       opcode != DiskOpcode::flush && opcode != DiskOpcode::renew_key;
  if (carries) io.request.data = {static_cast<std::byte*>(at), bytes};
  if (opcode == DiskOpcode::unmap) io.request.may_unmap = true;
  if (opcode == DiskOpcode::flush) io.request.extent = {};
  return start(side, volume, io);
}

ScriptedPair::Io& ScriptedPair::write_of_the_unit(NodeSide side, std::uint64_t block, int fill) {
  Io& io = ios_.emplace_back();
  io.of_the_unit = true;
  io.memory.resize(kBlock, static_cast<std::byte>(fill));
  io.request.opcode = DiskOpcode::write_same;
  io.request.extent = {block * kBlock, kBlock};
  io.request.data = io.memory;
  return start(side, 0, io);
}

ScriptedPair::Io& ScriptedPair::ask_state(NodeSide side, unsigned volume, DiskOpcode opcode,
                                          std::vector<std::byte> bytes) {
  Io& io = ios_.emplace_back();
  io.memory = std::move(bytes);
  io.request.opcode = opcode;
  io.request.data = io.memory;
  return start(side, volume, io);
}
ScriptedPair::Io& ScriptedPair::change_state(NodeSide side, const scsi::LuRequest& request, unsigned volume) {
  return ask_state(side, volume, DiskOpcode::change_state, request.encode());
}
ScriptedPair::Io& ScriptedPair::read_state(NodeSide side) {
  return ask_state(side, 0, DiskOpcode::read_state, std::vector<std::byte>(scsi::kMaxLuState));
}

const scsi::NexusKey& ScriptedPair::host_nexus() {
  static const scsi::NexusKey kHost{.initiator = "iqn.2026-11.io.example:host", .isid = {}, .port = 1};
  return kHost;
}

ScriptedPair::Io& ScriptedPair::start(NodeSide side, unsigned volume, Io& io) {
  io.request.nexus = 1;
  if (!io.of_the_unit) io.request.port = &host_nexus();
  io.request.owner = &io;
  io.request.command_came = came_ == engine::TimePoint{} ? host(side).clock().now() : came_;
  io.request.done = [](engine::DiskRequest& request) {
    Io& over = *static_cast<Io*>(request.owner);
    over.done = true;
    if (over.value == 0 || request.status) return;
    over.world->history.write_acknowledged(over.value, over.world->scheduler.now());
  };
  host(side).program()->disk(volume)->submit(io.request);
  return io;
}

ScriptedPair::Io& ScriptedPair::write(NodeSide side, std::uint64_t block, int fill, std::uint32_t count,
                                      unsigned volume) {
  return submit(side, DiskOpcode::write, block, count, fill, volume);
}
ScriptedPair::Io& ScriptedPair::read(NodeSide side, std::uint64_t block, std::uint32_t count) {
  return submit(side, DiskOpcode::read, block, count, 0xee);
}

std::error_code ScriptedPair::written(NodeSide side, std::uint64_t block, int fill, std::uint32_t count) {
  Io& io = write(side, block, fill, count);
  if (!wait_for([&] { return io.done; })) return engine::Errc::timed_out;
  return io.status();
}

int ScriptedPair::value_at(NodeSide side, std::uint64_t block) {
  Io& io = read(side, block);
  if (!wait_for([&] { return io.done; }) || io.status()) return -1;
  return io.first();
}

ScriptedPair::Io& ScriptedPair::write_stamp(NodeSide side, std::uint64_t block) {
  Io& io = ios_.emplace_back();
  io.world = world_.get();
  io.value = world_->history.begin_write(0, block, 1, WriteKind::write, world_->scheduler.now());
  io.memory.resize(kBlock);
  simulation::write_stamp(io.memory, io.value, block);
  io.request.opcode = DiskOpcode::write;
  io.request.extent = {block * kBlock, kBlock};
  io.request.data = io.memory;
  return start(side, 0, io);
}

Value ScriptedPair::stamp_at(NodeSide side, std::uint64_t block) {
  const Moment began = world_->history.begin_read();
  Io& io = read(side, block);
  if (!wait_for([&] { return io.done; }) || io.status()) return kGarbage;
  const Value value = read_stamp(io.request.data.first(kBlock), block);
  world_->history.read_returned(0, block, {&value, 1}, began, world_->scheduler.now());
  return value;
}

bool ScriptedPair::wait_for(const std::function<bool()>& what, Nanos patience) {
  const Nanos limit = world_->scheduler.now() + patience;
  while (!what()) {
    if (world_->scheduler.now() > limit || !world_->scheduler.step()) return what();
  }
  return true;
}

void ScriptedPair::run_for(Nanos time) {
  wait_for([] { return false; }, time);
}

replication::VolumeStatus ScriptedPair::status(NodeSide side) {
  return host(side).status(0).value_or(replication::VolumeStatus{});
}

bool ScriptedPair::is(NodeSide side, replication::MirrorState state) { return status(side).state == state; }

void ScriptedPair::spoil(NodeSide side, const std::function<void(StoreFaults&)>& how) {
  StoreFaults faults = host(side).data(0).faults();
  how(faults);
  host(side).data(0).set_faults(faults);
}

void ScriptedPair::mend(NodeSide side) {
  StoreFaults good;
  good.slowest = world_->scenario.slowest_store;
  for (SimStore* store : {&host(side).data(0), &host(side).metadata(0)}) {
    store->set_faults(good);
    store->release_hung();
  }
}

bool comes_back_slowly(ScriptedPair& pair, engine::NodeSide side) {
  using replication::MirrorState;
  const engine::NodeSide stays = other(side);
  pair.host(side).end(Host::End::killed);
  if (!pair.wait_for([&] { return pair.is(stays, MirrorState::solo); })) return false;
  for (std::uint64_t block = 0; block < 64; ++block) {
    if (pair.written(stays, block * 16, 1)) return false;
  }
  pair.spoil(side, [](StoreFaults& f) { f.slowest = 100 * kMillisecond; });
  pair.host(side).boot();
  return pair.wait_for([&] { return pair.is(side, MirrorState::syncing_target); });
}

scsi::LuRequest registration() {
  scsi::LuRequest request;
  request.nexus = {.initiator = "iqn.2026-11.io.example:0", .isid = {0x80, 0, 0, 0, 0, 1}, .port = 1};
  request.may_persist = true;
  request.target_ports = 0b110;
  request.service_action = 6;
  request.parameters.resize(24);
  request.parameters[15] = request.parameters[20] = std::byte{1};
  return request;
}

}  // namespace lockstep::simulation
