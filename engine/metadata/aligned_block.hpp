#pragma once
// Memory for metadata blocks, aligned as every store likes it.
#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <span>

#include "engine/metadata/layout.hpp"

namespace lockstep::engine::layout {

/// Whole blocks, zeros at first.
class Blocks {
 public:
  explicit Blocks(std::size_t count)
      : bytes_(static_cast<std::byte*>(::operator new (count* kBlock, std::align_val_t{kBlock}))), count_(count) {
    clear();
  }
  [[nodiscard]] std::size_t count() const { return count_; }
  [[nodiscard]] std::span<std::byte> all() const { return {bytes_.get(), count_ * kBlock}; }
  [[nodiscard]] std::span<std::byte> first(std::size_t count) const { return all().first(count * kBlock); }
  [[nodiscard]] Block operator[](std::size_t i) const { return Block(bytes_.get() + i * kBlock, kBlock); }
  void clear() { std::memset(bytes_.get(), 0, count_ * kBlock); }

 private:
  struct Free {
    void operator()(std::byte* p) const { ::operator delete (p, std::align_val_t{kBlock}); }
  };
  std::unique_ptr<std::byte, Free> bytes_;
  std::size_t count_;
};

}  // namespace lockstep::engine::layout
