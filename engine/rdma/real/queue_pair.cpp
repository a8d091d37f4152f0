#include "engine/rdma/real/queue_pair.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "engine/rdma/real/connection.hpp"
#include "engine/rdma/real/errors.hpp"
#include "engine/rdma/real/real_fabric.hpp"

namespace lockstep::rdma {

RealQueuePair::RealQueuePair(RealFabric& fabric, std::shared_ptr<CompletionsCore> core, const Wanted& wanted,
                             bool calling, Names names, QueuePairUser& user)
    : fabric_(fabric),
      core_(std::move(core)),
      user_(&user),
      limits_{.sends = wanted.sends, .receives = wanted.receives},
      calling_(calling),
      names_(std::move(names)),
      tag_(core_->enter(*this)),
      sends_(send_depth(), 0),
      receives_(wanted.receives) {
  early_.reserve(wanted.receives);
}

RealQueuePair::~RealQueuePair() { assert(connection_ == nullptr && "it is destroyed after close() has called back"); }

void RealQueuePair::receive(std::span<std::byte> first, std::span<std::byte> second, std::uint64_t id) {
  assert(phase_ != Phase::closing);
  if (phase_ == Phase::lost) return;
  if (pair_ == nullptr) {
    assert(early_receives_.size() < limits_.receives);
    early_receives_.push_back({first, second, id});
    return;
  }
  stage(Receive{first, second, id});
}

void RealQueuePair::ready(ibv_qp* pair, const Device& device, const Keys& keys, const Limits& limits,
                          std::vector<ibv_mw*> windows) {
  if (phase_ == Phase::closing) return;  // the control thread may have destroyed all of it by now
  pair_ = pair;
  keys_ = &keys;
  invalidated_flags_ = device.invalidated_flags();
  limits_ = limits;
  sends_.set_reads(limits.reads);
  std::vector<std::uint32_t> window_keys(windows.size());
  std::ranges::transform(windows, window_keys.begin(), &ibv_mw::rkey);
  windows_ = Windows(window_keys);
  window_handles_ = std::move(windows);
  if (phase_ != Phase::connecting) return;
  for (const Receive& each : std::exchange(early_receives_, {})) stage(each);
  post_receives();
  fabric_.post([connection = connection_] { connection->go(); });
}

void RealQueuePair::established(std::span<const std::byte> private_data, std::uint32_t reads, Names names) {
  names_ = std::move(names);
  if (phase_ != Phase::connecting) return;  // what was received told so already, or it is over
  limits_.reads = reads;
  sends_.set_reads(reads);
  tell_established(private_data);
  for (const Completion& each : std::exchange(early_, {})) {
    if (phase_ == Phase::closing) return;
    user_->on_completion(each);
  }
}

void RealQueuePair::tell_established(std::span<const std::byte> private_data) {
  phase_ = Phase::up;
  user_->on_established(private_data);
}

void RealQueuePair::lost(std::error_code why) {
  if (phase_ == Phase::closing || phase_ == Phase::lost || loss_) return;
  // What was received before it is told first: the pollers' turn is still to come.
  loss_ = why;
  core_->reactor().at_end_of_turn(*this);
}

void RealQueuePair::lose(std::error_code why) {
  if (phase_ == Phase::closing || phase_ == Phase::lost) return;
  phase_ = Phase::lost;
  loss_.clear();
  reads_waiting_.clear();
  waiting_.clear();
  user_->on_lost(why);
}

void RealQueuePair::close(engine::Callback<> closed) {
  assert(phase_ != Phase::closing);
  phase_ = Phase::closing;
  closed_ = std::move(closed);
  early_receives_.clear();
  early_.clear();
  reads_waiting_.clear();
  waiting_.clear();
  // What is staged stays behind.
  post_receives();
  post_sends();
  note_urgency();
  said_ = rest();
  fabric_.post([connection = connection_, rest = said_] { connection->close(rest); });
}

void RealQueuePair::dead() {
  assert(phase_ == Phase::closing);
  if (std::exchange(is_urgent_, false)) core_->note_urgent(false);
  core_->leave(tag_);
  connection_.reset();
  pair_ = nullptr;
  keys_ = nullptr;
  std::exchange(closed_, nullptr)();  // this may be gone now
}

Rest RealQueuePair::rest() const {
  if (sends_.awaited() > unposted_sends_ || receives_.count() > unposted_receives_) return Rest::awaited;
  return sends_.reads_silently() ? Rest::silent : Rest::nothing;
}

void RealQueuePair::say_rest() {
  if (said_ != Rest::awaited || rest() == Rest::awaited) return;
  said_ = rest();
  fabric_.post([connection = connection_, rest = said_] { connection->rests(rest); });
}

void RealQueuePair::completed(const ibv_wc& completion, WorkTag tag) {
  Completion told;
  if (completion.status != IBV_WC_SUCCESS) told.error = status_error(completion.status);
  if (tag.receive) {
    const auto id = receives_.complete();
    if (!id) return;
    told.work = Work::receive;
    told.id = *id;
    if (!told.error) {
      told.bytes = completion.byte_len;
      if ((completion.wc_flags & invalidated_flags_) != 0) told.invalidated = completion.invalidated_rkey;
      if (told.invalidated) windows_.invalidated(*told.invalidated);
    }
  } else {
    const auto entry = sends_.complete(tag.sequence);
    if (!entry) return;
    told.work = entry->work;
    told.id = entry->id;
    const bool is_shut = told.work == Work::hide && told.id != 0 && !told.error;  // without an id it is an expose
    if (is_shut) windows_.hidden();
  }
  if (phase_ == Phase::closing) return note_urgency(), say_rest();
  if (!told.error) stage_waiting();
  note_urgency();
  tell(told);
}

void RealQueuePair::await_sends() {
  if (phase_ == Phase::closing) return;
  sends_.await();
  note_urgency();
}

/// Who closes, or has no room, waits for what was sent before.
void RealQueuePair::note_urgency() {
  const bool waits = phase_ == Phase::closing || !waiting_.empty() || !reads_waiting_.empty() || sends_.is_urgent();
  const bool urgent = waits && has_sent();
  if (urgent != std::exchange(is_urgent_, urgent)) core_->note_urgent(urgent);
}

void RealQueuePair::tell(const Completion& completion) {
  if (phase_ == Phase::connecting && !completion.error && completion.work == Work::receive) {
    if (calling_) {
      early_.push_back(completion);
      return;
    }
    // The peer sends: so our answer has come, and its own will come later or is lost.
    fabric_.post([connection = connection_] { connection->heard(); });
    tell_established({});
    if (phase_ == Phase::closing) return;
  }
  if (phase_ != Phase::connecting && (completion.id != 0 || completion.work == Work::receive)) {
    user_->on_completion(completion);
  }
  if (!completion.error) return;
  if (completion.error != make_error_code(RdmaErrc::flushed)) return lose(completion.error);
  // The reason is another completion's, which may stand in the other queue, or the peer's goodbye, which is on its way.
  lost(make_error_code(std::errc::connection_reset));
}

}  // namespace lockstep::rdma
