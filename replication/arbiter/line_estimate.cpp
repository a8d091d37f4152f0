#include "replication/arbiter/line_estimate.hpp"

#include <algorithm>
#include <utility>

namespace lockstep::replication {
namespace {
using engine::Duration;
using namespace std::chrono_literals;

constexpr Duration kLeastLimit = 2s, kMostLimit = 45s;
constexpr int kTriesOnAFastLine = 3, kTriesOnASlowLine = 8;  // a fifth of all packets may be lost on a slow one
// Of a line that is not known, or known to be fast: it may have become slow, or the witness may be away.
constexpr Duration kMostUnknown = 4s, kMostFast = 2s;
}  // namespace

void LineEstimate::on_answer(Duration took, engine::TimePoint now) {
  if (answers_ == 0 || now - window_ >= kWindow) {
    least_before_ = std::exchange(least_, kNever);
    window_ = now;
  }
  least_ = std::min(least_, took);
  took_[answers_++ % kKept] = took;
  silences_ = 0;
  const Duration usual = round_trip();
  slow_ = usual >= (slow_ ? kFastBelow : kSlowFrom);
}

void LineEstimate::on_silence() { ++silences_; }

Duration LineEstimate::round_trip() const {
  const std::size_t count = std::min(answers_, kKept);
  if (count == 0) return Duration{0};
  auto sorted = took_;
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>((count - 1) / 2);
  std::nth_element(sorted.begin(), middle, sorted.begin() + static_cast<std::ptrdiff_t>(count));
  return *middle;
}

Duration LineEstimate::fastest() const { return answers_ == 0 ? Duration{0} : std::min(least_, least_before_); }

bool LineEstimate::is_far() const {
  const Duration least = fastest();
  return least >= kSlowFrom && least <= kLongestLine && round_trip() <= least * 2;
}

Duration LineEstimate::most() const {
  if (answers_ == 0) return kMostUnknown;
  return slow_ ? kMostPatience : kMostFast;
}

/// A single silence may be a lost packet; from the second one on each doubles it.
Duration LineEstimate::patience() const {
  Duration wait = std::max(kLeastPatience, round_trip() * 5 / 4);
  for (unsigned i = 1; i < silences_ && wait < most(); ++i) wait *= 2;
  return std::min(wait, most());
}

Duration LineEstimate::limit() const {
  return std::clamp<Duration>(patience() * (slow_ ? kTriesOnASlowLine : kTriesOnAFastLine), kLeastLimit, kMostLimit);
}

}  // namespace lockstep::replication
