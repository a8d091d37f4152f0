#pragma once
// A broken promise, as a sentence. The first one ends the run.
#include <string>

namespace lockstep::simulation {

class Verdict {
 public:
  [[nodiscard]] bool failed() const { return !reason_.empty(); }
  [[nodiscard]] const std::string& reason() const { return reason_; }
  void fail(std::string reason) {
    if (reason_.empty()) reason_ = std::move(reason);
  }

 private:
  std::string reason_;
};

}  // namespace lockstep::simulation
