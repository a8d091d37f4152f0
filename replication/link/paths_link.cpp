#include "replication/link/paths_link.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>
#include <variant>

#include "replication/core/marks.hpp"
#include "replication/core/messages.hpp"
#include "replication/link/path_tasks.hpp"

namespace lockstep::replication {

using engine::Duration;
using engine::Errc;
using engine::IoResult;
using engine::TimerId;

namespace {

constexpr Duration kTick = std::chrono::milliseconds(25);

}  // namespace

struct PathsLink::Impl {
  using Task = PathTask;
  using Stream = PathTaskStream;
  struct NoSession {};
  struct Beginning {  ///< the path asks for a new session
    PathSlot path;
  };
  struct Established {
    engine::Uuid partner;  ///< its process
  };
  struct Plain {  ///< the partner knows no numbers: the mirror's requests go as they are
    PathSlot path;
  };
  struct Ending {     ///< until all paths are destroyed that had part in it
    PathSet closing;  ///< those
  };

  Impl(engine::Clock& c, const engine::Uuid& own, std::vector<PathOut> all, PathTimes times)
      : clock(c), process(own), paths(std::move(all)), manager(times, ranks_of(paths)) {}

  static std::vector<PathRank> ranks_of(const std::vector<PathOut>& paths) {
    std::vector<PathRank> ranks;
    for (const PathOut& path : paths) ranks.push_back(path.rank);
    return ranks;
  }

  engine::Clock& clock;
  engine::Uuid process;
  std::vector<PathOut> paths;
  PathManager manager;
  LinkEvents* events = nullptr;
  std::variant<NoSession, Beginning, Established, Plain, Ending> state;
  bool stopped = false;
  std::uint64_t session = 0;  ///< number of the latest
  std::uint16_t version = 0;
  PathSet up;       ///< their links are
  PathSet probing;  ///< with a question under way
  std::array<std::uint64_t, kMaxPaths> load{};
  std::array<std::size_t, kMaxPaths> ahead_out{};  ///< copies of heartbeats, answered elsewhere or not
  WindowBytes window{kMaxBytesUnderWay};           ///< of numbered requests
  AnswerNumber told;                               ///< acknowledged to the partner, of numbered requests
  Stream ahead{FrameKind::ahead, kAheadWindow, Copies::every_path};
  Stream numbered{FrameKind::numbered, kNumberedWindow, Copies::one};
  std::vector<PathAddress> addresses;
  std::string problem;
  unsigned faults = 0;
  PathTaskPool pool{kNumberedWindow + kAheadWindow};
  std::vector<Task*> late_tasks;  ///< that failed in send()
  TimerId late_timer = TimerId::none, tick_timer = TimerId::none, finish_timer = TimerId::none;

  [[nodiscard]] Link& link(PathSlot path) { return paths[index_of(path)].link; }
  template <class Which>
  [[nodiscard]] bool is() const {
    return std::holds_alternative<Which>(state);
  }
  template <class Do>
  void for_each(PathSet which, Do what) {
    for (std::size_t i = 0; i < paths.size(); ++i) {
      if (which.contains(static_cast<PathSlot>(i))) what(static_cast<PathSlot>(i));
    }
  }

  // ---- paths ----

  void on_path_up(PathSlot path) {
    assert(!up.contains(path));
    up.add(path);
    tick_later();
    take_part(path);
  }

  void take_part(PathSlot path) {
    const bool knows_numbers = link(path).version() >= kSeveralPaths;
    if (is<NoSession>() && !knows_numbers) {
      mark<"paths.partner_knows_no_numbers">();
      state = Plain{path};
      version = link(path).version();
      events->on_link_up();
    } else if (is<NoSession>()) {
      state = Beginning{path};
      ++session;
      ask_to_join(path, {});
    } else if (const auto* established = std::get_if<Established>(&state)) {
      if (knows_numbers) mark<"paths.joined_later">();
      if (knows_numbers) return ask_to_join(path, established->partner);
      end_session("The partner is another program, which speaks an earlier version.");
    }
  }

  void ask_to_join(PathSlot path, const engine::Uuid& partner) {
    manager.connected(path, clock.now());
    link(path).send(encode_join({session, process, partner}), {}, {},
                    [this, path](const auto& result) { on_join_answer(path, result); });
  }

  void on_join_answer(PathSlot path, const IoResult<LinkAnswer>& result) {
    if (!result) return path_failed(path);
    const auto answer = decode_join_answer(result->header);
    if (!answer) {
      problem = answer.error().message;
      return path_failed(path);
    }
    if (!manager.is_joining(path) || is<Ending>()) return;
    if (answer->verdict != JoinVerdict::welcome) {
      if (is<Established>()) return end_session("The partner has ended the link session.");
      problem =
          "The partner has met a later link session of this node, or a later process. If this goes on, and this "
          "machine was set back to a snapshot, restart lockstepd here.";
      // Set back with its memory, this process counts from a number that it had before.
      if (answer->verdict == JoinVerdict::overtaken && session < UINT64_MAX / 4) session *= 2;
      return path_failed(path);
    }
    addresses = answer->addresses;
    manager.joined(path, clock.now());
    if (is<Established>()) return pump();
    assert(std::get<Beginning>(state).path == path);
    state = Established{answer->process};
    version = link(path).version();
    problem.clear();
    events->on_link_up();
    for_each(up, [&](PathSlot other) {
      if (is<Established>() && manager.is_down(other)) take_part(other);
    });
  }

  /// Its end comes with on_path_down(): only then are its copies destroyed.
  void path_failed(PathSlot path) {
    manager.failed(path, clock.now());
    link(path).reset();
  }

  void on_path_down(PathSlot path) {
    assert(up.contains(path));
    up.remove(path);
    probing.remove(path);
    manager.destroyed(path, clock.now());
    if (auto* ending = std::get_if<Ending>(&state)) {
      ending->closing.remove(path);
      if (ending->closing.empty()) finish_session();
    } else if (const auto* plain = std::get_if<Plain>(&state)) {
      if (plain->path == path) session_is_over();
    } else if (const auto* beginning = std::get_if<Beginning>(&state)) {
      if (beginning->path != path) return;
      state = NoSession{};
      begin_anew();
    } else {
      pump();
    }
  }

  void begin_anew() {
    for_each(up, [&](PathSlot path) {
      if (is<NoSession>()) take_part(path);
    });
  }

  // ---- the time ----

  void cancel_timers() {
    for (const TimerId timer : {late_timer, tick_timer, finish_timer}) clock.cancel(timer);
  }

  void tick_later() {
    if (tick_timer != TimerId::none) return;
    tick_timer = clock.call_after(kTick, [this] {
      tick_timer = TimerId::none;
      tick();
      if (!up.empty() || !is<NoSession>()) tick_later();
    });
  }

  void tick() {
    const PathOrders orders = manager.tick(clock.now());
    for_each(orders.end, [&](PathSlot path) { link(path).reset(); });
    if (!is<Established>()) return;
    if (orders.session_over) {
      mark<"paths.none_left">();
      return end_session("No path to the partner is left.");
    }
    for_each(orders.probe, [&](PathSlot path) { probe(path); });
    if (told < numbered.sender.acknowledged()) {
      if (const auto path = manager.best(load, clock.now())) probe(*path);
    }
  }

  void probe(PathSlot path) {
    if (probing.contains(path)) return;
    probing.add(path);
    told = numbered.sender.acknowledged();
    link(path).send(encode_request_frame({FrameKind::probe, {}, told}), {}, {},
                    [this, path](const auto& result) { on_probe_answer(path, result); });
  }

  void on_probe_answer(PathSlot path, const IoResult<LinkAnswer>& result) {
    probing.remove(path);
    if (!result || !is<Established>()) return;
    manager.heard(path, clock.now());
    const auto frame = decode_answer_frame(result->header);
    if (!frame) return partner_is_wrong(frame.error().message);
    if (frame->kind != AnswerKind::alive) end_session("The partner has ended the link session.");
  }

  bool measure(PathSlot path, std::span<const std::byte> payload, engine::Callback<bool> done) {
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

  // ---- requests ----

  void send(std::span<const std::byte> header, std::span<const std::byte> payload_out, std::span<std::byte> payload_in,
            engine::Callback<IoResult<LinkAnswer>>& done) {
    if (stopped) return;
    if (const auto* plain = std::get_if<Plain>(&state)) {
      return link(plain->path).send(header, payload_out, payload_in, std::move(done));
    }
    assert(header.size() <= kMaxNumberedHeader);
    Task& task = pool.take();
    task.kind = is_heartbeat(header) ? FrameKind::ahead : FrameKind::numbered;
    std::memcpy(task.header.data(), header.data(), header.size());
    task.header_size = header.size();
    task.payload_out = payload_out;
    task.payload_in = payload_in;
    task.done = std::move(done);
    task.ended = false;
    assert(task.copies_out == 0);
    Stream& stream = task.kind == FrameKind::ahead ? ahead : numbered;
    if (!is<Established>() && !is<Ending>()) return end_later(task, Errc::unknown_outcome);
    if (stream.waiting.size() >= kMaxWaiting) return end_later(task, Errc::resource_exhausted);
    if (task.kind == FrameKind::ahead) {
      task.own_out.assign(payload_out.begin(), payload_out.end());
      task.own_in.resize(payload_in.size());
    }
    stream.waiting.push_back(&task);
    pump();
  }

  void pump() {
    if (!is<Established>() || !manager.best(load, clock.now())) return;
    pump_ahead();
    pump_numbered();
  }

  /// Every path gets each that is unanswered, as soon as it has room for it: one whose taker hangs is not to hold up
  /// those after it, which the receiver delivers in order.
  void pump_ahead() {
    while (!ahead.waiting.empty() && ahead.sender.has_room()) number_first(ahead);
    for_each(manager.joined(), [&](PathSlot path) {
      for (Task* task : ahead.tasks) {
        if (!takes_ahead(path)) return;
        if (!task->copies[index_of(path)].out) give_copy(ahead, *task, path, task->own_out, task->own_in);
      }
    });
  }

  /// The fastest path answers heartbeats for all of them: what a slower one still has of them is counted there alone,
  /// and would have no bound.
  [[nodiscard]] bool takes_ahead(PathSlot path) const { return ahead_out[index_of(path)] < kAheadWindow; }

  void pump_numbered() {
    while (const auto number = numbered.sender.in_hand()) {
      const auto task = std::ranges::find(numbered.tasks, *number, &Task::number);
      assert(task != numbered.tasks.end());
      mark<"paths.sent_again">();
      give_numbered(**task);
    }
    while (!numbered.waiting.empty() && has_room_for(numbered.waiting.front()->in_window())) {
      Task& task = number_first(numbered);
      window.sent(task.in_window());
      give_numbered(task);
    }
  }

  [[nodiscard]] bool has_room_for(RequestBytes next) const {
    if (!numbered.sender.has_room()) return false;
    return numbered.sender.unanswered() == 0 || window.has_room(next);
  }

  /// Of those that wait.
  static Task& number_first(Stream& stream) {
    Task& task = *stream.waiting.front();
    stream.waiting.pop_front();
    task.number = stream.sender.take_number();
    stream.tasks.push_back(&task);
    return task;
  }

  void give_numbered(Task& task) {
    give_copy(numbered, task, *manager.best(load, clock.now()), task.payload_out, task.payload_in);
  }

  void give_copy(Stream& stream, Task& task, PathSlot path, std::span<const std::byte> out, std::span<std::byte> in) {
    Task::Copy& copy = task.copies[index_of(path)];
    assert(!copy.out);
    copy = {&task, path, true};
    ++task.copies_out;
    load[index_of(path)] += task.bytes();
    if (stream.kind == FrameKind::ahead) ++ahead_out[index_of(path)];
    stream.sender.sent(task.number, path);
    const AnswerNumber acknowledged = stream.sender.acknowledged();
    if (stream.kind == FrameKind::numbered) told = acknowledged;
    std::array<std::byte, kMaxLinkHeader> header;
    const auto frame = encode_request_frame({stream.kind, task.number, acknowledged});
    std::memcpy(header.data(), frame.data(), frame.size());
    std::memcpy(header.data() + frame.size(), task.header.data(), task.header_size);
    link(path).send(std::span(header).first(frame.size() + task.header_size), out, in,
                    [this, &copy](const auto& result) { on_copy_end(copy, result); });
  }

  /// The path does not touch the request's buffers any more, whatever the result.
  void on_copy_end(Task::Copy& copy, const IoResult<LinkAnswer>& result) {
    Task& task = *copy.task;
    Stream& stream = task.kind == FrameKind::ahead ? ahead : numbered;
    assert(copy.out);
    copy.out = false;
    --task.copies_out;
    load[index_of(copy.path)] -= task.bytes();
    if (task.kind == FrameKind::ahead) --ahead_out[index_of(copy.path)];
    if (is<Ending>()) return give_back_if_over(task);  // finish_session() calls all back
    if (!result) {
      stream.sender.copy_destroyed(task.number, copy.path);
      if (manager.joined().contains(copy.path)) path_failed(copy.path);
      return give_back_if_over(task);  // else it is sent again when the path is down
    }
    manager.heard(copy.path, clock.now());
    const auto frame = decode_answer_frame(result->header);
    const bool fits = frame && (frame->kind == AnswerKind::answer || frame->kind == AnswerKind::stale);
    if (!fits) give_back_if_over(task);
    if (!frame) return partner_is_wrong(frame.error().message);
    if (!fits) return end_session("The partner has ended the link session.");
    const auto outcome = stream.sender.answered(task.number, copy.path, frame->number);
    if (!outcome) return partner_is_wrong(outcome.error().message);
    if (*outcome == ChannelSender::Answer::again) {
      give_back_if_over(task);
      return pump();  // the path has room for another heartbeat
    }
    std::erase(stream.tasks, &task);
    if (task.kind == FrameKind::numbered) {
      window.answered(task.in_window(), frame->number, numbered.sender.acknowledged());
    } else {
      std::copy_n(task.own_in.begin(), result->payload_bytes, task.payload_in.begin());
    }
    end(task, LinkAnswer{result->header.subspan(kAnswerFrame), result->payload_bytes});
    pump();
  }

  void end(Task& task, IoResult<LinkAnswer> outcome) {
    assert(!task.ended);
    auto done = std::move(task.done);
    done(outcome);
    task.ended = true;
    give_back_if_over(task);
  }

  void give_back_if_over(Task& task) {
    if (task.ended && task.copies_out == 0) pool.give_back(task);
  }

  /// `done` never runs from inside send().
  void end_later(Task& task, Errc code) {
    task.failure = code;
    late_tasks.push_back(&task);
    if (late_timer != TimerId::none) return;
    late_timer = clock.call_after(Duration{0}, [this] {
      late_timer = TimerId::none;
      for (Task* late : std::exchange(late_tasks, {})) end(*late, std::unexpected(make_error_code(late->failure)));
    });
  }

  // ---- the end of a link session ----

  void partner_is_wrong(std::string why) {
    ++faults;
    end_session(std::move(why));
  }

  void end_session(std::string why) {
    if (!is<Established>()) return;
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

  void finish_session() {
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
  bool end_all_of(Stream& stream) {
    auto orphans = std::exchange(stream.tasks, {});
    orphans.insert(orphans.end(), stream.waiting.begin(), stream.waiting.end());
    stream.waiting.clear();
    for (Task* task : orphans) {
      assert(task->copies_out == 0);
      end(*task, std::unexpected(make_error_code(Errc::unknown_outcome)));
    }
    return !orphans.empty();
  }

  void session_is_over() {
    state = NoSession{};
    events->on_link_down();
    begin_anew();
  }
};

PathsLink::PathsLink(engine::Clock& clock, const engine::Uuid& process, std::vector<PathOut> paths, PathTimes times)
    : impl_(std::make_unique<Impl>(clock, process, std::move(paths), times)) {}

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
void PathsLink::on_path_closing(PathSlot path) { impl_->manager.closing(path); }

bool PathsLink::is_up() const {
  return impl_->is<Impl::Established>() || impl_->is<Impl::Plain>() || impl_->is<Impl::Ending>();
}

std::uint16_t PathsLink::version() const { return impl_->version; }

void PathsLink::send(std::span<const std::byte> header, std::span<const std::byte> payload_out,
                     std::span<std::byte> payload_in, engine::Callback<IoResult<LinkAnswer>> done) {
  impl_->send(header, payload_out, payload_in, done);
}

void PathsLink::reset() {
  if (const auto* plain = std::get_if<Impl::Plain>(&impl_->state)) return impl_->link(plain->path).reset();
  impl_->end_session("The link session was given up to begin anew.");
}

bool PathsLink::measure(PathSlot path, std::span<const std::byte> payload, engine::Callback<bool> done) {
  return impl_->measure(path, payload, std::move(done));
}

void PathsLink::set_rank(PathSlot path, const PathRank& rank) { impl_->manager.set_rank(path, rank); }
const PathManager& PathsLink::paths() const { return impl_->manager; }
const std::vector<PathAddress>& PathsLink::partner_addresses() const { return impl_->addresses; }
const std::string& PathsLink::problem() const { return impl_->problem; }
bool PathsLink::is_ending() const { return impl_->is<Impl::Ending>(); }
unsigned PathsLink::faults() const { return impl_->faults; }
std::size_t PathsLink::tasks_in_use() const { return impl_->pool.in_use(); }

}  // namespace lockstep::replication
