#include "tests/simulation/initiator.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "tests/simulation/world.hpp"

namespace lockstep::simulation {

using engine::DiskOpcode;
using engine::Errc;

namespace {

constexpr Nanos kFaultlessAnswer = 4 * kSecond;  ///< within which an operation ends where nothing is ever broken

bool is_refusal(std::error_code status) { return status == make_error_code(Errc::reservation_conflict); }
}  // namespace

Initiator::Initiator(World& world, unsigned number, SimRandom random)
    : world_(world),
      number_(number),
      random_(random),
      waits_(world.scenario.seed ^ 0x7761697473 ^ (std::uint64_t{number} << 48)),
      favourite_(static_cast<unsigned>(random_.below(3))) {
  lanes_.resize(world.scenario.depth);
  for (std::uint16_t port = 1; port <= 2; ++port) {
    nexuses_[port - 1].initiator = "iqn.2026-11.io.example:" + std::to_string(number);
    nexuses_[port - 1].isid = {0x80, 0, 0, 0, 0, 1};
    nexuses_[port - 1].port = port;
  }
}

Initiator::~Initiator() {
  for (const auto& a : attempts_) std::free(a->memory);
}

void Initiator::start() {
  for (unsigned lane = 0; lane < lanes_.size(); ++lane) {
    world_.scheduler.after(random_.below(world_.scenario.think + kMillisecond), Owner::world, &Initiator::on_next, this,
                           lane);
  }
}

Nanos Initiator::waits_since() const {
  Nanos since = world_.scheduler.now();
  for (const Lane& lane : lanes_) {
    if (lane.busy) since = std::min(since, lane.since);
  }
  return since;
}

void Initiator::list_submitted(unsigned volume, std::vector<Value>& values) const {
  for (const auto& a : attempts_) {
    const bool there = a->live && (a->at_work || a->waits) && a->volume == volume && a->value != 0;
    if (there && a->host->state(volume) == replication::MirrorState::in_sync) values.push_back(a->value);
  }
}

bool Initiator::idle() const {
  return std::none_of(lanes_.begin(), lanes_.end(), [](const Lane& lane) { return lane.busy; });
}

// --- What to do ------------------------------------------------------------------------------------------------------

void Initiator::on_next(void* self, std::uint64_t lane) {
  static_cast<Initiator*>(self)->next(static_cast<unsigned>(lane));
}

void Initiator::next(unsigned number) {
  Lane& lane = lanes_[number];
  if (lane.busy || world_.operations_left == 0) return;
  --world_.operations_left;
  lane.busy = true;
  lane.serial = ++serial_;
  lane.tries = 0;
  lane.banned = nullptr;
  lane.path = nullptr;
  lane.awaits = nullptr;
  lane.since = world_.scheduler.now();
  if (world_.scenario.faultless()) {
    world_.scheduler.after(kFaultlessAnswer, Owner::world, &Initiator::on_overdue, this, lane_key(number));
  }
  choose(lane);
  attempt(number);
}

void Initiator::on_overdue(void* self, std::uint64_t argument) {
  auto& initiator = *static_cast<Initiator*>(self);
  const Lane& lane = initiator.lanes_[argument & 0xff];
  if (!lane.busy || lane.serial != argument >> 8) return;
  initiator.world_.verdict.fail("liveness: an operation of initiator " + std::to_string(initiator.number_) +
                                " has no answer after " + std::to_string(kFaultlessAnswer / kSecond) +
                                " s, and nothing was ever broken");
}

void Initiator::acknowledge(Lane& lane) {
  world_.history.write_acknowledged(lane.value, world_.scheduler.now());
  for (const Earlier& earlier : lane.earlier) {
    if (!earlier.until_done) world_.history.write_is_over(earlier.value);
  }
  const bool zero = world_.history.write(lane.value).zero();
  world_.checkers->note_written(lane.volume, lane.first, lane.count, zero ? 0 : lane.value);
}

// --- Trying ----------------------------------------------------------------------------------------------------------

void Initiator::on_try(void* self, std::uint64_t argument) {
  auto& initiator = *static_cast<Initiator*>(self);
  const auto number = static_cast<unsigned>(argument & 0xff);
  const Lane& lane = initiator.lanes_[number];
  if (lane.busy && lane.serial == argument >> 8 && lane.attempt == nullptr) initiator.attempt(number);
}

void Initiator::attempt(unsigned number) {
  Lane& lane = lanes_[number];
  Host* host = choose_path(lane);
  if (host == nullptr) {
    world_.scheduler.after(random_.between(10, 100) * kMillisecond, Owner::world, &Initiator::on_try, this,
                           lane_key(number));
    return;
  }
  lane.path = host;
  ++lane.tries;
  begin_write(lane);
  Attempt& a = take_attempt();
  lane.attempt = &a;
  a.host = host;
  a.lane = number;
  a.volume = lane.volume;
  a.serial = lane.serial;
  a.floor = world_.states->floor(lane.volume);
  a.session = session(*host).number;
  a.sent = world_.scheduler.now();
  a.value = lane.value;
  prepare(a, lane);
  lane.read_start = world_.history.begin_read();
  if (lane.value != 0) world_.nemesis->write_was_sent(*host);
  world_.trace.add(host->name(), "io.submit",
                   {{"initiator", number_},
                    {"lane", number},
                    {"serial", lane.serial},
                    {"op", static_cast<std::uint64_t>(lane.kind)},
                    {"volume", lane.volume},
                    {"block", lane.first},
                    {"count", lane.count},
                    {"value", lane.value},
                    {"try", lane.tries}});
  world_.scheduler.after(random_.skewed(5 * kMicrosecond, kPathDelay), owner_at(*host), &Initiator::on_arrive, this,
                         key(a));
  const HostKinds& hosts = world_.scenario.hosts;
  const Nanos patience =
      hosts.impatient ? hosts.patience + random_.below(hosts.patience / 4) : random_.between(4, 9) * kSecond;
  world_.scheduler.after(patience, Owner::world, &Initiator::on_timeout, this, key(a));
  if (hosts.quick_logouts || hosts.quick_drops || hosts.late_drops) quick_end_may_follow(*host);
}

/// What the answer says of the unit's state, now that the node says it.
void Initiator::judge(const Attempt& a, const Lane& lane) {
  if (!world_.scenario.reservations) return;
  const std::error_code status = a.request.status;
  if (status && !is_refusal(status)) return;
  StateChecker& states = *world_.states;
  if (lane.kind == Kind::change) return states.change_answered(*a.host, lane.volume);
  if (lane.kind == Kind::look) {
    return states.state_shown(*a.host, lane.volume, a.request.data.first(a.request.transferred), a.floor);
  }
  states.command_answered(*a.host, lane.volume, *a.request.port, a.request.access,
                          status ? Errc::reservation_conflict : Errc::ok, a.floor);
}

void Initiator::on_arrive(void* self, std::uint64_t argument) {
  auto& initiator = *static_cast<Initiator*>(self);
  Attempt* a = initiator.find(argument);
  if (a == nullptr) return;
  engine::Disk* disk = a->host->program()->disk(a->volume);
  if (a->session_closed || disk == nullptr) {  // the target drops what its closed sessions had received
    a->submitted = false;
    if (!a->session_closed) {
      a->request.status = Errc::not_serving;
      return on_done(a->request);
    }
    return initiator.release(*a);
  }
  initiator.come_in(*a);
}

/// Where its volume lives.
void Initiator::start(Attempt& a) {
  engine::Disk* disk = a.host->program()->disk(a.volume);
  if (disk == nullptr) {
    a.request.status = Errc::not_serving;
    return on_done(a.request);
  }
  a.at_work = true;
  if (a.resets && a.host->state(a.volume) == replication::MirrorState::in_sync) {
    for (const auto& other : world_.initiators) other->list_submitted(a.volume, a.before_reset);
  }
  if (world_.trace.printing()) {
    world_.trace.note(a.host->name(), "  io.arrive initiator=" + std::to_string(number_) +
                                          " lane=" + std::to_string(a.lane) + " value=" + std::to_string(a.value));
  }
  disk->submit(a.request);
}

/// Where its volume lives: what is promised is promised now, however long the answer takes to its session.
void Initiator::on_done(engine::DiskRequest& request) {
  auto& a = *static_cast<Attempt*>(request.owner);
  Initiator& self = *a.owner;
  a.at_work = false;
  self.world_.trace.add(a.host->name(), "io.done",
                        {{"initiator", self.number_},
                         {"lane", a.lane},
                         {"serial", a.serial},
                         {"error", static_cast<std::uint64_t>(request.status.value())}});
  const Lane& lane = self.lanes_[a.lane];
  const bool current = lane.attempt == &a;
  // After a force each line has a size of its own. A machine that was paused may not know yet that the volume grew.
  const bool may_be_smaller = self.world_.checkers->was_forced(a.volume) || self.world_.scenario.faults.pause;
  if (current && request.status == make_error_code(Errc::out_of_range) && !may_be_smaller) {
    self.world_.verdict.fail("a node was asked for what initiators had been told there is, and called it out of range");
  }
  if (current && !a.session_closed) self.judge(a, lane);
  if (current && !a.session_closed) self.world_.bad_sectors->judge(a.volume, request, a.sent);
  if (current && !request.status && !a.session_closed) {
    if (lane.value != 0) self.world_.checkers->write_acknowledged(*a.host, lane.volume, lane.value);
    if (lane.kind == Kind::flush) self.world_.checkers->flush_acknowledged(*a.host, lane.volume, lane.read_start);
    for (const Value value : a.before_reset) self.world_.history.write_is_over(value);
    if (lane.kind == Kind::read) self.world_.checkers->read_answered(*a.host, lane.volume, lane.read_start);
  }
  a.away != 0 ? self.bring_back(a) : self.came_back(a);
}

void Initiator::came_back(Attempt& a) {
  a.submitted = false;
  if (lanes_[a.lane].attempt != &a || a.session_closed) return ended_at_node(a);
  world_.scheduler.after(random_.skewed(5 * kMicrosecond, kPathDelay), Owner::world, &Initiator::on_answer, this,
                         key(a));
}

void Initiator::on_answer(void* self, std::uint64_t argument) {
  auto& initiator = *static_cast<Initiator*>(self);
  Attempt* a = initiator.find(argument);
  if (a != nullptr) initiator.answered(*a);
}

void Initiator::answered(Attempt& a) {
  Lane& lane = lanes_[a.lane];
  // The answer and an abort may cross.
  if (lane.attempt != &a) return a.aborting ? ended_at_node(a) : release(a);
  lane.attempt = nullptr;
  conclude(lane, a);
}

void Initiator::conclude(Lane& lane, Attempt& a) {
  const unsigned number = a.lane;
  const std::error_code status = a.request.status;
  // What a pool has no space for is found out in the midst of writing it.
  const bool refused_for_space = status == make_error_code(Errc::no_space) && !world_.scenario.faults.pool_full;
  if (status == make_error_code(Errc::miscompare) && lane.kind == Kind::compare_and_write) {
    conclude_compare(lane, a, false);
  } else if (is_refusal(status) || refused_for_space) {
    if (lane.value != 0) world_.history.write_had_no_effect(lane.value);
    release(a);
    return finish(number);
  } else if (status) {
    demand_a_good_one(lane, status);
    const bool once = lane.kind == Kind::compare_and_write;
    release(a);
    if (!once && lane.tries < kMostTries) return retry(number, random_.between(2, 60) * kMillisecond);
    return finish(number);
  } else if (lane.kind == Kind::read) {
    conclude_read(lane, a);
  } else if (lane.kind == Kind::compare_and_write) {
    conclude_compare(lane, a, true);
  } else if (lane.value != 0) {
    acknowledge(lane);
  }
  release(a);
  finish(number);
}

/// Nodes that start have the other one asked; a host that is told so soon has its answer there.
void Initiator::demand_a_good_one(const Lane& lane, std::error_code status) {
  const bool gives_up = lane.kind != Kind::compare_and_write && lane.tries >= kMostTries;
  if (!world_.scenario.faultless() || (!gives_up && status != make_error_code(Errc::io_error))) return;
  world_.verdict.fail("liveness: initiator " + std::to_string(number_) + " is told " + status.message() + " at try " +
                      std::to_string(lane.tries) + ", and nothing was ever broken");
}

void Initiator::conclude_read(Lane& lane, Attempt& a) {
  Value values[kMostBlocks];
  bool fresh = false;
  for (std::uint32_t i = 0; i < lane.count; ++i) {
    values[i] = read_stamp({a.memory + i * kBlock, kBlock}, lane.first + i);
    world_.checkers->note_seen(lane.volume, lane.first + i, values[i]);
    fresh |= values[i] != 0 && values[i] != kGarbage && values[i] <= world_.history.write_count() &&
             world_.history.write(values[i]).finish == kNever;
  }
  world_.trace.add('-', "io.read",
                   {{"initiator", number_},
                    {"lane", a.lane},
                    {"serial", lane.serial},
                    {"first", values[0]},
                    {"hash", hash_bytes(std::as_bytes(std::span(values, lane.count)))}});
  world_.history.read_returned(lane.volume, lane.first, {values, lane.count}, lane.read_start, world_.scheduler.now());
  if (fresh) world_.nemesis->unacknowledged_was_read();
}

void Initiator::conclude_compare(Lane& lane, Attempt& a, bool hit) {
  const Nanos now = world_.scheduler.now();
  if (hit) {
    return acknowledge(lane);
  }
  world_.history.write_had_no_effect(lane.value);
  const std::uint64_t block = a.request.miscompare_offset / kBlock;
  if (block >= lane.count) {
    return world_.verdict.fail("a miscompare was reported at an offset beyond the compared data");
  }
  for (std::uint64_t i = 0; i < block; ++i) {
    world_.history.read_returned(lane.volume, lane.first + i, {&lane.expected[i], 1}, lane.read_start, now);
  }
  world_.history.found_other(lane.volume, lane.first + block, lane.expected[block], lane.read_start, now);
  world_.checkers->forget_seen(lane.volume, lane.first + block);
}

void Initiator::retry(unsigned lane, Nanos delay) {
  world_.scheduler.after(delay, Owner::world, &Initiator::on_try, this, lane_key(lane));
}

void Initiator::finish(unsigned number) {
  lanes_[number].busy = false;
  lanes_[number].attempt = nullptr;
  world_.scheduler.after(random_.below(world_.scenario.think + 1), Owner::world, &Initiator::on_next, this, number);
}

// --- Paths that fail -------------------------------------------------------------------------------------------------

void Initiator::on_timeout(void* self, std::uint64_t argument) {
  auto& initiator = *static_cast<Initiator*>(self);
  Attempt* a = initiator.find(argument);
  if (a == nullptr || a->given_up || initiator.lanes_[a->lane].attempt != a) return;
  World& world = initiator.world_;
  Lane& lane = initiator.lanes_[a->lane];
  a->given_up = true;
  lane.attempt = nullptr;
  if (world.scenario.hosts.impatient) return initiator.lose_patience(*a);
  // Only of a node that has been silent for longer than its lease is it certain that it drops what it holds; what any
  // other node does with an operation that its initiator gave up is anybody's guess.
  const bool lease_is_gone = a->host->is_frozen_for(lane.volume) &&
                             a->host->state(lane.volume) == replication::MirrorState::in_sync &&
                             world.scheduler.now() - a->host->frozen_since() > world.scenario.lease * 3 / 2;
  world.trace.add(a->host->name(), "io.timeout",
                  {{"initiator", initiator.number_}, {"lane", a->lane}, {"retry", lease_is_gone}});
  if (lane.kind == Kind::read || (lease_is_gone && lane.kind != Kind::compare_and_write && lane.banned == nullptr)) {
    if (lane.kind != Kind::read) lane.banned = a->host;
    return initiator.retry(a->lane, initiator.random_.below(20 * kMillisecond));
  }
  initiator.finish(a->lane);
}

void Initiator::close_attempts(Host& host, Nanos notice) {
  for (const auto& a : attempts_) {
    if (!a->live || a->host != &host || a->session_closed) continue;
    a->session_closed = true;
    Lane& lane = lanes_[a->lane];
    if (lane.attempt != a.get()) continue;
    lane.attempt = nullptr;
    lane.until_done |= !host.running() && !holds_back_late_effects(*a);
    if (lane.kind == Kind::compare_and_write) {
      finish(a->lane);  // asking again would compare with its own result
    } else {
      retry(a->lane, random_.skewed(0, notice));
    }
  }
  sessions_gone(host, notice);
}

void Initiator::host_ended(Host& host, bool silent) {
  close_attempts(host, silent ? 2 * kSecond : 50 * kMillisecond);
  for (const auto& a : attempts_) {
    if (a->live && a->host == &host) release(*a);
  }
  for (Lane& lane : lanes_) {
    if (lane.banned == &host) lane.banned = nullptr;
  }
}

/// The node gives up what its closed sessions had sent and is under way still.
void Initiator::host_fenced(Host& host) {
  const auto on_closed = [](void* self, std::uint64_t argument) {
    auto& initiator = *static_cast<Initiator*>(self);
    Attempt* a = initiator.find(argument);
    if (a != nullptr && a->submitted && !a->cancelled) initiator.cancel(*a);
  };
  for (const auto& a : attempts_) {
    if (!a->live || a->host != &host || !a->submitted || a->cancelled) continue;
    world_.scheduler.after(kPathDelay, owner_at(host), on_closed, this, key(*a));
  }
  close_attempts(host, 50 * kMillisecond);
}

Initiator::Attempt* Initiator::find(std::uint64_t argument) {
  Attempt& a = *attempts_[static_cast<std::uint32_t>(argument)];
  return a.live && a.generation == argument >> 32 ? &a : nullptr;
}

Initiator::Attempt& Initiator::take_attempt() {
  if (free_.empty()) {
    auto a = std::make_unique<Attempt>();
    a->owner = this;
    a->index = static_cast<std::uint32_t>(attempts_.size());
    a->memory = static_cast<std::byte*>(
        std::aligned_alloc(4096, std::max<std::size_t>(2 * kMostBlocks * kBlock, scsi::kMaxLuState)));
    free_.push_back(a->index);
    attempts_.push_back(std::move(a));
  }
  Attempt& a = *attempts_[free_.back()];
  free_.pop_back();
  a.live = true;
  a.away = 0;
  a.at_work = a.waits = a.submitted = a.session_closed = a.given_up = a.cancelled = a.aborting = a.resets = false;
  a.before_reset.clear();
  return a;
}

void Initiator::release(Attempt& a) {
  if (!a.live) return;
  a.live = false;
  ++a.generation;
  free_.push_back(a.index);
}

}  // namespace lockstep::simulation
