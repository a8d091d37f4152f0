#include "engine/iser/message_memory.hpp"

#include <cassert>
#include <utility>

namespace lockstep::iser {

bool MessageMemory::commit(std::size_t bytes) {
  if (committed_ + bytes > limit_) return false;
  committed_ += bytes;
  return true;
}

bool MessageMemory::Account::open() {
  if (memory_.strangers_ + as_stranger() > memory_.limit_ / 4 || !memory_.commit(as_stranger())) return false;
  memory_.strangers_ += as_stranger();
  floor_ = kStrangersFloor;
  return open_ = true;
}

bool MessageMemory::Account::raise_floor(std::uint32_t messages) {
  assert(open_ && stranger_ && messages > floor_ && used_ <= floor_);
  if (!memory_.commit((messages - floor_) * kData)) return false;
  memory_.strangers_ -= as_stranger();
  stranger_ = false;
  floor_ = messages;
  return true;
}

engine::Buffer MessageMemory::Account::take() {
  if (used_ >= floor_ && !memory_.commit(kData)) return {};
  engine::Buffer buffer = memory_.pool_.allocate(kData);
  if (!buffer) {  // never while all that is taken is in this account
    if (used_ >= floor_) memory_.committed_ -= kData;
    return buffer;
  }
  ++used_;
  return buffer;
}

void MessageMemory::Account::give_back() {
  assert(used_ != 0);
  if (used_-- > floor_) memory_.committed_ -= kData;
}

void MessageMemory::Account::close() {
  if (!std::exchange(open_, false)) return;
  assert(used_ == 0);
  memory_.committed_ -= slots_ + floor_ * kData;
  if (stranger_) memory_.strangers_ -= as_stranger();
}

}  // namespace lockstep::iser
