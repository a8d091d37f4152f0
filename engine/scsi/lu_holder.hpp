#pragma once
// The state of a logical unit that one disk keeps alone, in memory: what a disk needs to answer change_state and
// read_state and to check access. Orders nothing: when a step may be installed is the disk's business.
#include <memory>
#include <system_error>

#include "engine/disk.hpp"
#include "engine/scsi/lu_state.hpp"

namespace lockstep::scsi {

class LuStateHolder {
 public:
  [[nodiscard]] const LuState& state() const { return state_; }
  /// Whether the request's nexus may do it now; one branch while nothing is restricted.
  [[nodiscard]] std::error_code check(const engine::DiskRequest& request) const {
    if (!restricted_) [[likely]]
      return {};
    const engine::Errc verdict = state_.check(request.port, request.access);
    return verdict == engine::Errc::ok ? std::error_code{} : std::error_code(verdict);
  }
  /// Tells the listener of the state in force.
  void listen(std::shared_ptr<LuStateListener> listener);
  /// What a change_state would do. Error: its data is no request.
  [[nodiscard]] engine::Result<LuOutcome> step(const engine::DiskRequest& request) const;
  void install(LuOutcome outcome);
  /// Writes the answer of change_state, and of read_state; their result.
  static std::error_code answer(engine::DiskRequest& request, const LuAnswer& answer);
  std::error_code read(engine::DiskRequest& request) const;

 private:
  LuState state_;
  bool restricted_ = false;
  std::shared_ptr<LuStateListener> listener_;
};

}  // namespace lockstep::scsi
