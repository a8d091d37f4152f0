#include "tests/simulation/final_commands.hpp"

#include <algorithm>

#include "tests/simulation/world.hpp"

namespace lockstep::simulation {

using engine::DiskOpcode;
using engine::NodeSide;

namespace {
constexpr Nanos kAnsweredWithin = 2 * kSecond;
constexpr Nanos kBusyWaits = 100 * kMillisecond;
constexpr NodeSide kBothSides[] = {NodeSide::a, NodeSide::b};
}  // namespace

FinalCommands::FinalCommands(World& world)
    : world_(world),
      first_block_(SimRandom(world.scenario.seed ^ 0x66696e616c).below(world.scenario.volume_size() / kBlock - 1)) {
  nexus_.initiator = "iqn.2026-11.io.example:anew";
  nexus_.isid = {0x80, 0, 0, 0, 0, 1};
  nexus_.port = 1;
}

std::uint64_t FinalCommands::block_of(NodeSide side) const { return first_block_ + static_cast<std::uint64_t>(side); }

void FinalCommands::demand_good_answers() {
  if (!world_.kind.replicates && world_.scenario.hosts.impatient) return;  // there a fake takes its time
  for (const DiskOpcode opcode : {DiskOpcode::write, DiskOpcode::read}) {
    for (const NodeSide side : kBothSides) {
      const NodeSide whose = opcode == DiskOpcode::write ? side : engine::other(side);
      for (unsigned v = 0; v < world_.scenario.volumes.size(); ++v) {
        submit(world_.host(side), v, opcode, block_of(whose));
      }
    }
    await_all();
  }
}

void FinalCommands::submit(Host& host, unsigned volume, DiskOpcode opcode, std::uint64_t block) {
  Io& io = ios_.emplace_back();
  io.commands = this;
  io.host = &host;
  io.volume = volume;
  io.memory.resize(kBlock);
  io.request.opcode = opcode;
  io.request.extent = {block * kBlock, kBlock};
  io.request.data = io.memory;
  if (!world_.scenario.reservations) io.request.port = &nexus_;  // else another host's may keep it out
  io.request.owner = &io;
  io.request.done = [](engine::DiskRequest& request) {
    Io& over = *static_cast<Io*>(request.owner);
    over.commands->on_done(over);
  };
  if (opcode == DiskOpcode::write) {
    io.value = world_.history.begin_write(volume, block, 1, WriteKind::write, world_.scheduler.now());
    write_stamp(io.memory, io.value, block);
  }
  io.began = world_.history.begin_read();
  world_.scheduler.after(0, owner_of(host.side(), host.shard_of(volume)), &FinalCommands::on_submit, this,
                         ios_.size() - 1);
}

void FinalCommands::on_submit(void* self, std::uint64_t number) {
  Io& io = static_cast<FinalCommands*>(self)->ios_[number];
  io.host->program()->disk(io.volume)->submit(io.request);
}

/// A node whose timers came late, by a part of the lease, holds a command for older than it is, and tells BUSY: leases
/// are short here, and a host asks again.
void FinalCommands::on_done(Io& io) {
  if (io.request.status == make_error_code(engine::Errc::resource_exhausted)) {
    io.request.status = {};
    const auto number =
        static_cast<std::uint64_t>(std::ranges::find(ios_, &io, [](Io& i) { return &i; }) - ios_.begin());
    return world_.scheduler.after(kBusyWaits, owner_of(io.host->side(), io.host->shard_of(io.volume)),
                                  &FinalCommands::on_submit, this, number);
  }
  io.done = true;
  const bool writes = io.value != 0;
  const Nanos now = world_.scheduler.now();
  world_.trace.add(
      io.host->name(), "io.final",
      {{"volume", io.volume}, {"writes", writes}, {"error", static_cast<std::uint64_t>(io.request.status.value())}});
  if (io.request.status) {
    return world_.verdict.fail(std::string("liveness: nothing is broken any more, and node ") + io.host->name() +
                               " fails a " + (writes ? "write to" : "read of") + " volume " +
                               std::to_string(io.volume) + ": " + io.request.status.message());
  }
  if (writes) {
    world_.history.write_acknowledged(io.value, now);
    return world_.checkers->write_acknowledged(*io.host, io.volume, io.value);
  }
  const std::uint64_t block = io.request.extent.offset / kBlock;
  const Value value = read_stamp(io.memory, block);
  world_.history.read_returned(io.volume, block, {&value, 1}, io.began, now);
  world_.checkers->read_answered(*io.host, io.volume, io.began);
}

void FinalCommands::await_all() {
  const Nanos limit = world_.scheduler.now() + kAnsweredWithin;
  const auto all_done = [this] { return std::ranges::all_of(ios_, &Io::done); };
  while (!world_.verdict.failed() && !all_done() && world_.scheduler.now() < limit) {
    world_.run_until(world_.scheduler.now() + kMillisecond);
  }
  if (all_done() || world_.verdict.failed()) return;
  world_.verdict.fail("liveness: nothing is broken any more, and a command has no answer after " +
                      std::to_string(kAnsweredWithin / kSecond) + " s");
}

}  // namespace lockstep::simulation
