#include "engine/runtime/turn_hooks.hpp"

namespace lockstep::engine {

TurnHook::~TurnHook() { TurnHooks::remove(*this); }

TurnHooks::TurnHooks() { head_.prev_ = head_.next_ = &head_; }

TurnHooks::~TurnHooks() {
  while (!empty()) remove(*head_.next_);
}

void TurnHooks::add(TurnHook& hook) {
  if (hook.next_ != nullptr) return;
  hook.prev_ = head_.prev_;
  hook.next_ = &head_;
  head_.prev_->next_ = &hook;
  head_.prev_ = &hook;
}

void TurnHooks::remove(TurnHook& hook) {
  if (hook.next_ == nullptr) return;
  hook.prev_->next_ = hook.next_;
  hook.next_->prev_ = hook.prev_;
  hook.prev_ = hook.next_ = nullptr;
}

bool TurnHooks::run() {
  if (empty()) return false;
  for (int pass = 0; pass < kMaxPasses && !empty(); ++pass) {
    // The mark ends the pass: what is requested meanwhile stands behind it.
    Mark end_of_pass;
    add(end_of_pass);
    while (head_.next_ != &end_of_pass) {
      TurnHook& hook = *head_.next_;
      remove(hook);
      hook.end_of_turn();
    }
  }
  return true;
}

}  // namespace lockstep::engine
