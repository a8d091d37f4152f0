#include "engine/iser/receives.hpp"

#include <cassert>

namespace lockstep::iser {

Receives::~Receives() {
  for (const engine::Buffer& buffer : data_) {
    if (buffer) give_back();
  }
}

engine::Buffer Receives::allocate() {
  if (budget_.used + kData > budget_.limit) return {};
  engine::Buffer buffer = pool_.allocate(kData);
  if (buffer) budget_.used += kData;
  return buffer;
}

bool Receives::start(std::span<std::byte> memory) {
  assert(memory.size() == kMemory);
  memory_ = memory;
  data_.reserve(kMost);
  starved_.reserve(kMost);
  for (std::uint32_t slot = 0; slot < kFirst; ++slot) {
    engine::Buffer buffer = allocate();
    if (!buffer) return false;
    data_.push_back(std::move(buffer));
  }
  return true;
}

void Receives::post_all(rdma::QueuePair& pair) {
  pair_ = &pair;
  for (std::uint32_t slot = 0; slot < data_.size(); ++slot) post(slot);
}

std::span<std::byte> Receives::headers(std::uint32_t slot) const { return memory_.subspan(slot * kSlot, kHeadersSize); }

void Receives::came(std::uint32_t slot) {
  assert(slot < data_.size() && posted_ != 0);
  --posted_;
}

bool Receives::try_post(std::uint32_t slot) {
  if (!data_[slot]) data_[slot] = allocate();
  if (!data_[slot]) return false;
  pair_->receive(headers(slot), data_[slot].span(), slot);
  ++posted_;
  return true;
}

void Receives::post(std::uint32_t slot) {
  if (!try_post(slot)) starved_.push_back(slot);
}

void Receives::post_starved() {
  while (!starved_.empty() && try_post(starved_.back())) starved_.pop_back();
}

void Receives::grow() {
  if (data_.size() == kMost || starved()) return;
  data_.emplace_back();
  post(static_cast<std::uint32_t>(data_.size() - 1));
}

}  // namespace lockstep::iser
