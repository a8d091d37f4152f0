#include "replication/core/link_budget.hpp"

#include "replication/core/marks.hpp"

namespace lockstep::replication {

namespace {
constexpr std::uint64_t kTimesTheRest = 3;  ///< a share may be this many times what is left
}

LinkShare::~LinkShare() {
  if (hook.linked) budget_.waiting_.remove(*this);
  budget_.taken_.bytes -= taken_.bytes;
  budget_.taken_.requests -= taken_.requests;
  if (!budget_.waiting_.empty()) budget_.wake_later();
}

bool LinkShare::ready() {
  if (budget_.has_room_for(taken_)) return true;
  if (!hook.linked) {
    mark<"link.operation_waits_for_its_turn">();
    budget_.waiting_.push_back(*this);
  }
  return false;
}

void LinkShare::take(std::uint64_t bytes) {
  for (LinkLimits* taken : {&taken_, &budget_.taken_}) {
    taken->bytes += bytes;
    ++taken->requests;
  }
}

void LinkShare::give_back(std::uint64_t bytes) {
  for (LinkLimits* taken : {&taken_, &budget_.taken_}) {
    taken->bytes -= bytes;
    --taken->requests;
  }
  if (!budget_.waiting_.empty()) budget_.wake_later();
}

bool LinkBudget::has_room_for(const LinkLimits& share) const {
  if (is_spent()) return false;
  return share.bytes < kTimesTheRest * (limits_.bytes - taken_.bytes) &&
         share.requests < kTimesTheRest * (limits_.requests - taken_.requests);
}

/// Answers come in the midst of what one volume does; another one begins after it.
void LinkBudget::wake_later() {
  if (wake_timer_ != engine::TimerId::none) return;
  wake_timer_ = clock_.call_after(engine::Duration{0}, [this] {
    wake_timer_ = engine::TimerId::none;
    wake();
  });
}

/// Each that waits has one turn, in the order in which they began to wait.
void LinkBudget::wake() {
  for (std::size_t turns = waiting_.size(); turns > 0 && !waiting_.empty() && !is_spent(); --turns) {
    waiting_.pop_front()->wake_();
  }
}

}  // namespace lockstep::replication
