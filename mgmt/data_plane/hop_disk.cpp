#include "mgmt/data_plane/hop_disk.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

#include "mgmt/data_plane/worker.hpp"

namespace lockstep::data_plane {

using engine::DiskOpcode;
using engine::DiskRequest;
using engine::ReactorTask;

namespace {

/// Of two times, either of which may be none.
engine::TimePoint earlier(engine::TimePoint a, engine::TimePoint b) {
  if (a == engine::TimePoint{}) return b;
  return b == engine::TimePoint{} ? a : std::min(a, b);
}

}  // namespace

// One request on its way to the home reactor and back. `inner` is what the volume sees. A cancel follows it on a task
// of its own, which comes back too: until both are back the request is not over, so that neither a cancel meets a
// request that took this one's place nor the disk is taken down while a cancel is on its way.
struct HopDisk::Hop {
  ReactorTask task, cancelling;
  DiskRequest inner;
  DiskRequest* outer = nullptr;
  HopDisk* disk = nullptr;
  Lane* lane = nullptr;
  Hop* next = nullptr;
  unsigned away = 0;          // the lane's: of the two tasks those that are not back
  bool is_cancelled = false;  // the lane's
  bool is_at_work = false;    // the home reactor's: `inner` is with the volume

  static Hop& of(ReactorTask& t) { return *static_cast<Hop*>(t.owner); }

  // On the lane's reactor.
  void there() {
    away = 1;
    is_cancelled = false;
    task.run = [](ReactorTask& t) { of(t).start(); };
    home().post(task);
  }
  void cancel() {
    if (std::exchange(is_cancelled, true)) return;
    ++away;
    cancelling.run = [](ReactorTask& t) { of(t).cancel_inner(); };
    home().post(cancelling);
  }
  void arrived() {
    if (--away == 0) finish();
  }
  void finish() {
    DiskRequest& request = *outer;
    request.status = inner.status;
    request.miscompare_offset = inner.miscompare_offset;
    request.transferred = inner.transferred;
    request.holder = nullptr;
    next = lane->free;
    lane->free = this;
    request.done(request);
  }

  // On the home reactor. The cancel was posted after the request, and so runs after it.
  void start() {
    is_at_work = true;
    disk->inner_.submit(inner);
  }
  void ended() {
    is_at_work = false;
    back(task);
  }
  void cancel_inner() {
    if (is_at_work) disk->inner_.cancel(inner);
    back(cancelling);
  }

  [[nodiscard]] engine::Reactor& home() const { return *disk->lanes_[disk->home_]->reactor; }
  void back(ReactorTask& t) {
    t.run = [](ReactorTask& arrived) { of(arrived).arrived(); };
    lane->reactor->post(t);
  }
};

HopDisk::HopDisk(engine::Disk& inner, const std::vector<From>& from, std::size_t home)
    : inner_(inner), info_(inner.info()), home_(home), access_(inner.access_state()) {
  for (const From& each : from) {
    lanes_.push_back(std::make_unique<Lane>());
    lanes_.back()->reactor = each.reactor;
    lanes_.back()->stalls = each.stalls;
  }
}

HopDisk::~HopDisk() = default;

HopDisk::Lane& HopDisk::lane_of_this_thread() {
  if (lanes_.size() == 1 || lanes_[home_]->reactor->on_this_thread()) return *lanes_[home_];
  for (const auto& lane : lanes_) {
    if (lane->reactor->on_this_thread()) return *lane;
  }
  assert(!"a disk request from a thread that is no data reactor");
  return *lanes_[home_];
}

// Each lane's counters have one writer: no read-modify-write is needed.
void HopDisk::count(Lane& lane, const DiskRequest& request) {
  const auto add = [](std::atomic<std::uint64_t>& counter, std::uint64_t n) {
    counter.store(counter.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  };
  if (request.opcode == DiskOpcode::read || request.opcode == DiskOpcode::verify) {
    add(lane.reads, 1);
    add(lane.read_bytes, request.extent.length);
  } else if (request.opcode < DiskOpcode::change_state && request.opcode != DiskOpcode::flush) {
    add(lane.writes, 1);
    add(lane.write_bytes, request.extent.length);
  }
}

void HopDisk::submit(DiskRequest& request) {
  Lane& lane = lane_of_this_thread();
  count(lane, request);
  if (&lane == lanes_[home_].get()) return inner_.submit(request);
  Hop* hop = lane.free;
  if (hop) {
    lane.free = hop->next;
  } else {
    lane.hops.push_back(std::make_unique<Hop>());
    hop = lane.hops.back().get();
    hop->disk = this;
    hop->lane = &lane;
    hop->task.owner = hop->cancelling.owner = hop;
  }
  hop->outer = &request;
  hop->inner = request;
  hop->inner.owner = hop;
  hop->inner.next = nullptr;
  hop->inner.holder = nullptr;
  if (lane.stalls) hop->inner.came_since = earlier(request.came_since, lane.stalls->came_since());
  hop->inner.done = [](DiskRequest& inner) { static_cast<Hop*>(inner.owner)->ended(); };
  request.holder = hop;
  hop->there();
}

void HopDisk::cancel(DiskRequest& request) {
  if (&lane_of_this_thread() == lanes_[home_].get()) return inner_.cancel(request);
  static_cast<Hop*>(request.holder)->cancel();
}

void HopDisk::set_state_listener(std::shared_ptr<scsi::LuStateListener> listener) {
  engine::Reactor& home = *lanes_[home_]->reactor;
  if (home.on_this_thread()) return inner_.set_state_listener(std::move(listener));
  home.post([this, listener = std::move(listener)]() mutable { inner_.set_state_listener(std::move(listener)); });
}

DiskCounters HopDisk::counters() const {
  DiskCounters sum;
  for (const auto& lane : lanes_) {
    sum.reads += lane->reads.load(std::memory_order_relaxed);
    sum.writes += lane->writes.load(std::memory_order_relaxed);
    sum.read_bytes += lane->read_bytes.load(std::memory_order_relaxed);
    sum.write_bytes += lane->write_bytes.load(std::memory_order_relaxed);
  }
  return sum;
}

}  // namespace lockstep::data_plane
