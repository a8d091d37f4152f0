#pragma once
// The logical unit's state that operations meet on this node: whether they may pass, under which version they were
// checked, and how many of those are not over.
//
// Guarantees: an operation is counted from enter() to left(), whichever way it takes. Callers: the parts that
// operations go through; LuStateKeeper alone installs a state, opens and closes.
#include <functional>

#include "engine/scsi/lu_state.hpp"
#include "replication/core/op.hpp"

namespace lockstep::replication {

class LuStateInForce {
 public:
  explicit LuStateInForce(scsi::LuState state) { install(std::move(state)); }

  bool open = false;              ///< operations may pass
  std::function<void()> drained;  ///< while it is closed: no operation that was checked before is under way any more

  [[nodiscard]] const scsi::LuState& state() const { return state_; }
  [[nodiscard]] std::uint64_t version() const { return state_.version; }
  /// Operations that passed and are not over.
  [[nodiscard]] std::size_t passed() const { return passed_; }
  void install(scsi::LuState state) {
    state_ = std::move(state);
    restricted_ = state_.restricted();
  }
  /// The state allows operations or refuses them; else it allows all of them.
  [[nodiscard]] bool restricted() const { return restricted_; }
  /// `op` goes on under this state.
  void enter(Op& op) {
    op.state_version = state_.version;
    op.passed = true;
    ++passed_;
  }
  /// `op` goes on elsewhere, or is over: the state it was checked under does not matter here any more.
  void left(Op& op) {
    if (!op.passed) return;
    op.passed = false;
    if (--passed_ == 0 && !open) drained();
  }
  /// Looks at an unsent forward again; false: the state in force is not known, it stays.
  [[nodiscard]] bool recheck(Op& op) const {
    if (op.opcode == engine::DiskOpcode::change_state) return true;
    if (!open) return false;
    op.refusal = restricted_ ? state_.check(op.port, op.access) : engine::Errc::ok;
    op.state_version = state_.version;
    return true;
  }

 private:
  scsi::LuState state_;
  bool restricted_ = false;
  std::size_t passed_ = 0;
};

}  // namespace lockstep::replication
