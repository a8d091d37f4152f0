#include "engine/iser/send_queue.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <utility>

#include "engine/base/copy_bytes.hpp"
#include "engine/iscsi/out_pdu.hpp"

namespace lockstep::iser {

using iscsi::OutPdu;

void SendQueue::start(rdma::QueuePair& pair, std::span<std::byte> memory) {
  assert(memory.size() == shape_.send_memory());
  pair_ = &pair;
  memory_ = memory;
  posted_.set_capacity(shape_.work);
  free_slots_.reserve(shape_.sends);
  for (std::uint16_t slot = shape_.sends; slot-- > 0;) free_slots_.push_back(slot);
  ++figures_.queues.connections;
  figures_.queues.depth += shape_.work;
}

void SendQueue::count_work() {
  const std::size_t now = work();
  figures_.queues.work += now - counted_;  // which may be fewer: then it goes round
  figures_.queues.most = std::max<std::uint64_t>(figures_.queues.most, now);
  counted_ = now;
}

void SendQueue::push(OutPdu& pdu) {
  pdu.next_ = nullptr;
  (first_ == nullptr ? first_ : last_->next_) = &pdu;
  last_ = &pdu;
  ++size_;
}

void SendQueue::push_ahead(OutPdu& pdu) {
  pdu.next_ = first_;
  first_ = &pdu;
  if (last_ == nullptr || pdu.next_ == nullptr) last_ = &pdu;
  ++size_;
}

void SendQueue::write(std::span<const std::byte> from, const rdma::Remote& to) {
  assert(has_room());
  ++figures_.writes;
  figures_.bytes_written += from.size();
  ++writes_;
  ++new_writes_;
  new_written_ += from.size();
  count_work();
  pair_->write(from, to, 0);
}

void SendQueue::read(std::span<std::byte> into, const rdma::Remote& from, std::uint64_t id) {
  assert(has_room());
  ++figures_.reads;
  figures_.bytes_read += into.size();
  ++reads_;
  count_work();
  pair_->read(into, from, id);
}

void SendQueue::read_over() {
  --reads_;
  count_work();
}

rdma::Remote SendQueue::expose(std::span<std::byte> memory, rdma::Access access) {
  assert(work() < shape_.work - shape_.windows);
  ++figures_.windows;
  ++writes_;
  ++new_writes_;
  count_work();
  return pair_->expose(memory, access);
}

void SendQueue::hide(std::uint32_t key, std::uint64_t id) {
  assert(work() < shape_.work);
  ++figures_.hidden;
  ++reads_;
  count_work();
  pair_->hide(key, id);
}

void SendQueue::post() {
  starved_ = false;
  while (first_ != nullptr && work() < shape_.work - shape_.windows && post(*first_)) first_ = first_->next_;
  if (first_ == nullptr) last_ = nullptr;
}

std::span<std::byte> SendQueue::slot_memory(std::uint16_t slot) const {
  return slot == kLongSlot ? memory_.last(Shape::kLong) : memory_.subspan(slot * shape_.send_bytes, shape_.send_bytes);
}

std::uint16_t SendQueue::take_slot(std::size_t bytes) {
  if (bytes > shape_.send_bytes) return std::exchange(long_is_free_, false) ? kLongSlot : kNoSlot;
  if (free_slots_.empty()) return kNoSlot;
  const std::uint16_t slot = free_slots_.back();
  free_slots_.pop_back();
  return slot;
}

bool SendQueue::stays_in_place(const OutPdu& pdu, std::size_t bytes) const {
  return bytes > shape_.send_bytes && std::ranges::all_of(pdu.data_, [this](std::span<const std::byte> piece) {
           return piece.empty() || pair_->is_registered(piece);
         });
}

void SendQueue::put_together(OutPdu& pdu, bool in_place, std::span<std::byte> place) {
  const std::size_t data = pdu.data_[0].size() + pdu.data_[1].size();
  if (pdu.lead) {
    std::ranges::copy(*pdu.lead, place.begin());
  } else {
    write_header({}, place.first(kHeaderSize));
  }
  pdu.head_[4] = static_cast<std::byte>(pdu.ahs_length_ / 4);
  for (std::size_t i = 0; i < 3; ++i) pdu.head_[5 + i] = static_cast<std::byte>(data >> (16 - 8 * i));
  place = place.subspan(kHeaderSize);
  const auto append = [&place](std::span<const std::byte> piece) {
    std::copy(piece.begin(), piece.end(), place.begin());
    place = place.subspan(piece.size());
  };
  append(std::span(pdu.head_).first(iscsi::kBhsSize + pdu.ahs_length_));
  if (in_place) return;
  append(pdu.data_[0]);
  append(pdu.data_[1]);
  std::fill_n(place.begin(), iscsi::padding_of(data), std::byte{0});
}

// False: it has to wait for a slot, or for a buffer.
bool SendQueue::post(OutPdu& pdu) {
  const std::size_t lead = protection_ != nullptr ? kProtectionSize : 0;
  const std::size_t headers = lead + kHeadersSize + pdu.ahs_length_;
  const std::size_t data = pdu.data_[0].size() + pdu.data_[1].size();
  const std::size_t padding = iscsi::padding_of(data);
  const bool beside =
      protection_ != nullptr ? headers + data + padding > shape_.send_bytes : stays_in_place(pdu, headers + data);
  const std::size_t together = headers + (beside ? 0 : data + padding);
  if (together > Shape::kLong || (lead != 0 && data > Shape::kLong)) return overrun_ = true, false;
  const std::size_t bytes = together + (beside ? data : 0);
  std::array<std::byte, kMostInline> short_one;
  Posted posted{.id = 0,
                .pdu = &pdu,
                .writes = new_writes_,
                .written = new_written_,
                .bytes = static_cast<std::uint32_t>(bytes),
                .data = {}};
  if (lead != 0 && beside && !(posted.data = buffers_.allocate(data))) return starved_ = true, false;
  std::span<std::byte> place = short_one;
  if (bytes > std::min<std::size_t>(pair_->limits().max_inline, kMostInline)) {
    posted.slot = take_slot(together);
    if (posted.slot == kNoSlot) return false;
    place = slot_memory(posted.slot);
  }
  put_together(pdu, beside, place.subspan(lead));
  const auto none = std::span<const std::byte>{};
  std::array<std::span<const std::byte>, 3> pieces{place.first(together), beside ? pdu.data_[0] : none,
                                                   beside ? pdu.data_[1] : none};
  if (lead != 0) {
    seal(pdu, place.first(together), posted.data.span());
    pieces = {place.first(together), posted.data.span(), none};
    figures_.copied.cipher += data;
  }
  send(std::move(posted), pieces);
  return true;
}

// What lies beside is not copied first.
void SendQueue::seal(OutPdu& pdu, std::span<std::byte> together, std::span<std::byte> beside) {
  const auto lead = together.first<kProtectionSize>();
  pdu.protection ? (void)std::ranges::copy(*pdu.protection, lead.begin()) : write_protection({}, lead);
  constexpr std::size_t kTag = engine::MessageCipher::kTag;
  const std::size_t first = std::min(pdu.data_[0].size(), beside.size());
  const std::array<Protection::Piece, 3> pieces{Protection::Piece{together.subspan(kTag), together.subspan(kTag)},
                                                Protection::Piece{pdu.data_[0], beside.first(first)},
                                                Protection::Piece{pdu.data_[1], beside.subspan(first)}};
  engine::MessageCipher::Tag tag;
  protection_->seal(std::span(pieces).first(beside.empty() ? 1 : 3), tag);
  std::ranges::copy(tag, lead.begin());
}

void SendQueue::send(Posted posted, std::span<const std::span<const std::byte>> pieces) {
  posted.id = ++last_id_;
  pair_->send({.pieces = pieces, .invalidates = posted.pdu ? posted.pdu->invalidates : std::nullopt, .id = posted.id});
  ++figures_.messages_out;
  figures_.bytes_out += posted.bytes;
  figures_.invalidations += posted.pdu && posted.pdu->invalidates ? 1 : 0;
  new_writes_ = new_written_ = 0;
  posted_.push_back(std::move(posted));
  count_work();
}

bool SendQueue::post_bytes(std::span<const std::byte> bytes) {
  assert(bytes.size() <= Shape::kLong);
  if (!std::exchange(long_is_free_, false)) return false;
  const auto place = slot_memory(kLongSlot).first(bytes.size());
  engine::copy_bytes(bytes, place);
  figures_.copied.control += bytes.size();
  send({.bytes = static_cast<std::uint32_t>(bytes.size()), .slot = kLongSlot, .data = {}},
       std::array{std::span<const std::byte>(place)});
  return true;
}

std::size_t SendQueue::completed(std::uint64_t id) {
  std::size_t bytes = 0;
  while (!posted_.empty() && posted_.front().id <= id) {
    Posted posted = std::move(posted_.front());
    posted_.pop_front();
    bytes += posted.bytes + posted.written;
    end(std::move(posted), true);
  }
  if (posted_.empty() || posted_.front().id > round_) {
    ++rounds_;
    round_ = last_id_;
  }
  count_work();
  return bytes;
}

void SendQueue::end(Posted posted, bool sent) {
  writes_ -= posted.writes;
  if (posted.slot == kLongSlot) {
    long_is_free_ = true;
  } else if (posted.slot != kNoSlot) {
    free_slots_.push_back(posted.slot);
  }
  if (posted.pdu == nullptr) return;
  --size_;
  if (posted.pdu->done != nullptr) posted.pdu->done(posted.pdu->owner, sent);
  pool_.put(*posted.pdu);
}

void SendQueue::drop() {
  --figures_.queues.connections;
  figures_.queues.depth -= shape_.work;
  figures_.queues.work -= counted_;
  while (!posted_.empty()) {
    Posted posted = std::move(posted_.front());
    posted_.pop_front();
    end(std::move(posted), false);
  }
  last_ = nullptr;
  while (first_ != nullptr) {
    OutPdu& pdu = *std::exchange(first_, first_->next_);
    --size_;
    if (pdu.done != nullptr) pdu.done(pdu.owner, false);
    pool_.put(pdu);
  }
}

}  // namespace lockstep::iser
