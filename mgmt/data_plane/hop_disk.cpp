#include "mgmt/data_plane/hop_disk.hpp"

#include <cassert>

namespace lockstep::mgmt {

using engine::DiskOpcode;
using engine::DiskRequest;
using engine::ReactorTask;

// One request on its way to the home reactor and back. `inner` is what the volume sees.
struct HopDisk::Hop {
  ReactorTask task;
  DiskRequest inner;
  DiskRequest* outer = nullptr;
  HopDisk* disk = nullptr;
  Lane* lane = nullptr;
  Hop* next = nullptr;

  void there() {
    task.run = [](ReactorTask& t) {
      Hop& hop = *static_cast<Hop*>(t.owner);
      hop.disk->inner_.submit(hop.inner);
    };
    disk->lanes_[disk->home_]->reactor->post(task);
  }
  void back() {
    task.run = [](ReactorTask& t) { static_cast<Hop*>(t.owner)->finish(); };
    lane->reactor->post(task);
  }
  void finish() {
    DiskRequest& request = *outer;
    request.status = inner.status;
    request.miscompare_offset = inner.miscompare_offset;
    request.transferred = inner.transferred;
    next = lane->free;
    lane->free = this;
    request.done(request);
  }
};

HopDisk::HopDisk(engine::Disk& inner, std::vector<engine::Reactor*> reactors, std::size_t home)
    : inner_(inner), info_(inner.info()), home_(home), access_(inner.access_state()) {
  for (engine::Reactor* reactor : reactors) {
    lanes_.push_back(std::make_unique<Lane>());
    lanes_.back()->reactor = reactor;
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
    hop->task.owner = hop;
  }
  hop->outer = &request;
  hop->inner = request;
  hop->inner.owner = hop;
  hop->inner.next = nullptr;
  hop->inner.holder = nullptr;
  hop->inner.done = [](DiskRequest& inner) { static_cast<Hop*>(inner.owner)->back(); };
  hop->there();
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

}  // namespace lockstep::mgmt
