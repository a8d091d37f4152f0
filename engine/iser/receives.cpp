#include "engine/iser/receives.hpp"

#include <cassert>

namespace lockstep::iser {

Receives::~Receives() {
  for (const engine::Buffer& buffer : data_) {
    if (buffer) account_.give_back();
  }
}

engine::Buffer Receives::reserve() {
  return account_.open() == MessageMemory::Room::there ? account_.take_slots() : engine::Buffer{};
}

void Receives::start(rdma::QueuePair& pair, std::span<std::byte> memory) {
  assert(memory.size() == shape_.receive_memory());
  pair_ = &pair;
  memory_ = memory;
  data_.reserve(shape_.most);
  starved_.reserve(shape_.most);
  unused_.reserve(shape_.most);
  have(MessageMemory::kStrangersFloor);
}

MessageMemory::Room Receives::open_session(std::uint32_t at_once) {
  const auto room = account_.raise_floor(shape_.first);
  if (room != MessageMemory::Room::there) return room;
  in_session_ = true;
  have(shape_.first);
  for (std::uint32_t have = shape_.first; have < at_once && account_.may_grow() && !starved(); ++have) grow();
  return room;
}

void Receives::have(std::uint32_t messages) {
  while (data_.size() < messages) {
    data_.emplace_back();
    post(static_cast<std::uint32_t>(data_.size() - 1));
  }
}

std::span<std::byte> Receives::headers(std::uint32_t slot) const {
  return memory_.subspan(slot * shape_.receive_slot(), shape_.headers);
}

void Receives::came(std::uint32_t slot) {
  assert(slot < data_.size() && posted_ != 0);
  --posted_;
}

void Receives::give_back() {
  account_.give_back();
  post_starved();
}

bool Receives::try_post(std::uint32_t slot) {
  if (!data_[slot]) data_[slot] = account_.take();
  if (!data_[slot]) return false;
  pair_->receive(headers(slot), data_[slot].span(), slot);
  ++posted_;
  return true;
}

void Receives::post(std::uint32_t slot) {
  if (!try_post(slot)) starved_.push_back(slot);
}

void Receives::put_away(std::uint32_t slot) {
  if (data_[slot]) {
    data_[slot].reset();
    account_.give_back();
  }
  unused_.push_back(slot);
}

void Receives::post_after_command(std::uint32_t slot) {
  if (account_.is_to_shrink()) return put_away(slot);
  post(slot);
  if (in_session_ && account_.may_grow() && !starved()) grow();
}

void Receives::post_starved() {
  while (!starved_.empty() && try_post(starved_.back())) starved_.pop_back();
  // What was put away while others were short: the floor is its own.
  while (account_.is_below_floor() && !unused_.empty() && !starved()) {
    const std::uint32_t slot = unused_.back();
    unused_.pop_back();
    post(slot);
  }
}

void Receives::grow() {
  if (unused_.empty()) {
    if (data_.size() == shape_.most) return;
    data_.emplace_back();
    unused_.push_back(static_cast<std::uint32_t>(data_.size() - 1));
  }
  if (try_post(unused_.back())) unused_.pop_back();
}

}  // namespace lockstep::iser
