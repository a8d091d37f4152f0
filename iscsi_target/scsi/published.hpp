#pragma once
// A value that one thread replaces and others look at: each sees a whole one, and keeps it as long as it needs it. For
// what changes rarely and is read off the fast path. (libstdc++ 12's std::atomic<std::shared_ptr> lets a reader go with
// a relaxed store, so that its read races with the next write.)
#include <atomic>
#include <memory>
#include <utility>

namespace lockstep::iscsi_target {

/// Held for the copy of a pointer, or of a few KiB: whoever waits, waits for nanoseconds.
struct Turn {
  explicit Turn(std::atomic_flag& flag) : flag_(flag) {
    while (flag_.test_and_set(std::memory_order_acquire)) {
    }
  }
  ~Turn() { flag_.clear(std::memory_order_release); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  std::atomic_flag& flag_;
};

template <class T>
class Published {
 public:
  [[nodiscard]] std::shared_ptr<const T> load() const {
    const Turn turn(busy_);
    return value_;
  }
  void store(std::shared_ptr<const T> value) {
    const Turn turn(busy_);
    std::swap(value_, value);
  }

 private:
  mutable std::atomic_flag busy_;
  std::shared_ptr<const T> value_ = std::make_shared<const T>();
};

}  // namespace lockstep::iscsi_target
