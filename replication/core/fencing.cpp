#include "replication/core/fencing.hpp"

#include <algorithm>

#include "replication/core/marks.hpp"

namespace lockstep::replication {

using engine::TimePoint;

Fencing::Fencing(engine::Clock& clock, Fence& fence, engine::Duration patience)
    : clock_(clock), fence_(fence), patience_(patience) {}

Fencing::~Fencing() { stop(); }

bool Fencing::is_off(TimePoint asked_about) {
  const TimePoint since = std::max(asked_about, heard_at_);
  wanted_ = true;
  if (off_since_ && *off_since_ >= since) return true;
  if (!running_ && clock_.now() >= again_at_) begin(since);
  return false;
}

void Fencing::begin(TimePoint since) {
  mark<"fencing.begun">();
  running_ = true;
  ordered_ = clock_.now();
  reason_ = "The partner is being powered off by the fence command; this node goes on when that is confirmed.";
  watch();
  fence_.power_off(since, [this, run = ++run_](const FenceEnd& how) {
    if (run == run_) end(how);
  });
}

void Fencing::end(const FenceEnd& how) {
  running_ = false;
  clock_.cancel(timer_);
  if (how.problem.empty()) {
    mark<"fencing.succeeded">();
    off_since_ = how.began.value_or(ordered_);
    reason_.clear();
    return;
  }
  mark<"fencing.failed">();
  again_at_ = clock_.now() + kAgainAfter;
  reason_ = "The partner could not be powered off: " + how.problem +
            " It is tried again. Nobody goes on before it succeeds, the partner is back, or an operator forces this "
            "replica.";
}

void Fencing::stop() {
  ++run_;
  clock_.cancel(timer_);
  if (std::exchange(running_, false)) fence_.stop();
}

void Fencing::on_contact() {
  if (running_) mark<"fencing.partner_is_back">();
  stop();
  off_since_.reset();
  heard_at_ = clock_.now();
  again_at_ = {};
  reason_.clear();
}

/// Whoever asked may have found out since that its own store fails.
void Fencing::watch() {
  wanted_ = false;
  timer_ = clock_.call_after(patience_, [this] {
    if (wanted_) return watch();
    mark<"fencing.not_wanted_any_more">();
    stop();
    reason_.clear();
  });
}

}  // namespace lockstep::replication
