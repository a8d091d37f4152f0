#pragma once
// A plain store in memory, whose callbacks run when it is drained: for looking into an image beside the world's time.
#include <cstring>
#include <deque>
#include <span>
#include <vector>

#include "engine/seams/store.hpp"

namespace lockstep::simulation {

class ScratchStore final : public engine::Store {
 public:
  explicit ScratchStore(std::span<const std::byte> image) : bytes_(image.begin(), image.end()) {
    info_.size = bytes_.size();
    info_.name = "scratch";
  }
  [[nodiscard]] const engine::StoreInfo& info() const override { return info_; }
  [[nodiscard]] std::span<std::byte> bytes() { return bytes_; }

  void read(std::uint64_t offset, std::span<std::byte> into, engine::IoCallback done) override {
    std::memcpy(into.data(), bytes_.data() + offset, into.size());
    waiting_.push_back(std::move(done));
  }
  void write(std::uint64_t offset, std::span<const std::byte> from, engine::Durability,
             engine::IoCallback done) override {
    std::memcpy(bytes_.data() + offset, from.data(), from.size());
    waiting_.push_back(std::move(done));
  }
  void write_zeroes(engine::Extent extent, engine::Durability, engine::IoCallback done) override {
    std::memset(bytes_.data() + extent.offset, 0, extent.length);
    waiting_.push_back(std::move(done));
  }
  void discard(engine::Extent extent, engine::Durability durability, engine::IoCallback done) override {
    write_zeroes(extent, durability, std::move(done));
  }
  void flush(engine::IoCallback done) override { waiting_.push_back(std::move(done)); }
  void drain() {
    while (!waiting_.empty()) {
      auto done = std::move(waiting_.front());
      waiting_.pop_front();
      done({});
    }
  }

 private:
  engine::StoreInfo info_;
  std::vector<std::byte> bytes_;
  std::deque<engine::IoCallback> waiting_;
};

}  // namespace lockstep::simulation
