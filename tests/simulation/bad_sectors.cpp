#include "tests/simulation/bad_sectors.hpp"

#include <charconv>

#include "tests/simulation/world.hpp"

namespace lockstep::simulation {

using engine::DiskOpcode;
using engine::Errc;
using replication::MirrorState;

namespace {
constexpr Nanos kOperatorWaits = 5 * kSecond;     ///< for an answer, before it writes again
constexpr Nanos kRewritten = 2 * kSecond;         ///< within which what was read is there again
constexpr Nanos kBusyWaits = 250 * kMillisecond;  ///< of a host that is told BUSY
constexpr unsigned kReads = 12;  ///< of each sector: for longer than a lease, and another may be rewritten

/// Errors that come and go may hit both stores at once.
bool only_sectors_fail(const FaultKinds& f) {
  return f.bad_sectors && !f.store_errors && !f.both_stores && !f.two_at_once;
}
}  // namespace

BadSectors::BadSectors(World& world)
    : world_(world),
      random_(world.scenario.seed ^ 0x736563746f7273),
      not_in_sync_(world.scenario.volumes.size()),
      seen_in_sync_(2 * world.scenario.volumes.size()) {}

/// It is looked at when it changes: what was seen before held until now.
void BadSectors::status_seen(const Host& host, unsigned volume, const replication::VolumeStatus& status) {
  const std::size_t copy = 2 * volume + static_cast<std::size_t>(host.side());
  const bool was = seen_in_sync_[copy], is = status.state == MirrorState::in_sync;
  seen_in_sync_[copy] = is;
  if (!was || !is) not_in_sync_[volume] = world_.scheduler.now();
}

void BadSectors::lose_some(Host& host) {
  const auto volume = static_cast<unsigned>(random_.below(world_.scenario.volumes.size()));
  const std::uint64_t blocks = world_.scenario.volume_size() / kBlock;
  const std::uint64_t places[] = {0, 58, blocks - 12};
  SimStore& store = host.data(volume);
  const SimStore& partners = world_.host(engine::other(host.side())).data(volume);
  for (std::uint64_t left = random_.between(1, 4); left != 0; --left) {
    const std::uint64_t hot = places[random_.below(std::size(places))] + random_.below(12);
    const std::uint64_t block = random_.chance(800'000) ? hot : random_.below(blocks);
    if (!partners.is_lost(block)) store.lose_sector(block);
  }
}

/// The only member's word may come late.
void BadSectors::judge(unsigned volume, const engine::DiskRequest& request, Nanos sent) {
  if (sent <= not_in_sync_[volume]) return;
  if (request.status != make_error_code(Errc::io_error) || !only_sectors_fail(world_.scenario.faults)) return;
  for (const auto side : {engine::NodeSide::a, engine::NodeSide::b}) {
    const auto status = world_.host(side).status(volume);
    if (!status || status->state != MirrorState::in_sync) return;
  }
  world_.verdict.fail("a host is told a medium error of block " + std::to_string(request.extent.offset / kBlock) +
                      " in sync, and no block is lost on both nodes");
}

/// "Block 17 …": what health shows.
void BadSectors::heal_what_is_told(Host& host, unsigned volume, const replication::VolumeStatus& status) {
  constexpr std::string_view kBegins = "Block ";
  if (!world_.scenario.faults.bad_sectors || !status.reason.starts_with(kBegins) || !status.serving) return;
  const std::string_view number = std::string_view(status.reason).substr(kBegins.size());
  std::uint64_t block = 0;
  std::from_chars(number.data(), number.data() + number.size(), block);
  for (const Io& io : ios_) {
    if (!io.done && io.world->scheduler.now() - io.since < kOperatorWaits) return;  // one after the other
  }
  world_.trace.add(host.name(), "operator.writes_anew", {{"volume", volume}, {"block", block}});
  submit(host, volume, DiskOpcode::write, block);
}

BadSectors::Io& BadSectors::submit(Host& host, unsigned volume, DiskOpcode opcode, std::uint64_t block) {
  Io& io = ios_.emplace_back();
  io.world = &world_;
  io.host = &host;
  io.life = host.life();
  io.volume = volume;
  io.since = world_.scheduler.now();
  io.memory.resize(kBlock);
  io.request.opcode = opcode;
  io.request.extent = {block * kBlock, kBlock};
  io.request.data = io.memory;
  io.request.owner = &io;
  io.request.done = [](engine::DiskRequest& request) {
    Io& over = *static_cast<Io*>(request.owner);
    over.done = true;
    if (over.value != 0 && !request.status) {
      over.world->history.write_acknowledged(over.value, over.world->scheduler.now());
    }
  };
  if (opcode == DiskOpcode::write) {
    io.value = world_.history.begin_write(volume, block, 1, WriteKind::write, world_.scheduler.now());
    write_stamp(io.memory, io.value, block);
  }
  world_.scheduler.after(0, owner_of(host.side(), host.shard_of(volume)), &BadSectors::on_submit, this,
                         ios_.size() - 1);
  return io;
}

void BadSectors::on_submit(void* self, std::uint64_t number) {
  Io& io = static_cast<BadSectors*>(self)->ios_[number];
  engine::Disk* disk = io.host->running() && io.host->life() == io.life ? io.host->program()->disk(io.volume) : nullptr;
  if (disk == nullptr) {
    if (io.value != 0) io.world->history.write_had_no_effect(io.value);
    io.done = true;
    return;
  }
  disk->submit(io.request);
}

void BadSectors::read_until_whole(Host& host, unsigned volume, std::uint64_t block) {
  std::string last = "never answered";
  for (unsigned tries = 0; tries < kReads && host.data(volume).is_lost(block); ++tries) {
    const Moment began = world_.history.begin_read();
    Io& io = submit(host, volume, DiskOpcode::read, block);
    const auto wait = [this](const std::function<bool()>& what, Nanos patience = kRewritten) {
      const Nanos limit = world_.scheduler.now() + patience;
      while (!world_.verdict.failed() && !what() && world_.scheduler.now() < limit) {
        world_.run_until(world_.scheduler.now() + kMillisecond);
      }
    };
    wait([&] { return io.done; });
    if (world_.verdict.failed() || !io.done) continue;
    last = io.request.status ? io.request.status.message() : "read";
    if (io.request.status) {
      wait([] { return false; }, kBusyWaits);
      continue;
    }
    const Value value = read_stamp(io.memory, block);
    world_.history.read_returned(volume, block, {&value, 1}, began, world_.scheduler.now());
    wait([&] { return !host.data(volume).is_lost(block); });
  }
  if (world_.verdict.failed() || !host.data(volume).is_lost(block)) return;
  world_.verdict.fail("node " + std::string(1, host.name()) + " has not rewritten block " + std::to_string(block) +
                      " of volume " + std::to_string(volume) + ", which it lost and was read through it: " + last);
}

void BadSectors::read_each() {
  if (!world_.scenario.faults.bad_sectors || !world_.kind.replicates) return;
  for (const auto side : {engine::NodeSide::a, engine::NodeSide::b}) {
    Host& host = world_.host(side);
    for (unsigned v = 0; v < world_.scenario.volumes.size(); ++v) {
      std::optional<std::uint64_t> block = host.data(v).next_lost(0);
      for (; block && !world_.verdict.failed(); block = host.data(v).next_lost(*block + 1)) {
        read_until_whole(host, v, *block);
      }
    }
  }
}

}  // namespace lockstep::simulation
