#include "engine/iscsi/transmit_queue.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

#include "engine/base/crc32c.hpp"

namespace lockstep::iscsi {
namespace {

void store_digest(std::byte* at, std::uint32_t value) {
  for (std::size_t i = 0; i < kDigestSize; ++i) at[i] = static_cast<std::byte>(value >> (8 * i));
}

}  // namespace

void TransmitQueue::push(OutPdu& pdu) {
  seal(pdu);
  (first_ == nullptr ? first_ : last_->next_) = &pdu;
  last_ = &pdu;
  ++size_;
}

void TransmitQueue::push_ahead(OutPdu& pdu) {
  if (first_ == nullptr) return push(pdu);
  seal(pdu);
  OutPdu*& place = first_sent_ == 0 ? first_ : first_->next_;
  pdu.next_ = place;
  place = &pdu;
  if (pdu.next_ == nullptr) last_ = &pdu;
  ++size_;
}

// Lengths and digests.
void TransmitQueue::seal(OutPdu& pdu) const {
  const std::size_t length = pdu.data_[0].size() + pdu.data_[1].size();
  assert(length <= Be24::kMax);
  std::size_t head = kBhsSize + pdu.ahs_length_;
  pdu.head_[4] = static_cast<std::byte>(pdu.ahs_length_ / 4);
  for (std::size_t i = 0; i < 3; ++i) pdu.head_[5 + i] = static_cast<std::byte>(length >> (16 - 8 * i));
  if (header_digest_) {
    store_digest(pdu.head_.data() + head, engine::crc32c(std::span(pdu.head_).first(head)));
    head += kDigestSize;
  }
  pdu.head_length_ = static_cast<std::uint16_t>(head);
  std::size_t tail = padding_of(length);
  std::fill_n(pdu.tail_.begin(), tail, std::byte{0});
  if (data_digest_ && length != 0) {
    std::uint32_t crc = engine::crc32c(pdu.data_[0]);
    crc = engine::crc32c(pdu.data_[1], crc);
    store_digest(pdu.tail_.data() + tail, engine::crc32c(std::span(pdu.tail_).first(tail), crc));
    tail += kDigestSize;
  }
  pdu.tail_length_ = static_cast<std::uint8_t>(tail);
}

std::size_t TransmitQueue::gather(std::span<std::span<const std::byte>> pieces) const {
  std::size_t used = 0;
  std::size_t skip = first_sent_;
  const auto add = [&](std::span<const std::byte> piece) {
    if (skip >= piece.size()) return void(skip -= piece.size());
    pieces[used++] = piece.subspan(std::exchange(skip, 0));
  };
  for (const OutPdu* pdu = first_; pdu != nullptr && used + 4 <= pieces.size(); pdu = pdu->next_) {
    add(std::span(pdu->head_).first(pdu->head_length_));
    add(pdu->data_[0]);
    add(pdu->data_[1]);
    add(std::span(pdu->tail_).first(pdu->tail_length_));
  }
  return used;
}

void TransmitQueue::sent(std::size_t bytes) {
  first_sent_ += bytes;
  while (first_ != nullptr) {
    OutPdu& pdu = *first_;
    const std::size_t whole = pdu.head_length_ + pdu.data_[0].size() + pdu.data_[1].size() + pdu.tail_length_;
    if (first_sent_ < whole) return;
    first_sent_ -= whole;
    first_ = pdu.next_;
    --size_;
    if (pdu.done != nullptr) pdu.done(pdu.owner, true);
    pool_.put(pdu);
  }
  assert(first_sent_ == 0);
}

void TransmitQueue::drop() {
  first_sent_ = 0;
  while (first_ != nullptr) {
    OutPdu& pdu = *std::exchange(first_, first_->next_);
    --size_;
    if (pdu.done != nullptr) pdu.done(pdu.owner, false);
    pool_.put(pdu);
  }
}

}  // namespace lockstep::iscsi
