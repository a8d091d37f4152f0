#include "replication/link/paths_link.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

#include "replication/core/flap_damping.hpp"
#include "replication/core/marks.hpp"
#include "replication/link/paths_link_impl.hpp"

namespace lockstep::replication {

using engine::Duration;
using engine::Errc;
using engine::IoResult;
using engine::TimerId;

namespace {

constexpr Duration kTick = std::chrono::milliseconds(25);
/// By then numbers were tried that no process reaches.
constexpr unsigned kMaxOvertakenInARow = 32;
/// Within which the path that asks for a session shows that data pass, where that is in doubt: another one may.
constexpr Duration kProofWithin = std::chrono::seconds(2);
constexpr unsigned kManyLosses = 3;
constexpr int kLostForLeases = 2;
/// So often contact is made again by heartbeats alone: as many losses as the two agree for that one goes on alone.
constexpr unsigned kEndsWithContact = FlapDamping::kLosses;
/// One until contact has run out, and one until what was granted has, by a clock that runs slow.
constexpr int kRestLeases = 2, kDriftPercent = 20;

}  // namespace

// ---- paths ----

void PathsLink::Impl::on_path_up(PathSlot path) {
  assert(!up.contains(path));
  up.add(path);
  tick_later();
  take_part(path);
}

void PathsLink::Impl::take_part(PathSlot path) {
  if (is<NoSession>() && rest_timer != TimerId::none) return;
  const bool knows_numbers = link(path).version() >= kSeveralPaths;
  if (is<NoSession>() && !knows_numbers) {
    mark<"paths.partner_knows_no_numbers">();
    state = Plain{path};
    ends_by_lost_data = 0;
    version = link(path).version();
    events->on_link_up();
  } else if (is<NoSession>()) {
    state = Beginning{path, clock.now()};
    ++session;
    ask_to_join(path, {});
  } else if (const auto* established = std::get_if<Established>(&state)) {
    if (knows_numbers) mark<"paths.joined_later">();
    if (knows_numbers) return ask_to_join(path, established->partner);
    end_session("The partner is another program, which speaks an earlier version.");
  }
}

void PathsLink::Impl::ask_to_join(PathSlot path, const engine::Uuid& partner) {
  manager.connected(path, clock.now());
  link(path).send(encode_join({session, process, partner}), {}, {},
                  [this, path](const auto& result) { on_join_answer(path, result); });
}

void PathsLink::Impl::on_join_answer(PathSlot path, const IoResult<LinkAnswer>& result) {
  if (!result) return path_failed(path);
  const auto answer = decode_join_answer(result->header);
  if (!answer) {
    problem = answer.error().message;
    return path_failed(path);
  }
  if (!manager.is_joining(path) || is<Ending>()) return;
  if (answer->verdict != JoinVerdict::welcome) {
    if (is<Established>()) return end_session("The partner has ended the link session.");
    problem = "The partner has met a later link session of this node, or a later process.";
    path_failed(path);
    if (answer->verdict == JoinVerdict::overtaken) on_overtaken();
    return;
  }
  addresses = answer->addresses;
  overtaken_in_a_row = 0;
  manager.joined(path, clock.now());
  if (is<Established>()) return pump();
  auto& beginning = std::get<Beginning>(state);
  assert(beginning.path == path);
  beginning.partner = answer->process;
  must_carry() ? prove(path) : session_stands(answer->process);
}

void PathsLink::Impl::session_stands(const engine::Uuid& partner) {
  version = link(std::get<Beginning>(state).path).version();
  state = Established{partner};
  if (lost_before.partner != partner) lost_before = {partner, 0, {}, 0};
  problem.clear();
  events->on_link_up();
  for_each(up, [&](PathSlot other) {
    if (is<Established>() && manager.is_down(other)) take_part(other);
  });
}

/// A join that was late is answered so, too: only who comes in by no number is of a past, or was replaced. Set back
/// with its memory, this process counts from a number that it had before; the mirror finds it when it is in.
void PathsLink::Impl::on_overtaken() {
  if (overtaken_in_a_row == kMaxOvertakenInARow) return events->on_set_back();
  session += std::uint64_t{1} << overtaken_in_a_row++;
}

/// Its end comes with on_path_down(): only then are its copies destroyed.
void PathsLink::Impl::path_failed(PathSlot path) {
  manager.failed(path, clock.now());
  link(path).reset();
}

void PathsLink::Impl::on_path_down(PathSlot path) {
  assert(up.contains(path));
  up.remove(path);
  probing.remove(path);
  being_proven.remove(path);
  manager.destroyed(path, clock.now());
  if (auto* ending = std::get_if<Ending>(&state)) {
    ending->closing.remove(path);
    if (ending->closing.empty()) finish_session();
  } else if (const auto* plain = std::get_if<Plain>(&state)) {
    if (plain->path == path) session_is_over();
  } else if (is<Beginning>()) {
    ask_by_another(path);
  } else {
    pump();
  }
}

/// If it is the one that asks for a session.
void PathsLink::Impl::ask_by_another(PathSlot path) {
  const auto* beginning = std::get_if<Beginning>(&state);
  if (beginning == nullptr || beginning->path != path) return;
  state = NoSession{};
  begin_anew();
}

void PathsLink::Impl::on_path_failing(PathSlot path) {
  assert(up.contains(path));
  manager.failed(path, clock.now());
  ask_by_another(path);
  pump();  // with what the path had not begun with
}

void PathsLink::Impl::begin_anew() {
  for_each(up, [&](PathSlot path) {
    if (is<NoSession>() && manager.is_down(path)) take_part(path);
  });
}

// ---- the time ----

void PathsLink::Impl::cancel_timers() {
  for (const TimerId timer : {late_timer, tick_timer, finish_timer, rest_timer}) clock.cancel(timer);
}

void PathsLink::Impl::tick_later() {
  if (tick_timer != TimerId::none) return;
  tick_timer = clock.call_after(kTick, [this] {
    tick_timer = TimerId::none;
    tick();
    if (!up.empty() || !is<NoSession>()) tick_later();
  });
}

void PathsLink::Impl::tick() {
  const PathOrders orders = manager.tick(clock.now());
  for_each(orders.end, [&](PathSlot path) { link(path).reset(); });
  limit_proof();
  if (!is<Established>()) return;
  if (orders.session_over) {
    mark<"paths.none_left">();
    return end_session("No path to the partner is left.");
  }
  for_each(manager.joined(), [&](PathSlot path) { renew_in_time(path); });
  for_each(orders.probe, [&](PathSlot path) { probe(path); });
  for_each(orders.prove, [&](PathSlot path) { prove(path); });
  if (told < numbered.sender.acknowledged()) {
    if (const auto path = manager.best(load, clock.now())) probe(*path);
  }
}

void PathsLink::Impl::renew_in_time(PathSlot path) {
  if (manager.renews() || !link(path).wants_renewal()) return;
  mark<"paths.renewed">();
  manager.renewing(path);
  link(path).reset();
}

void PathsLink::Impl::probe(PathSlot path) {
  if (probing.contains(path)) return;
  probing.add(path);
  told = numbered.sender.acknowledged();
  link(path).send(encode_request_frame({FrameKind::probe, {}, told}), {}, {},
                  [this, path](const auto& result) { on_probe_answer(path, result); });
}

void PathsLink::Impl::on_probe_answer(PathSlot path, const IoResult<LinkAnswer>& result) {
  probing.remove(path);
  if (!result || !is<Established>()) return;
  manager.heard(path, clock.now());
  const auto frame = decode_answer_frame(result->header);
  if (!frame) return partner_is_wrong(frame.error().message);
  if (frame->kind != AnswerKind::alive) end_session("The partner has ended the link session.");
}

/// Behind what is sent by it already, as any data is. Without a limit of time: an answer that is late shows as well
/// that data pass, and a path where they don't falls silent, or is over by its transport.
void PathsLink::Impl::prove(PathSlot path) {
  if (!manager.is_to_carry(path) || being_proven.contains(path)) return;
  being_proven.add(path);
  link(path).send(encode_request_frame({FrameKind::measure, {}, {}}), proof, {},
                  [this, path](const auto& result) { on_proof_answer(path, result); });
}

void PathsLink::Impl::on_proof_answer(PathSlot path, const IoResult<LinkAnswer>& result) {
  being_proven.remove(path);
  const bool takes_part = is<Established>() || is<Beginning>();
  if (!result || !takes_part || !manager.joined().contains(path)) return;
  manager.heard(path, clock.now());
  const auto frame = decode_answer_frame(result->header);
  const bool carried = frame && frame->kind == AnswerKind::alive;
  if (!carried && is<Beginning>()) return path_failed(path);
  if (!frame) return partner_is_wrong(frame.error().message);
  if (!carried) return end_session("The partner has ended the link session.");
  manager.carried(path);
  has_come_through(proof.size());
  ends_by_lost_data = 0;
  if (const auto* beginning = std::get_if<Beginning>(&state)) session_stands(beginning->partner);
}

/// The other paths wait for the one that asks for a session.
void PathsLink::Impl::limit_proof() {
  const auto* beginning = std::get_if<Beginning>(&state);
  if (beginning == nullptr || beginning->partner.is_nil() || clock.now() - beginning->since < kProofWithin) return;
  if (!manager.is_dying(beginning->path)) path_failed(beginning->path);
}

bool PathsLink::Impl::measure(PathSlot path, std::span<const std::byte> payload, engine::Callback<bool> done) {
  if (stopped || !is<Established>() || !manager.joined().contains(path)) return false;
  link(path).send(encode_request_frame({FrameKind::measure, {}, {}}), payload, {},
                  [this, path, done = std::move(done)](const auto& result) mutable {
                    if (result && is<Established>()) manager.heard(path, clock.now());
                    if (!result) return done(false);
                    const auto frame = decode_answer_frame(result->header);
                    done(frame && frame->kind == AnswerKind::alive);
                  });
  return true;
}

// ---- the end of a link session ----

void PathsLink::Impl::note_loss(Task& task) {
  if (task.losses++ == 0) task.lost_since = clock.now();
}

/// What the partner's disk holds up is lost with a path or two, as networks go; rarely with so many for so long.
bool PathsLink::Impl::is_lost_for_good(const Task& task) const {
  const auto since = lost_before.losses != 0 ? lost_before.since : task.lost_since;
  return task.losses + lost_before.losses >= kManyLosses && clock.now() - since >= kLostForLeases * lease;
}

/// The mirror sends again in the next session what was lost in this one: the count goes on there. Where each path that
/// is stuck takes longer to come back than a session lasts without one, no request would be lost more than once.
void PathsLink::Impl::remember_losses() {
  const unsigned before = lost_before.losses;
  for (const Task* task : numbered.tasks) {
    if (task->losses == 0) continue;
    lost_before.since = lost_before.losses == 0 ? task->lost_since : std::min(lost_before.since, task->lost_since);
    lost_before.losses = std::max(lost_before.losses, before + task->losses);
    lost_before.bytes = std::max(lost_before.bytes, task->bytes());
  }
}

/// What is smaller shows nothing: a network may lose what is large alone.
void PathsLink::Impl::has_come_through(std::size_t bytes) {
  if (bytes != 0 && bytes >= std::min(lost_before.bytes, proof.size())) lost_before = {lost_before.partner, 0, {}, 0};
}

bool PathsLink::Impl::must_carry() const { return ends_by_lost_data > kEndsWithContact; }

/// Heartbeats pass, and would keep contact for ever while hosts wait. So nothing is said until contact has run out, and
/// an arbiter decides. Where none can, the two agree when contact is made again (FlapDamping); and then hosts need not
/// wait for the next attempt before something large has come through.
void PathsLink::Impl::data_does_not_pass() {
  mark<"paths.data_does_not_pass">();
  ++ends_by_lost_data;
  clock.cancel(rest_timer);
  rest_timer = clock.call_after(kRestLeases * lease * (100 + kDriftPercent) / 100, [this] {
    rest_timer = TimerId::none;
    begin_anew();
  });
  end_session("Data does not reach the partner, though heartbeats do. Look for a difference in MTU on the way.");
  lost_before = {};
}

void PathsLink::Impl::partner_is_wrong(std::string why) {
  ++faults;
  end_session(std::move(why));
}

void PathsLink::Impl::end_session(std::string why) {
  if (!is<Established>()) return;
  remember_losses();
  problem = std::move(why);
  state = Ending{up};
  for_each(up, [&](PathSlot path) {
    manager.closing(path);
    link(path).reset();
  });
  // Without a path nothing has to be waited for but the caller, who may be in the midst of anything.
  if (!up.empty()) return;
  finish_timer = clock.call_after(Duration{0}, [this] {
    finish_timer = TimerId::none;
    finish_session();
  });
}

void PathsLink::Impl::finish_session() {
  clock.cancel(std::exchange(finish_timer, TimerId::none));
  // What is sent from in here waits, too, whichever stream it is of, and ends with them.
  while (end_all_of(ahead) || end_all_of(numbered)) {
  }
  ahead = Stream(FrameKind::ahead, kAheadWindow, Copies::every_path);
  numbered = Stream(FrameKind::numbered, kNumberedWindow, Copies::one);
  window = WindowBytes(kMaxBytesUnderWay);
  told = {};
  session_is_over();
}

/// False: there was none.
bool PathsLink::Impl::end_all_of(Stream& stream) {
  auto orphans = std::exchange(stream.tasks, {});
  orphans.insert(orphans.end(), stream.waiting.begin(), stream.waiting.end());
  stream.waiting.clear();
  for (Task* task : orphans) {
    assert(task->copies_out == 0);
    end(*task, std::unexpected(make_error_code(Errc::unknown_outcome)));
  }
  return !orphans.empty();
}

void PathsLink::Impl::session_is_over() {
  state = NoSession{};
  events->on_link_down();
  begin_anew();
}

PathsLink::PathsLink(engine::Clock& clock, const engine::Uuid& process, std::vector<PathOut> paths, PathTimes times,
                     std::size_t proof)
    : impl_(std::make_unique<Impl>(clock, process, std::move(paths), times, proof)) {}

PathsLink::~PathsLink() { impl_->cancel_timers(); }

void PathsLink::start(LinkEvents& events) {
  assert(impl_->events == nullptr);
  impl_->events = &events;
}

void PathsLink::stop() {
  impl_->stopped = true;
  impl_->cancel_timers();
  impl_->pool.forget_all();
}

void PathsLink::on_path_up(PathSlot path) { impl_->on_path_up(path); }
void PathsLink::on_path_down(PathSlot path) { impl_->on_path_down(path); }
void PathsLink::on_path_failing(PathSlot path) { impl_->on_path_failing(path); }
void PathsLink::on_path_closing(PathSlot path) { impl_->manager.closing(path); }

bool PathsLink::is_up() const {
  return impl_->is<Impl::Established>() || impl_->is<Impl::Plain>() || impl_->is<Impl::Ending>();
}

std::uint16_t PathsLink::version() const { return impl_->version; }

void PathsLink::reset() {
  if (const auto* plain = std::get_if<Impl::Plain>(&impl_->state)) return impl_->link(plain->path).reset();
  impl_->end_session("The link session was given up to begin anew.");
}

bool PathsLink::measure(PathSlot path, std::span<const std::byte> payload, engine::Callback<bool> done) {
  return impl_->measure(path, payload, std::move(done));
}

void PathsLink::set_lease(engine::Duration lease) { impl_->lease = lease; }
void PathsLink::set_rank(PathSlot path, const PathRank& rank) { impl_->manager.set_rank(path, rank); }
const PathManager& PathsLink::paths() const { return impl_->manager; }
const std::vector<PathAddress>& PathsLink::partner_addresses() const { return impl_->addresses; }
const std::string& PathsLink::problem() const { return impl_->problem; }
bool PathsLink::loses_data() const { return impl_->ends_by_lost_data != 0 && !impl_->is<Impl::Established>(); }
bool PathsLink::is_ending() const { return impl_->is<Impl::Ending>(); }
unsigned PathsLink::faults() const { return impl_->faults; }
std::size_t PathsLink::tasks_in_use() const { return impl_->pool.in_use(); }

}  // namespace lockstep::replication
