#pragma once
// Counts a provider's memory regions: written by the thread that registers, read by any.
#include <atomic>
#include <cstdint>

#include "engine/rdma/verbs.hpp"

namespace lockstep::rdma {

class RegistrationCount {
 public:
  void made(std::uint64_t bytes) {
    add(made_, 1);
    add(regions_, 1);
    add(bytes_, bytes);
  }
  void gone(std::uint64_t bytes) {
    regions_.fetch_sub(1, std::memory_order_relaxed);
    bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  }
  void refused() { add(refused_, 1); }
  [[nodiscard]] Registrations now() const {
    const auto value = [](const Count& count) { return count.load(std::memory_order_relaxed); };
    return {.regions = value(regions_), .bytes = value(bytes_), .made = value(made_), .refused = value(refused_)};
  }

 private:
  using Count = std::atomic<std::uint64_t>;
  static void add(Count& count, std::uint64_t value) { count.fetch_add(value, std::memory_order_relaxed); }

  Count regions_{0}, bytes_{0}, made_{0}, refused_{0};
};

}  // namespace lockstep::rdma
