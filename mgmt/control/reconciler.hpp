#pragma once
// The loop that makes lockstepd match the configuration: asks how it stands about once a second, and tells it again
// whenever what it carries out is not what is wanted, whatever the reason (a change, its restart, an earlier failure).
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "mgmt/control/data_plane.hpp"
#include "mgmt/control/event_log.hpp"
#include "mgmt/control/node_report.hpp"
#include "mgmt/control/turn_loop.hpp"

namespace lockstep::mgmt {

struct WantedState {
  std::int64_t revision = 0;
  std::string parameters;  ///< of node.apply
  bool may_wait = false;   ///< it may be of the past: a lockstepd that was told something already is not told it yet
  bool is_agreed = false;  ///< both nodes were seen to have this revision
};

class Reconciler {
 public:
  /// `wanted` gives nothing while the node is in no pair; it is called on the loop's thread.
  Reconciler(DataPlane& data_plane, EventLog& events, std::function<std::optional<WantedState>()> wanted,
             std::function<std::optional<engine::NodeSide>()> side);
  void start() { loop_.start(); }
  void stop() { loop_.stop(); }
  /// Something changed: take a turn now.
  void poke() { loop_.poke(); }
  [[nodiscard]] NodeReport report() const;
  /// lockstepd has later orders than this node's database, and is told nothing.
  [[nodiscard]] bool holds_back() const { return report().is_held_back(); }

  /// One turn; the loop's body, for tests.
  void turn();

 private:
  [[nodiscard]] bool is_of_the_past(const WantedState& wanted, const DataPlaneStatus& status) const;
  void hold_back(const WantedState& wanted, NodeReport& report);
  void apply(const WantedState& wanted, NodeReport& report);
  void tell_of_changes(const NodeReport& before, const NodeReport& now);

  DataPlane& data_plane_;
  EventLog& events_;
  std::function<std::optional<WantedState>()> wanted_;
  std::function<std::optional<engine::NodeSide>()> side_;

  // Of the loop's thread.
  std::string applied_parameters_;
  std::string applied_process_;
  std::string held_back_process_;  ///< had later orders than the configuration when it was first seen
  std::chrono::steady_clock::time_point retry_at_{};
  int failures_ = 0;
  bool seen_running_ = false;

  mutable std::mutex mutex_;  ///< guards report_
  NodeReport report_;
  TurnLoop loop_;
};

}  // namespace lockstep::mgmt
