// A host that does not wait for ever: what it gives up it aborts, or it ends the session, and tries on its other path.
// Nodes hear of that when a packet says so, or when they notice by themselves.
#include <algorithm>
#include <utility>

#include "tests/simulation/initiator.hpp"
#include "tests/simulation/world.hpp"

namespace lockstep::simulation {

namespace {
constexpr std::uint32_t kQuickEnd = 12'000;  ///< chance in a million, each command
/// A command that is older than this may be tried elsewhere while its node still knows nothing of the session's end.
Nanos safe_age(Nanos lease) { return lease * 130 / 100; }
constexpr std::uint32_t kWaitsInSession = 100'000;  ///< chance in a million, each command
}  // namespace

// --- At its node, before its disk hears of it ------------------------------------------------------------------------

/// It may wait there for memory, or for its data: a reset of the unit ends it as one that the disk has.
void Initiator::come_in(Attempt& a) {
  a.submitted = true;
  a.request.command_came = a.host->clock().now();
  if (!world_.scenario.reservations || !waits_.chance(kWaitsInSession)) return go_to_disk(a);
  a.waits = true;
  a.request.came_since = a.request.command_came;  // its host may be gone since, and nobody has noticed
  world_.scheduler.after(waits_.skewed(10 * kMicrosecond, world_.scenario.lease / 2), owner_at(*a.host),
                         &Initiator::on_ready, this, key(a));
}

/// What waits for the end of its session is ended with it.
void Initiator::on_ready(void* self, std::uint64_t argument) {
  auto& initiator = *static_cast<Initiator*>(self);
  Attempt* a = initiator.find(argument);
  if (a == nullptr || !a->waits || a->session_closed) return;
  a->waits = false;
  initiator.go_to_disk(*a);
}

void Initiator::go_to_disk(Attempt& a) { hops(a) ? bring(a) : start(a); }

/// An attempt that timed out; its lane has let go of it already.
void Initiator::lose_patience(Attempt& a) {
  Host& host = *a.host;
  const std::uint64_t how = random_.below(4);
  world_.trace.add(host.name(), "io.impatient", {{"initiator", number_}, {"lane", a.lane}, {"how", how}});
  if (how == 0) return abort(a);
  if (how == 1) {  // ABORT TASK SET: all that this host has there
    for (std::size_t i = 0; i < attempts_.size(); ++i) {
      Attempt& other = *attempts_[i];
      const bool its = other.live && other.host == &host && other.session == a.session && other.volume == a.volume;
      if (!its || &other == &a || lanes_[other.lane].attempt != &other) continue;
      other.given_up = true;
      lanes_[other.lane].attempt = nullptr;
      abort(other);
    }
    return abort(a);
  }
  lanes_[a.lane].attempt = &a;  // goes the way of all that was sent in the session
  return how == 2 ? logout(host) : drop(host, Notice::late);
}

// --- Aborts ----------------------------------------------------------------------------------------------------------

void Initiator::abort(Attempt& a) {
  a.aborting = true;
  lanes_[a.lane].awaits = a.host;
  world_.scheduler.after(random_.skewed(5 * kMicrosecond, kPathDelay), owner_at(*a.host), &Initiator::on_abort, this,
                         key(a));
  world_.scheduler.after(random_.between(kSecond, 6 * kSecond), Owner::world, &Initiator::on_abort_late, this, key(a));
}

/// At the node. A command that has not arrived is aborted as well: whatever comes later is dropped.
void Initiator::on_abort(void* self, std::uint64_t argument) {
  auto& initiator = *static_cast<Initiator*>(self);
  Attempt* a = initiator.find(argument);
  if (a == nullptr || a->session_closed) return;
  a->session_closed = true;
  if (!a->submitted) return initiator.ended_at_node(*a);
  initiator.cancel(*a);
}

/// At the node: `done` runs now or later, and nothing of it comes after that.
void Initiator::cancel(Attempt& a) {
  a.cancelled = true;
  world_.trace.add(a.host->name(), "io.cancel", {{"initiator", number_}, {"lane", a.lane}, {"value", a.value}});
  if (std::exchange(a.waits, false)) {
    a.request.status = engine::Errc::aborted;
    return came_back(a);
  }
  a.away != 0 ? bring_cancel(a) : cancel_there(a);
}

void Initiator::on_abort_late(void* self, std::uint64_t argument) {
  auto& initiator = *static_cast<Initiator*>(self);
  const Attempt* a = initiator.find(argument);
  if (a == nullptr || !a->aborting || initiator.session(*a->host).number != a->session) return;
  if (initiator.session(*a->host).up) initiator.drop(*a->host, Notice::late);
}

/// The node has done with an attempt that nobody waits for in its lane: given up, or its session is over.
void Initiator::ended_at_node(Attempt& a) {
  // What was carried out took effect by now, and of what was cancelled nothing comes any more.
  if (a.value != 0 && (a.cancelled || !a.request.status)) world_.history.write_is_over(a.value);
  Lane& lane = lanes_[a.lane];
  Host& host = *a.host;
  const bool answers_abort = a.aborting && lane.busy && lane.serial == a.serial && lane.awaits == &host;
  const unsigned number = a.lane;
  release(a);
  if (answers_abort && session(host).up) {
    lane.awaits = nullptr;
    try_elsewhere(number, random_.skewed(10 * kMicrosecond, 2 * kPathDelay));
  }
  look_whether_over(host);
}

// --- Sessions that a host ends ---------------------------------------------------------------------------------------

Host* Initiator::with_session(std::uint64_t key) {
  Host& host = world_.host(static_cast<engine::NodeSide>(key & 1));
  return session(host).number == key >> 1 ? &host : nullptr;
}

/// The session takes no more commands; `each` decides about what its lanes wait for.
void Initiator::end_session(Host& host, const std::function<void(Attempt&)>& each) {
  Session& s = session(host);
  s.up = false;
  s.node_knows = false;
  for (std::size_t i = 0; i < attempts_.size(); ++i) {
    Attempt& a = *attempts_[i];
    if (!a.live || a.host != &host || a.session != s.number || lanes_[a.lane].attempt != &a) continue;
    a.given_up = true;
    lanes_[a.lane].attempt = nullptr;
    each(a);
  }
}

void Initiator::logout(Host& host) {
  world_.trace.add(host.name(), "session.logout", {{"initiator", number_}});
  end_session(host, [&](Attempt& a) { lanes_[a.lane].awaits = &host; });
  world_.scheduler.after(random_.skewed(5 * kMicrosecond, kPathDelay), owner_at(host), &Initiator::on_session_end, this,
                         session_key(host));
  const Nanos lease = world_.scenario.lease;
  world_.scheduler.after(random_.between(2 * lease, 2 * lease + 4 * kSecond), Owner::world, &Initiator::on_logout_late,
                         this, session_key(host));
}

/// The logout is not answered: the host breaks the connection, and what was sent is old enough by now.
void Initiator::on_logout_late(void* self, std::uint64_t argument) {
  auto& initiator = *static_cast<Initiator*>(self);
  Host* host = initiator.with_session(argument);
  if (host != nullptr && !initiator.session(*host).up) initiator.release_waiting(*host, 20 * kMillisecond);
}

/// The connection is gone without a word. What the host tries elsewhere at once is either old, or known to be over by
/// the node, or may take effect until the node has done with it.
void Initiator::drop(Host& host, Notice notice) {
  const Nanos now = world_.scheduler.now();
  const Nanos lease = world_.scenario.lease;
  Nanos told = 0;
  if (notice == Notice::within_a_lease) told = random_.skewed(0, lease);
  if (notice == Notice::late) told = random_.chance(500'000) ? random_.below(15 * kSecond) : random_.below(lease);
  world_.trace.add(host.name(), "session.drop", {{"initiator", number_}, {"told", told}});
  end_session(host, [&](Attempt& a) {
    lanes_[a.lane].until_done =
        notice == Notice::within_a_lease || (notice == Notice::at_once && !holds_back_late_effects(a));
    const Nanos old = notice == Notice::late ? a.sent + safe_age(lease) : now;
    try_elsewhere(a.lane, (old > now ? old - now : 0) + random_.skewed(0, 20 * kMillisecond));
  });
  release_waiting(host, 20 * kMillisecond);
  if (told == 0) return session_ended(host);
  world_.scheduler.after(told, owner_at(host), &Initiator::on_session_end, this, session_key(host));
}

/// A node that is no member has no word in what its partner acknowledges: what it has forwarded may arrive there later.
bool Initiator::holds_back_late_effects(const Attempt& a) const {
  using replication::MirrorState;
  const MirrorState state = a.host->state(a.volume);
  return state == MirrorState::in_sync || state == MirrorState::solo || state == MirrorState::syncing_source ||
         state == MirrorState::suspended;
}

void Initiator::on_session_end(void* self, std::uint64_t argument) {
  auto& initiator = *static_cast<Initiator*>(self);
  Host* host = initiator.with_session(argument);
  if (host != nullptr && !initiator.session(*host).up) initiator.session_ended(*host);
}

/// The node hears of it. Nothing of the session that is still under way is taken any more.
void Initiator::session_ended(Host& host) {
  Session& s = session(host);
  s.node_knows = true;
  const std::uint64_t number = s.number;
  for (std::size_t i = 0; i < attempts_.size(); ++i) {
    Attempt& a = *attempts_[i];
    if (!a.live || a.host != &host || a.session != number || a.session_closed) continue;
    a.session_closed = true;
    if (!a.submitted) continue;
    cancel(a);
  }
  look_whether_over(host);
}

/// A logout is answered, and the next login is, when nothing of the session is at work in the node any more.
void Initiator::look_whether_over(Host& host) {
  const Session& s = session(host);
  if (s.up || !s.node_knows) return;
  const bool works = std::ranges::any_of(
      attempts_, [&](const auto& a) { return a->live && a->host == &host && a->session == s.number && a->submitted; });
  if (works) return;
  release_waiting(host, kPathDelay);
  world_.scheduler.after(random_.skewed(kMillisecond, 2 * kSecond), Owner::world, &Initiator::on_login, this,
                         session_key(host));
}

void Initiator::on_login(void* self, std::uint64_t argument) {
  auto& initiator = *static_cast<Initiator*>(self);
  Host* host = initiator.with_session(argument);
  if (host == nullptr || initiator.session(*host).up) return;
  Session& s = initiator.session(*host);
  s = {s.number + 1, true, true};
}

/// The node ended them itself, or ended with them.
void Initiator::sessions_gone(Host& host, Nanos notice) {
  Session& s = session(host);
  s = {s.number + 1, true, true};
  release_waiting(host, notice);
}

void Initiator::release_waiting(Host& host, Nanos notice) {
  for (unsigned number = 0; number < lanes_.size(); ++number) {
    if (!lanes_[number].busy || lanes_[number].awaits != &host) continue;
    lanes_[number].awaits = nullptr;
    try_elsewhere(number, random_.skewed(0, notice));
  }
}

void Initiator::try_elsewhere(unsigned number, Nanos delay) {
  const Lane& lane = lanes_[number];
  if (lane.kind == Kind::compare_and_write || lane.tries >= kMostTries) return finish(number);
  retry(number, delay);
}

// --- Sessions that end for other reasons than a command's age --------------------------------------------------------

void Initiator::quick_end_may_follow(Host& host) {
  if (!random_.chance(kQuickEnd)) return;
  const Nanos window = 4 * (world_.scenario.slowest_store + world_.scenario.slowest_link);
  world_.scheduler.after(random_.skewed(0, std::max(window, world_.scenario.lease)), Owner::world,
                         &Initiator::on_quick_end, this, session_key(host));
}

void Initiator::on_quick_end(void* self, std::uint64_t argument) {
  auto& initiator = *static_cast<Initiator*>(self);
  Host* host = initiator.with_session(argument);
  if (host == nullptr || !initiator.session(*host).up || !host->running() || host->frozen()) return;
  const HostKinds& kinds = initiator.world_.scenario.hosts;
  std::vector<Notice> drops;
  if (kinds.quick_drops) drops.push_back(Notice::at_once);
  if (kinds.late_drops) drops.push_back(Notice::within_a_lease);
  const std::uint64_t choice = initiator.random_.below(drops.size() + (kinds.quick_logouts ? 1 : 0));
  choice < drops.size() ? initiator.drop(*host, drops[choice]) : initiator.logout(*host);
}

}  // namespace lockstep::simulation
