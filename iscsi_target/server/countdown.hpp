#pragma once
// What several reactors do side by side, and its end.
#include <atomic>
#include <cstddef>
#include <utility>

#include "engine/base/result.hpp"

namespace lockstep::iscsi_target {

/// Calls back, on the thread that counts last, when everything is counted.
struct Countdown {
  explicit Countdown(std::size_t n, engine::Callback<> callback) : left(n), done(std::move(callback)) {}
  void one() {
    if (left.fetch_sub(1) == 1 && done) done();
  }
  std::atomic<std::size_t> left;
  engine::Callback<> done;
};

}  // namespace lockstep::iscsi_target
