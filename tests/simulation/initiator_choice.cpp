// What an initiator does next, to which blocks, and by which path.
#include <algorithm>
#include <cstring>

#include "tests/simulation/initiator.hpp"
#include "tests/simulation/world.hpp"

namespace lockstep::simulation {

using engine::DiskOpcode;

void Initiator::choose(Lane& lane) {
  static constexpr Kind kMix[] = {Kind::read,         Kind::read,  Kind::read,       Kind::read,
                                  Kind::read,         Kind::read,  Kind::read,       Kind::read,
                                  Kind::write,        Kind::write, Kind::write,      Kind::write,
                                  Kind::write,        Kind::write, Kind::write,      Kind::compare_and_write,
                                  Kind::write_zeroes, Kind::unmap, Kind::write_same, Kind::compare_and_write};
  lane.kind =
      random_.chance(world_.scenario.cached ? 60'000 : 20'000) ? Kind::flush : kMix[random_.below(std::size(kMix))];
  if (world_.scenario.reservations && random_.chance(120'000)) {
    lane.kind = random_.chance(700'000) ? Kind::change : Kind::look;
  }
  lane.volume = static_cast<unsigned>(random_.below(world_.scenario.volumes.size()));
  lane.fua = random_.chance(100'000);
  lane.value = 0;
  lane.expected.clear();
  lane.earlier.clear();
  choose_extent(lane);
  if (lane.kind == Kind::compare_and_write) choose_expected(lane);
}

void Initiator::begin_write(Lane& lane) {
  WriteKind kind = WriteKind::write;
  switch (lane.kind) {
    case Kind::read:
    case Kind::flush:
    case Kind::change:
    case Kind::look:
      return;
    case Kind::write:
      break;
    case Kind::write_same:
      kind = WriteKind::write_same;
      break;
    case Kind::write_zeroes:
    case Kind::unmap:
      kind = WriteKind::zero;
      break;
    case Kind::compare_and_write:
      kind = WriteKind::compare_and_write;
      break;
  }
  if (lane.value != 0) lane.earlier.push_back({lane.value, lane.until_done});
  lane.until_done = false;
  lane.value = world_.history.begin_write(lane.volume, lane.first, lane.count, kind, world_.scheduler.now(),
                                          lane.expected, lane.fua);
}

void Initiator::choose_extent(Lane& lane) {
  const std::uint64_t blocks = world_.grower->told(lane.volume) / kBlock;
  lane.count =
      static_cast<std::uint32_t>(random_.chance(600'000) ? random_.between(1, 2) : random_.between(1, kMostBlocks));
  if (lane.kind == Kind::compare_and_write) lane.count = random_.chance(800'000) ? 1 : 2;
  if (random_.chance(850'000)) {  // three hot places, one of them across regions
    const bool crowded = world_.scenario.crowded;
    const std::uint64_t span = crowded ? 3 : 12;
    const std::uint64_t places[] = {0, 58, blocks - span};
    const std::uint64_t place = crowded ? places[0] : places[random_.below(std::size(places))];
    lane.count = static_cast<std::uint32_t>(std::min<std::uint64_t>(lane.count, span));
    lane.first = place + random_.below(span - lane.count + 1);
  } else {
    lane.first = random_.below(blocks - lane.count + 1);
  }
  if ((lane.kind == Kind::unmap || lane.kind == Kind::write_zeroes) && random_.chance(200'000)) {
    lane.count = static_cast<std::uint32_t>(random_.between(1, 64));
    // Rarely the whole volume: more regions than the mirror notes one by one. Often, it would hide what differs.
    if (lane.count == 64) lane.count = static_cast<std::uint32_t>(blocks);
    lane.first = random_.below(blocks - lane.count + 1);
  }
}

void Initiator::choose_expected(Lane& lane) {
  for (std::uint32_t i = 0; i < lane.count; ++i) {
    lane.expected.push_back(world_.checkers->last_seen(lane.volume, lane.first + i));
  }
}

Host* Initiator::choose_path(Lane& lane) {
  Host& a = world_.host(engine::NodeSide::a);
  Host& b = world_.host(engine::NodeSide::b);
  Host* first = favourite_ == 0 ? &a : (favourite_ == 1 ? &b : (random_.chance(500'000) ? &a : &b));
  if (lane.path != nullptr) first = lane.path == &a ? &b : &a;  // the last try failed: take the other
  Host* second = first == &a ? &b : &a;
  const bool any = world_.scenario.cached && lane.kind == Kind::flush;
  if (random_.chance(any ? 500'000 : 100'000)) std::swap(first, second);
  for (Host* host : {first, second}) {
    if (!host->running() || host->stopping() || host == lane.banned || !session(*host).up) continue;
    engine::Disk* disk = host->program()->disk(lane.volume);
    if (disk == nullptr) continue;
    if (!host->frozen() && disk->access_state() != engine::AccessState::active_optimized && !random_.chance(200'000))
      continue;
    return host;
  }
  return nullptr;
}

void Initiator::prepare(Attempt& a, const Lane& lane) {
  engine::DiskRequest& r = a.request;
  r = {};
  r.extent = {lane.first * kBlock, lane.count * kBlock};
  r.fua = lane.fua;
  r.nexus = number_ + 1;
  r.owner = &a;
  r.done = &Initiator::on_done;
  std::size_t bytes = lane.count * kBlock;
  const scsi::NexusKey& nexus = nexuses_[static_cast<std::size_t>(a.host->side())];
  r.port = &nexus;
  if (world_.scenario.reservations) r.access = access_of(lane.kind);
  switch (lane.kind) {
    case Kind::read:
      r.opcode = DiskOpcode::read;
      break;
    case Kind::write:
      r.opcode = DiskOpcode::write;
      for (std::uint32_t i = 0; i < lane.count; ++i)
        write_stamp({a.memory + i * kBlock, kBlock}, lane.value, lane.first + i);
      break;
    case Kind::write_same:
      r.opcode = DiskOpcode::write_same;
      bytes = kBlock;
      write_stamp({a.memory, kBlock}, lane.value, kAnyBlock);
      break;
    case Kind::write_zeroes:
      r.opcode = DiskOpcode::write_zeroes;
      r.may_unmap = random_.chance(300'000);
      bytes = 0;
      break;
    case Kind::unmap:
      r.opcode = DiskOpcode::unmap;
      r.may_unmap = true;
      bytes = 0;
      break;
    case Kind::compare_and_write:
      r.opcode = DiskOpcode::compare_and_write;
      for (std::uint32_t i = 0; i < lane.count; ++i) {
        const std::span<std::byte> expected{a.memory + i * kBlock, kBlock};
        std::fill(expected.begin(), expected.end(), std::byte{0});
        if (lane.expected[i] != 0) {
          const bool same = world_.history.write(lane.expected[i]).kind == WriteKind::write_same;
          write_stamp(expected, lane.expected[i], same ? kAnyBlock : lane.first + i);
        }
        write_stamp({a.memory + (lane.count + i) * kBlock, kBlock}, lane.value, lane.first + i);
      }
      bytes *= 2;
      break;
    case Kind::flush:
      r.opcode = DiskOpcode::flush;
      r.extent = {};
      bytes = 0;
      break;
    case Kind::change: {
      const scsi::LuRequest change = choose_change(nexus);
      const auto request = change.encode();
      a.resets = change.kind == scsi::LuRequestKind::unit_reset;
      std::ranges::copy(request, a.memory);
      r.opcode = DiskOpcode::change_state;
      r.extent = {};
      bytes = request.size();
      break;
    }
    case Kind::look:
      r.opcode = DiskOpcode::read_state;
      r.extent = {};
      bytes = scsi::kMaxLuState;
      break;
  }
  r.data = {a.memory, bytes};
}

scsi::AccessClass Initiator::access_of(Kind kind) {
  switch (kind) {
    case Kind::read:
      return scsi::AccessClass::read;
    case Kind::change:
    case Kind::look:
      return scsi::AccessClass::unrestricted;
    default:
      return scsi::AccessClass::write;
  }
}

/// Mostly what lets others go on again: otherwise all would stand before one reservation for ever.
scsi::LuRequest Initiator::choose_change(const scsi::NexusKey& nexus) {
  static constexpr std::uint8_t kActions[] = {6, 6, 6, 1, 1, 1, 2, 2, 3, 3, 4, 5};  // SPC-4 table 212
  static constexpr std::uint8_t kTypes[] = {1, 3, 5, 6, 7, 8};
  scsi::LuRequest request;
  request.kind = scsi::LuRequestKind::reserve_out;
  for (auto& byte : request.id.bytes) byte = static_cast<std::uint8_t>(random_.next());
  request.nexus = nexus;
  request.may_persist = true;
  request.target_ports = 0b110;
  request.service_action = kActions[random_.below(std::size(kActions))];
  if (request.service_action == 1) reserved_type_ = kTypes[random_.below(std::size(kTypes))];
  request.scope_and_type = reserved_type_;
  request.parameters.resize(24);
  const bool registers = request.service_action == 6;
  if (!registers) request.parameters[7] = static_cast<std::byte>(number_ + 1);
  if (registers) request.parameters[15] = static_cast<std::byte>(random_.chance(150'000) ? 0 : number_ + 1);
  if (request.service_action >= 4 && !registers) {
    request.parameters[15] = static_cast<std::byte>(random_.below(world_.scenario.initiators) + 1);
  }
  if (registers) request.parameters[20] = random_.chance(500'000) ? std::byte{5} : std::byte{4};  // ALL_TG_PT, APTPL
  if (random_.chance(100'000)) {
    request.kind = random_.chance(500'000) ? scsi::LuRequestKind::unit_reset : scsi::LuRequestKind::reserve;
    request.parameters.clear();
  }
  return request;
}

}  // namespace lockstep::simulation
