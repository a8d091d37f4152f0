// What is sent over several paths: its numbers, its copies, and its end.
#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "replication/core/marks.hpp"
#include "replication/core/messages.hpp"
#include "replication/link/paths_link_impl.hpp"

namespace lockstep::replication {

using engine::Duration;
using engine::Errc;
using engine::IoResult;
using engine::TimerId;

void PathsLink::Impl::send(std::span<const std::byte> header, std::span<const std::byte> payload_out,
                           std::span<std::byte> payload_in, engine::Callback<IoResult<LinkAnswer>>& done) {
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
  task.losses = 0;
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

void PathsLink::Impl::pump() {
  if (!is<Established>() || manager.joined().empty()) return;
  pump_ahead();
  pump_numbered();
}

/// Every path gets each that is unanswered, as soon as it has room for it: one whose taker hangs is not to hold up
/// those after it, which the receiver delivers in order.
void PathsLink::Impl::pump_ahead() {
  if (ahead.waiting.empty() && ahead.tasks.empty()) return;
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
bool PathsLink::Impl::takes_ahead(PathSlot path) const { return ahead_out[index_of(path)] < kAheadWindow; }

void PathsLink::Impl::pump_numbered() {
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

bool PathsLink::Impl::has_room_for(RequestBytes next) const {
  if (!numbered.sender.has_room()) return false;
  return numbered.sender.unanswered() == 0 || window.has_room(next);
}

/// Of those that wait.
PathTask& PathsLink::Impl::number_first(Stream& stream) {
  Task& task = *stream.waiting.front();
  stream.waiting.pop_front();
  task.number = stream.sender.take_number();
  stream.tasks.push_back(&task);
  return task;
}

/// Which is the best, the time says where there are two.
void PathsLink::Impl::give_numbered(Task& task) {
  const PathSet joined = manager.joined();
  const PathSlot path = joined.size() == 1 ? joined.first() : *manager.best(load, clock.now());
  give_copy(numbered, task, path, task.payload_out, task.payload_in);
}

void PathsLink::Impl::give_copy(Stream& stream, Task& task, PathSlot path, std::span<const std::byte> out,
                                std::span<std::byte> in) {
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
void PathsLink::Impl::on_copy_end(Task::Copy& copy, const IoResult<LinkAnswer>& result) {
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
    if (task.kind == FrameKind::numbered) note_loss(task);
    if (is_lost_for_good(task)) return data_does_not_pass();
    give_back_if_over(task);
    return pump();  // what the path was given as it broke may be the last that ends
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
    has_come_through(task.bytes());
    window.answered(task.in_window(), frame->number, numbered.sender.acknowledged());
  } else {
    std::copy_n(task.own_in.begin(), result->payload_bytes, task.payload_in.begin());
  }
  end(task, LinkAnswer{result->header.subspan(kAnswerFrame), result->payload_bytes});
  pump();
}

void PathsLink::Impl::end(Task& task, IoResult<LinkAnswer> outcome) {
  assert(!task.ended);
  auto done = std::move(task.done);
  done(outcome);
  task.ended = true;
  give_back_if_over(task);
}

void PathsLink::Impl::give_back_if_over(Task& task) {
  if (task.ended && task.copies_out == 0) pool.give_back(task);
}

/// `done` never runs from inside send().
void PathsLink::Impl::end_later(Task& task, Errc code) {
  task.failure = code;
  late_tasks.push_back(&task);
  if (late_timer != TimerId::none) return;
  late_timer = clock.call_after(Duration{0}, [this] {
    late_timer = TimerId::none;
    for (Task* late : std::exchange(late_tasks, {})) end(*late, std::unexpected(make_error_code(late->failure)));
  });
}

void PathsLink::send(std::span<const std::byte> header, std::span<const std::byte> payload_out,
                     std::span<std::byte> payload_in, engine::Callback<IoResult<LinkAnswer>> done) {
  impl_->send(header, payload_out, payload_in, done);
}

}  // namespace lockstep::replication
