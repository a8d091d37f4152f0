#pragma once
// What overwrites or erases a whole unit while its state says that it is being sanitized: on the node of the port that
// the state names, on one reactor, piece by piece. It goes on whatever becomes of the command that asked for it, and
// ends early where the unit is taken off this reactor. After a restart or a failover the first command that comes to
// the unit takes it up again, from the start; what finds no room for a piece waits for a moment. A cryptographic erase
// gives every copy another key, which ends what was there; then it erases, so that zeros are left and no noise.
#include <cstdint>
#include <vector>

#include "engine/disk.hpp"
#include "iscsi_target/scsi/target_device.hpp"

namespace lockstep::iscsi_target {

struct Task;

class Sanitizer {
 public:
  /// Nothing happens when the unit's state does not ask this node for it. `waiter`, if any, is finished when it is
  /// over.
  static void start(TargetDevice& device, UnitUse& use, SanitizeClaim claim, Task* waiter = nullptr);
  /// Starts what the state asks for and nobody does.
  static void resume(TargetDevice& device, UnitUse& use);

  /// A command was given up: it ends now if it is the one that waits. A node that is cut off may keep the piece under
  /// way for as long as the partner and the witness are away; no session must wait for that.
  void give_up(Task& task);
  /// The unit is taken away: what of the piece under way was not started is not started any more.
  void stop();
  [[nodiscard]] bool is_stopping() const { return is_stopping_; }

 private:
  static constexpr std::uint64_t kOverwritePiece = std::uint64_t{16} << 20;  ///< bytes in one request
  static constexpr std::uint64_t kErasePiece = LogicalUnit::kRangePiece;
  static constexpr engine::Duration kRest = std::chrono::milliseconds(100);
  Sanitizer(TargetDevice& device, UnitUse& use, SanitizeClaim claim, Task* waiter);
  void run();
  [[nodiscard]] bool prepare();
  [[nodiscard]] bool take_result();
  [[nodiscard]] bool is_interrupted() const;
  void pause();
  void rest();
  void fill_pattern(std::uint8_t pass);
  void end(bool failed);
  void tell_end(bool failed);
  void leave_unit();

  TargetDevice& device_;
  UnitUse& use_;
  SanitizeClaim claim_;
  Task* waiter_;
  scsi::SanitizeState what_;
  engine::Buffer block_;  ///< of an overwrite
  engine::DiskRequest request_{};
  std::uint8_t pass_ = 0;
  std::uint64_t at_ = 0;
  /// The disk has said that the unit's state is the one in force: that of a node which was away may still ask for what
  /// the other one has finished, and hosts have written since.
  bool has_looked_ = false;
  bool has_new_key_ = false;
  engine::TimerId rest_ = engine::TimerId::none;
  bool is_stopping_ = false;   ///< until the unit is wanted again, and another piece begins
  bool is_with_disk_ = false;  ///< request_
  bool inside_ = false;        ///< submit() has not returned
  bool is_done_ = false;       ///< … and the request is finished already
};

}  // namespace lockstep::iscsi_target
