#include "engine/rdma/real/completions.hpp"

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <utility>

#include <fcntl.h>

#include "engine/rdma/real/errors.hpp"
#include "engine/rdma/real/queue_pair.hpp"
#include "engine/rdma/real/real_fabric.hpp"
#include "engine/runtime/reactor_asio.hpp"

namespace lockstep::rdma {

/// Waits for the completion channel's events. A turn follows each, in which the queues are polled.
struct QueueGroup::Watch final : engine::TurnHook, std::enable_shared_from_this<QueueGroup::Watch> {
  Watch(engine::Reactor& r, CompletionsCore& c, const QueueGroup& g, ibv_comp_channel* ch)
      : reactor(r), core(&c), group(g), channel(ch), descriptor(engine::io_context(r), ch->fd) {}

  void wait() {
    descriptor.async_wait(engine::ReactorDescriptor::wait_read,
                          [self = shared_from_this()](boost::system::error_code error) {
                            if (error || self->core == nullptr) return;
                            const engine::ReactorEvent event(self->reactor);
                            const bool goes_on = self->take_events();
                            self->reactor.at_end_of_turn(*self);
                            if (goes_on) self->wait();
                          });
  }
  /// Each queue that is armed tells of itself once. False: the device is gone.
  bool take_events() {
    do {
      ibv_cq* queue = nullptr;
      void* context = nullptr;
      if (ibv_get_cq_event(channel, &queue, &context) != 0) return errno == EAGAIN || errno == EINTR;
      ibv_ack_cq_events(queue, 1);
      core->disarmed(queue);
    } while (core->has_armed(group));
    return true;
  }
  void end_of_turn() override {}  // the turn is what was wanted
  void stop() {
    core = nullptr;
    descriptor.release();
  }

  engine::Reactor& reactor;
  CompletionsCore* core;
  const QueueGroup& group;
  ibv_comp_channel* channel;
  engine::ReactorDescriptor descriptor;
};

QueueGroup::~QueueGroup() { assert(queues_.empty() && channel_ == nullptr); }

std::error_code QueueGroup::open() {
  channel_ = ibv_create_comp_channel(context_);
  if (channel_ == nullptr) return system_error(errno);
  ::fcntl(channel_->fd, F_SETFL, ::fcntl(channel_->fd, F_GETFL) | O_NONBLOCK);
  return {};
}

engine::IoResult<QueueGroup::Place> QueueGroup::reserve(QueueKind kind, std::uint32_t entries) {
  std::uint32_t longest = kFirst / 2;
  for (Queue& queue : queues_) {
    if (queue.kind != kind) continue;
    longest = std::max(longest, queue.capacity);
    if (queue.has_failed || queue.capacity - queue.reserved < entries) continue;
    queue.reserved += entries;
    return Place{queue.queue, false};
  }
  const auto most = static_cast<std::uint32_t>(max_entries_);
  const std::uint32_t wanted = std::max(2 * longest, entries + kSpare);
  if (entries + kSpare > most) return std::unexpected(make_error_code(RdmaErrc::too_many_work));
  ibv_cq* made = ibv_create_cq(context_, static_cast<int>(std::min(wanted, most)), nullptr, channel_, 0);
  if (made == nullptr) return std::unexpected(system_error(errno));
  queues_.push_back({kind, made, static_cast<std::uint32_t>(made->cqe) - kSpare, entries});
  return Place{made, true};
}

void QueueGroup::failed(const ibv_cq* queue) {
  for (Queue& each : queues_) each.has_failed |= each.queue == queue;
}

void QueueGroup::give_back(ibv_cq* queue, std::uint32_t entries) {
  for (Queue& each : queues_) {
    if (each.queue == queue) each.reserved -= entries;
  }
}

void QueueGroup::close() {
  assert(watch_ == nullptr);
  for (const Queue& queue : queues_) ibv_destroy_cq(queue.queue);
  queues_.clear();
  if (channel_ != nullptr) ibv_destroy_comp_channel(channel_);
  channel_ = nullptr;
}

void QueueGroup::watch(engine::Reactor& reactor, CompletionsCore& by) {
  watch_ = std::make_shared<Watch>(reactor, by, *this, channel_);
  watch_->wait();
}

void QueueGroup::unwatch() {
  watch_->stop();
  watch_.reset();
}

WorkTag CompletionsCore::enter(RealQueuePair& pair) {
  std::uint16_t slot = 0;
  if (free_slots_.empty()) {
    slot = static_cast<std::uint16_t>(slots_.size());
    assert(slots_.size() < 0xffff);  // the last is what foreign work carries
    slots_.emplace_back();
  } else {
    slot = free_slots_.back();
    free_slots_.pop_back();
  }
  slots_[slot].pair = &pair;
  ++pairs_;
  return {.slot = slot, .generation = slots_[slot].generation};
}

void CompletionsCore::leave(WorkTag tag) {
  assert(slots_[tag.slot].pair != nullptr && slots_[tag.slot].generation == tag.generation);
  slots_[tag.slot].pair = nullptr;
  ++slots_[tag.slot].generation;
  free_slots_.insert(free_slots_.begin(), tag.slot);  // the one that rested longest is used next
  --pairs_;
}

void CompletionsCore::add(std::shared_ptr<QueueGroup> group) {
  group->watch(reactor_, *this);
  groups_.push_back(std::move(group));
}

void CompletionsCore::add(const QueueGroup& group, QueueKind kind, ibv_cq* queue) {
  queues_.push_back({&group, kind, queue});
}

bool CompletionsCore::remove(const std::shared_ptr<QueueGroup>& group) {
  if (std::erase(groups_, group) == 0) return false;
  group->unwatch();
  std::erase_if(queues_, [&](const Polled& polled) { return polled.group == group.get(); });
  return true;
}

std::vector<std::shared_ptr<QueueGroup>> CompletionsCore::close() {
  assert(pairs_ == 0 && urgent_ == 0);
  reactor_.cancel(std::exchange(look_, engine::TimerId::none));
  queues_.clear();
  for (const auto& group : groups_) group->unwatch();
  return std::exchange(groups_, {});
}

void CompletionsCore::disarmed(ibv_cq* queue) {
  for (Polled& polled : queues_) {
    if (polled.queue == queue) polled.armed = false;
  }
}

bool CompletionsCore::has_armed(const QueueGroup& group) const {
  return std::ranges::any_of(queues_, [&](const Polled& each) { return each.group == &group && each.armed; });
}

void CompletionsCore::look_later() {
  if (look_ != engine::TimerId::none) return;
  look_ = reactor_.call_after(kLook, [this] {  // the turn that follows polls
    look_ = engine::TimerId::none;
    const auto has_sent = [](const Slot& slot) { return slot.pair != nullptr && slot.pair->has_sent(); };
    if (std::ranges::any_of(slots_, has_sent)) look_later();
  });
}

/// Receives first: what came before a connection was lost is told before that. However many there are, what was sent,
/// written and read is looked at, too: else whoever floods one connection with messages holds up all the others.
bool CompletionsCore::poll() {
  bool found = kept_ > 0;
  hand_out(std::exchange(kept_, 0));
  int receives = kATurn, sends = kATurn;
  found |= poll(QueueKind::receives, receives);
  found |= poll(QueueKind::sends, sends);
  has_more_ = receives <= 0 || sends <= 0;
  ++next_;
  return found;
}

bool CompletionsCore::poll(QueueKind kind, int& left) {
  bool found = false;
  for (std::size_t i = 0; i < queues_.size() && left > 0; ++i) {
    Polled& polled = queues_[(next_ + i) % queues_.size()];
    for (int count = polled.kind == kind ? kBatch : 0; count == kBatch && left > 0; left -= count) {
      count = take(polled);
      found |= count > 0;
      hand_out(count);
    }
  }
  return found;
}

/// Into the batch.
int CompletionsCore::take(Polled& polled) {
  const int count = ibv_poll_cq(polled.queue, kBatch, batch_.data());
  if (count >= 0) return count;
  // What it had to tell is lost, and with it all that wait for it.
  if (!std::exchange(polled.has_failed, true)) {
    fabric_.post([fabric = &fabric_, queue = polled.queue] { fabric->completion_queue_failed(queue); });
  }
  return 0;
}

void CompletionsCore::hand_out(int count) {
  for (int i = 0; i < count; ++i) {
    const ibv_wc completion = batch_[static_cast<std::size_t>(i)];
    const WorkTag tag = WorkTag::unpack(completion.wr_id);
    if (tag.slot >= slots_.size()) continue;
    const Slot slot = slots_[tag.slot];
    if (slot.pair != nullptr && slot.generation == tag.generation) slot.pair->completed(completion, tag);
  }
}

bool CompletionsCore::prepare_to_sleep() {
  if (pairs_ == 0) return true;
  if (has_more_) return false;
  bool may_sleep = true;
  for (Polled& polled : queues_) {
    if (polled.armed || (polled.kind == QueueKind::sends && urgent_ == 0)) continue;
    const bool rings = arm(polled);
    if (kept_ > 0) return false;
    may_sleep &= rings;  // one that rings none is polled
  }
  return may_sleep;
}

/// What came before it was armed rings no bell, and is kept.
bool CompletionsCore::arm(Polled& polled) {
  polled.armed = ibv_req_notify_cq(polled.queue, 0) == 0;
  kept_ = take(polled);
  return polled.armed || polled.has_failed;
}

RealCompletions::RealCompletions(RealFabric& fabric, engine::Reactor& reactor)
    : fabric_(fabric), core_(std::make_shared<CompletionsCore>(fabric, reactor)) {
  reactor.add_poller(*core_);
}

RealCompletions::~RealCompletions() {
  core_->reactor().remove_poller(*core_);
  fabric_.detach(*core_, core_->close());
}

}  // namespace lockstep::rdma
