#pragma once
// Erases what is accepted no more: credentials of before, once their time is over, from the configuration by the node
// that orders changes, and from this node's files. Has the page's self-made certificate made anew near its end.
#include <cstdint>
#include <functional>
#include <optional>

#include "mgmt/control/node_core.hpp"
#include "mgmt/control/turn_loop.hpp"

namespace lockstep::mgmt {

class LapseWatch {
 public:
  /// `each_turn`: what else is to be looked at about once a second.
  explicit LapseWatch(NodeCore& core, std::function<void()> each_turn = {});
  void start() { loop_.start(); }
  void stop() { loop_.stop(); }

  void turn(std::int64_t now_ms);  ///< the loop's body; wall clock

 private:
  void forget(std::int64_t now_ms);
  void erase_traces(std::int64_t now_ms);

  NodeCore& core_;
  std::function<void()> each_turn_;
  std::optional<std::int64_t> failed_ms_;  ///< when something could not be done, which is tried again later
  bool traces_ = true;                     ///< secrets that are gone may still be in the database's log
  std::size_t kept_ = 0;                   ///< old credentials in the configuration, at the turn before
  TurnLoop loop_;
};

}  // namespace lockstep::mgmt
