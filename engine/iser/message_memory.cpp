#include "engine/iser/message_memory.hpp"

#include <cassert>
#include <utility>

namespace lockstep::iser {
namespace {

constexpr std::size_t kStranger = MessageMemory::kSlots + MessageMemory::kStrangersFloor * MessageMemory::kData;

}  // namespace

bool MessageMemory::commit(std::size_t bytes) {
  if (committed_ + bytes > limit_) return false;
  committed_ += bytes;
  return true;
}

bool MessageMemory::Account::open() {
  if (memory_.strangers_ + kStranger > memory_.limit_ / 4 || !memory_.commit(kStranger)) return false;
  memory_.strangers_ += kStranger;
  floor_ = kStrangersFloor;
  return open_ = true;
}

bool MessageMemory::Account::raise_floor(std::uint32_t messages) {
  assert(open_ && stranger_ && messages > floor_ && used_ <= floor_);
  if (!memory_.commit((messages - floor_) * kData)) return false;
  memory_.strangers_ -= kStranger;
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
  memory_.committed_ -= kSlots + floor_ * kData;
  if (stranger_) memory_.strangers_ -= kStranger;
}

}  // namespace lockstep::iser
