// What a queue pair's user posts: collected during a turn, handed to the device at its end.
#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "engine/rdma/real/device.hpp"
#include "engine/rdma/real/errors.hpp"
#include "engine/rdma/real/queue_pair.hpp"

namespace lockstep::rdma {

ibv_sge RealQueuePair::piece_of(std::span<const std::byte> memory) {
  const auto key = keys_->find(memory);
  if (!key) lost(RdmaErrc::not_registered);
  return {.addr = reinterpret_cast<std::uintptr_t>(memory.data()),
          .length = static_cast<std::uint32_t>(memory.size()),
          .lkey = key ? key->key : 0};
}

void RealQueuePair::stage(const Receive& receive) {
  if (staged_receive_count_ == kBatch) post_receives();
  StagedReceive& staged = staged_receives_[staged_receive_count_++];
  staged.pieces[0] = piece_of(receive.first);
  if (!receive.second.empty()) staged.pieces[1] = piece_of(receive.second);
  staged.work.num_sge = receive.second.empty() ? 1 : 2;
  WorkTag tag = tag_;
  tag.receive = true;
  tag.sequence = receive_sequence_++;
  staged.work.wr_id = tag.pack();
  receives_.post(receive.id);
  core_->reactor().at_end_of_turn(*this);
}

void RealQueuePair::send(const Send& send) {
  assert(phase_ != Phase::closing && phase_ != Phase::connecting && send.pieces.size() <= kMaxPieces);
  if (phase_ != Phase::up) return;
  Request request;
  request.work.opcode = send.invalidates ? IBV_WR_SEND_WITH_INV : IBV_WR_SEND;
  if (send.invalidates) request.work.invalidate_rkey = *send.invalidates;
  std::size_t bytes = 0;
  for (const auto piece : send.pieces) bytes += piece.size();
  if (bytes <= limits_.max_inline) {
    for (const auto piece : send.pieces) {
      if (piece.empty()) continue;
      std::memcpy(request.bytes.data() + request.copied, piece.data(), piece.size());
      request.copied += static_cast<std::uint32_t>(piece.size());
    }
    request.work.send_flags = IBV_SEND_INLINE;
    request.work.num_sge = request.copied > 0 ? 1 : 0;
  } else {
    assert(send.id != 0);
    for (const auto piece : send.pieces) {
      if (!piece.empty()) request.pieces[static_cast<std::size_t>(request.work.num_sge++)] = piece_of(piece);
    }
  }
  push(request, send.id, Work::send);
}

void RealQueuePair::write(std::span<const std::byte> from, const Remote& to, std::uint64_t id) {
  assert(phase_ != Phase::closing && phase_ != Phase::connecting);
  if (phase_ != Phase::up) return;
  Request request;
  request.work.opcode = IBV_WR_RDMA_WRITE;
  request.work.wr.rdma.remote_addr = to.address;
  request.work.wr.rdma.rkey = to.key;
  request.work.num_sge = from.empty() ? 0 : 1;
  if (!from.empty()) request.pieces[0] = piece_of(from);
  push(request, id, Work::write);
}

void RealQueuePair::read(std::span<std::byte> into, const Remote& from, std::uint64_t id) {
  assert(phase_ != Phase::closing && phase_ != Phase::connecting && id != 0);
  if (phase_ != Phase::up) return;
  if (limits_.reads == 0) return lost(RdmaErrc::no_reads);
  if (reads_waiting_.empty() && sends_.may_post(Work::read)) return stage(Read{into, from, id});
  reads_waiting_.push_back({into, from, id});
  note_urgency();
}

bool RealQueuePair::is_registered(std::span<const std::byte> memory) const {
  return keys_ != nullptr && keys_->find(memory).has_value();
}

Remote RealQueuePair::expose(std::span<std::byte> memory, Access access) {
  assert(phase_ != Phase::closing && phase_ != Phase::connecting && !memory.empty());
  const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
  const auto registration = keys_->find(memory);
  if (!registration) lost(RdmaErrc::not_registered);
  if (phase_ != Phase::up || loss_) return {.address = address, .key = 0};
  const auto opened = windows_.open();
  Request request;
  request.work.opcode = IBV_WR_BIND_MW;
  request.work.bind_mw.mw = window_handles_[opened.place];
  request.work.bind_mw.rkey = opened.key;
  request.work.bind_mw.bind_info = {
      .mr = registration->region,
      .addr = address,
      .length = memory.size(),
      .mw_access_flags = access == Access::read ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE};
  push(request, 0, Work::hide);
  return {.address = address, .key = opened.key};
}

void RealQueuePair::hide(std::uint32_t key, std::uint64_t id) {
  assert(phase_ != Phase::closing && phase_ != Phase::connecting && id != 0);
  if (phase_ != Phase::up || loss_) return;
  const bool was_open = windows_.hide(key);
  assert(was_open);
  if (!was_open) return;
  Request request;
  request.work.opcode = IBV_WR_LOCAL_INV;
  request.work.invalidate_rkey = key;
  push(request, id, Work::hide);
}

void RealQueuePair::push(const Request& request, std::uint64_t id, Work work) {
  if (waiting_.empty() && sends_.may_post(work)) return stage(request, id, work);
  waiting_.push_back({request, id, work});
  note_urgency();
}

/// Sends and writes first, in their order: no read holds them up.
void RealQueuePair::stage_waiting() {
  while (!waiting_.empty() && sends_.may_post(waiting_.front().work)) {
    const Waiting next = waiting_.front();
    waiting_.pop_front();
    stage(next.request, next.id, next.work);
  }
  while (!reads_waiting_.empty() && sends_.may_post(Work::read)) {
    const Read next = reads_waiting_.front();
    reads_waiting_.pop_front();
    stage(next);
  }
}

void RealQueuePair::stage(const Read& read) {
  Request request;
  request.work.opcode = IBV_WR_RDMA_READ;
  request.work.wr.rdma.remote_addr = read.from.address;
  request.work.wr.rdma.rkey = read.from.key;
  request.work.num_sge = read.into.empty() ? 0 : 1;
  if (!read.into.empty()) request.pieces[0] = piece_of(read.into);
  stage(request, read.id, Work::read);
}

void RealQueuePair::stage(const Request& request, std::uint64_t id, Work work) {
  if (staged_send_count_ == kBatch) {
    post_receives();  // what these make the peer send may come before the turn's end
    post_sends();
  }
  Request& staged = staged_sends_[staged_send_count_++];
  staged.work = request.work;
  staged.pieces = request.pieces;
  staged.copied = request.copied;
  std::memcpy(staged.bytes.data(), request.bytes.data(), request.copied);
  const auto posted = sends_.post(work, id);
  WorkTag tag = tag_;
  tag.sequence = posted.sequence;
  staged.work.wr_id = tag.pack();
  if (posted.signalled) staged.work.send_flags |= IBV_SEND_SIGNALED;
  note_urgency();
  core_->look_later();
  core_->reactor().at_end_of_turn(*this);
}

void RealQueuePair::end_of_turn() {
  post_receives();
  post_sends();
  if (loss_) lose(std::exchange(loss_, {}));
}

void RealQueuePair::post_receives() {
  const std::size_t count = std::exchange(staged_receive_count_, 0);
  if (count == 0) return;
  for (std::size_t i = 0; i < count; ++i) {
    StagedReceive& staged = staged_receives_[i];
    staged.work.sg_list = staged.pieces.data();
    staged.work.next = i + 1 < count ? &staged_receives_[i + 1].work : nullptr;
  }
  ibv_recv_wr* refused = &staged_receives_[0].work;
  const bool may = (phase_ == Phase::connecting || phase_ == Phase::up) && !loss_;
  const int failed = may ? ibv_post_recv(pair_, refused, &refused) : 0;
  if (may && failed == 0) return;
  for (; refused != nullptr; refused = refused->next) ++unposted_receives_;
  if (may) lost(system_error(failed));
}

/// The post needs the key that a window had before, the next post of the same window the one that it has now.
void RealQueuePair::windows_posted(std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const ibv_send_wr& work = staged_sends_[i].work;
    if (work.opcode == IBV_WR_BIND_MW) work.bind_mw.mw->rkey = work.bind_mw.rkey;
  }
}

void RealQueuePair::post_sends() {
  const std::size_t count = std::exchange(staged_send_count_, 0);
  if (count == 0) return;
  for (std::size_t i = 0; i < count; ++i) {
    Request& staged = staged_sends_[i];
    if (staged.copied > 0) {
      staged.pieces[0] = {
          .addr = reinterpret_cast<std::uintptr_t>(staged.bytes.data()), .length = staged.copied, .lkey = 0};
    }
    staged.work.sg_list = staged.pieces.data();
    staged.work.next = i + 1 < count ? &staged_sends_[i + 1].work : nullptr;
  }
  ibv_send_wr* refused = &staged_sends_[0].work;
  const bool may = phase_ == Phase::up && !loss_;
  const int failed = may ? ibv_post_send(pair_, refused, &refused) : 0;
  if (may && failed == 0) return windows_posted(count);
  for (; refused != nullptr; refused = refused->next) {
    if ((refused->send_flags & IBV_SEND_SIGNALED) != 0) ++unposted_sends_;
  }
  if (may) lost(system_error(failed));
}

}  // namespace lockstep::rdma
