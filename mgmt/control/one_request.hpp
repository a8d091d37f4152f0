#pragma once
// Before a job begins both nodes are asked, which takes seconds. Of two requests that ask at the same time one is
// refused: each would find that no job is under way.
#include <mutex>

#include "mgmt/control/refusal.hpp"

namespace lockstep::mgmt {

class OneRequest {
 public:
  /// To be held from before the look at the jobs until after the submit.
  [[nodiscard]] Outcome<std::unique_lock<std::mutex>> begin() {
    std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock)
      return refuse(RefusalKind::conflict, "Another request of this kind is being looked at. Try again in a moment.");
    return lock;
  }

 private:
  std::mutex mutex_;
};

}  // namespace lockstep::mgmt
