#pragma once
// What rings see of what the kernel has completed, in this test program: kept back, reordered, with other results.
#include <functional>
#include <span>

#include <liburing.h>

#include "engine/stores/io_uring.hpp"

namespace lockstep::engine {

class RingLook {
 public:
  /// Given the completions that are there, on the reactor's thread; says how many of them, from the first on, the ring
  /// sees now. One at a time.
  using Seen = std::function<unsigned(std::span<io_uring_cqe*>)>;
  explicit RingLook(Seen seen);
  ~RingLook();
  RingLook(const RingLook&) = delete;
  RingLook& operator=(const RingLook&) = delete;
};

[[nodiscard]] inline IoUring::Request::Kind kind_of(const io_uring_cqe* entry) {
  return static_cast<const IoUring::Request*>(io_uring_cqe_get_data(entry))->kind;
}

}  // namespace lockstep::engine
