#include "engine/iscsi/out_pdu.hpp"

#include <cassert>
#include <cstring>
#include <utility>

namespace lockstep::iscsi {

void OutPdu::set_ahs(std::span<const std::byte> ahs) {
  assert(ahs.size() <= kMaxAhs && ahs.size() % 4 == 0);
  if (!ahs.empty()) std::memcpy(head_.data() + kBhsSize, ahs.data(), ahs.size());
  ahs_length_ = static_cast<std::uint16_t>(ahs.size());
}

void OutPdu::copy_data(std::span<const std::byte> data) {
  copy_.assign(data.begin(), data.end());
  data_ = {std::span<const std::byte>(copy_), {}};
}

OutPduPool::~OutPduPool() {
  assert(in_use_ == 0);
  while (free_ != nullptr) delete std::exchange(free_, free_->next_);
}

OutPdu& OutPduPool::get() {
  ++in_use_;
  if (free_ == nullptr) return *new OutPdu;
  OutPdu& slot = *std::exchange(free_, free_->next_);
  slot.next_ = nullptr;
  return slot;
}

void OutPduPool::put(OutPdu& slot) {
  assert(in_use_ > 0);
  --in_use_;
  slot.done = nullptr;
  slot.owner = nullptr;
  slot.invalidates.reset();
  slot.lead.reset();
  slot.protection.reset();
  slot.ahs_length_ = 0;
  slot.data_ = {};
  if (slot.copy_.capacity() != 0) slot.copy_ = {};  // rare, and may be large
  slot.next_ = std::exchange(free_, &slot);
}

}  // namespace lockstep::iscsi
