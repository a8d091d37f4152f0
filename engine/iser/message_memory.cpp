#include "engine/iser/message_memory.hpp"

#include <cassert>

namespace lockstep::iser {

const MessageMemory::Host* MessageMemory::host_of(const std::string& address) const {
  const auto at = hosts_.find(address);
  return at == hosts_.end() ? nullptr : &at->second;
}

MessageMemory::Room MessageMemory::room_for_stranger(const Host* host, std::size_t bytes) const {
  const std::size_t part = limit_ / 4;
  if (strangers_ + bytes > part || !has(bytes)) return Room::taken;
  if (host == nullptr || host->strangers == 0) return Room::there;
  return host->strangers + bytes <= 2 * (part - strangers_ - bytes) ? Room::there : Room::over_share;
}

MessageMemory::Room MessageMemory::room_for_session(const std::string& address, std::size_t slots,
                                                    std::uint32_t messages) const {
  if (!has((messages - kStrangersFloor) * kData)) return Room::taken;
  const Host* const host = host_of(address);
  if (host == nullptr || host->sessions == 0) return Room::there;
  const std::size_t whole = engine::BufferPool::block_size(slots) + messages * kData;
  return is_within_share(*host, whole) ? Room::there : Room::over_share;
}

bool MessageMemory::is_within_share(const Host& host, std::size_t bytes) const {
  const std::size_t part = limit_ / 4 * 3, used = committed_ - strangers_ + bytes;
  return used <= part && host.sessions + bytes <= 2 * (part - used);
}

// ---- One connection's ----

void MessageMemory::Account::add(std::size_t bytes) {
  memory_.committed_ += bytes;
  if (stranger_) memory_.strangers_ += bytes;
  if (host_ != nullptr) (stranger_ ? host_->strangers : host_->sessions) += bytes;
}

void MessageMemory::Account::subtract(std::size_t bytes) {
  memory_.committed_ -= bytes;
  if (stranger_) memory_.strangers_ -= bytes;
  if (host_ != nullptr) (stranger_ ? host_->strangers : host_->sessions) -= bytes;
}

MessageMemory::Room MessageMemory::Account::open() {
  const Room room = memory_.room_for_stranger(memory_.host_of(address_), as_stranger());
  if (room != Room::there) return room;
  if (!address_.empty()) host_ = &memory_.hosts_[address_], ++host_->connections;
  add(as_stranger());
  floor_ = kStrangersFloor;
  open_ = true;
  return room;
}

MessageMemory::Room MessageMemory::Account::raise_floor(std::uint32_t messages) {
  assert(open_ && stranger_ && messages > floor_ && used_ <= floor_);
  const Room room = memory_.room_for_session(address_, slots_, messages);
  if (room != Room::there) return room;
  subtract(as_stranger());
  stranger_ = false;
  floor_ = messages;
  add(slots_ + floor_ * kData);
  return room;
}

engine::Buffer MessageMemory::Account::take() {
  const bool is_beyond = used_ >= floor_;
  if (is_beyond && !memory_.has(kData)) return {};
  engine::Buffer buffer = memory_.pool_.allocate(kData);
  if (!buffer) return buffer;  // never while all that is taken is in this account
  if (is_beyond) add(kData);
  ++used_;
  return buffer;
}

void MessageMemory::Account::give_back() {
  assert(used_ != 0);
  if (used_-- > floor_) subtract(kData);
}

bool MessageMemory::Account::may_grow() const {
  return !memory_.is_short() && (host_ == nullptr || memory_.is_within_share(*host_, kData));
}

bool MessageMemory::Account::is_to_shrink() const {
  if (used_ <= floor_) return false;
  return memory_.is_short() || (host_ != nullptr && !memory_.is_within_share(*host_, 0));
}

void MessageMemory::Account::close() {
  if (!std::exchange(open_, false)) return;
  assert(used_ == 0);
  subtract(slots_ + floor_ * kData);
  if (host_ != nullptr && --std::exchange(host_, nullptr)->connections == 0) memory_.hosts_.erase(address_);
}

}  // namespace lockstep::iser
