#pragma once
// The hooks that wait for the end of a turn: an intrusive list, run in the order of their requests.
#include "engine/runtime/reactor.hpp"

namespace lockstep::engine {

class TurnHooks {
 public:
  /// Passes over hooks that request one another within one turn; what is left then runs in the next.
  static constexpr int kMaxPasses = 8;

  TurnHooks();
  ~TurnHooks();  ///< lets go of every hook
  TurnHooks(const TurnHooks&) = delete;
  TurnHooks& operator=(const TurnHooks&) = delete;

  void add(TurnHook& hook);
  static void remove(TurnHook& hook);
  [[nodiscard]] bool empty() const { return head_.next_ == &head_; }
  /// True when any ran.
  bool run();

 private:
  struct Mark final : TurnHook {
    void end_of_turn() override {}
  };
  Mark head_;
};

}  // namespace lockstep::engine
