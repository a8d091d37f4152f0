#pragma once
// The volume as initiators see it: requests are checked, cut into pieces and sent the way that the role asks for.
#include "replication/core/core_state.hpp"

namespace lockstep::replication {

class Front {
 public:
  /// A COMPARE AND WRITE is one message each way, so that it stays one operation: 512 KiB compared, 512 KiB written.
  static constexpr std::uint64_t kMaxCompareAndWrite = kMaxPiece / 2;

  explicit Front(Core& core) : core_(core) {}
  ~Front();

  void submit(engine::DiskRequest& request);
  void cancel(engine::DiskRequest& request);
  /// Starts `op` the way that the present role asks for, holds it, or refuses it.
  void route(Op& op);
  void start_here(Op& op);
  /// What was held goes its way; the gate is open.
  void release_held();
  /// Of `which`, what was held and never started ends with not_serving.
  void drop_held(const Selection& which);
  void hold(Op& op);
  [[nodiscard]] bool holds_something() const { return !held_.empty(); }
  /// The operation is over, whoever it came from. `op` is gone afterwards.
  void finish(Op& op, std::error_code status);
  /// The sessions were closed: what failed meanwhile ends, too.
  void answer_withheld();
  [[nodiscard]] bool idle() const { return parents_.in_use() == 0 && !withheld_; }
  std::uint64_t reads = 0, writes = 0;

 private:
  [[nodiscard]] bool says_the_size() const;
  [[nodiscard]] std::error_code check(const engine::DiskRequest& request) const;
  [[nodiscard]] bool is_too_old(const engine::DiskRequest& request, const Receipt& receipt) const;
  Op& piece(Parent& parent, std::uint64_t offset, std::uint64_t length);
  void give_back(Parent& parent);
  void conclude(engine::DiskRequest& request);
  [[nodiscard]] bool waits_for_this_node(const Op& op, std::error_code status) const;

  Core& core_;
  Pool<Parent> parents_;
  List<Op> held_;
  engine::DiskRequest* withheld_ = nullptr;  ///< failed while the sessions are about to be closed
};

}  // namespace lockstep::replication
