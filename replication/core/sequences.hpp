#pragma once
// The sequence numbers of a volume's writes at the sequencer, and the watermark: every number up to it is finished on
// both members. Numbers finish in any order; the watermark waits for the slowest.
#include <cassert>
#include <cstdint>
#include <vector>

#include "engine/seams/clock.hpp"

namespace lockstep::replication {

/// What a volume's numbers begin above. The partner knows those of a process for as long as it lives: when a volume is
/// attached again, none of them may come twice. There is no process that numbers an operation each nanosecond.
[[nodiscard]] inline std::uint64_t numbers_begin_at(engine::TimePoint attached) {
  return static_cast<std::uint64_t>(attached.since_origin.count());
}

class Sequences {
 public:
  explicit Sequences(std::uint64_t begin = 0) : watermark_(begin), last_(begin) {}
  [[nodiscard]] std::uint64_t next() {
    if (last_ - watermark_ == finished_.size()) widen();
    return ++last_;
  }
  void finish(std::uint64_t sequence) {
    assert(sequence > watermark_ && sequence <= last_ && !at(sequence));
    at(sequence) = true;
    while (watermark_ < last_ && at(watermark_ + 1)) at(++watermark_) = false;
  }
  [[nodiscard]] std::uint64_t watermark() const { return watermark_; }
  [[nodiscard]] std::uint64_t last() const { return last_; }
  [[nodiscard]] bool all_finished() const { return watermark_ == last_; }

 private:
  // One flag for each number above the watermark, in a ring that grows to the most ever open at once.
  char& at(std::uint64_t sequence) { return finished_[sequence % finished_.size()]; }
  void widen() {
    std::vector<char> wider(finished_.size() * 2, 0);
    for (std::uint64_t s = watermark_ + 1; s <= last_; ++s) wider[s % wider.size()] = at(s);
    finished_.swap(wider);
  }
  std::uint64_t watermark_;
  std::uint64_t last_;
  std::vector<char> finished_ = std::vector<char>(64, 0);
};

}  // namespace lockstep::replication
