#pragma once
// The linearizability of one block's history; history.hpp tells how.
#include <optional>
#include <string>
#include <vector>

#include "tests/simulation/history.hpp"

namespace lockstep::simulation {

class BlockJudge {
 public:
  BlockJudge(const History& history, unsigned volume, std::uint64_t block)
      : history_(history), volume_(volume), block_(block) {}

  void add_write(Value value) { writes_.push_back(value); }
  void add_observation(Value value, bool other, Moment start, Moment finish, Nanos time) {
    seen_.push_back({value, other, start, finish, time});
  }
  [[nodiscard]] std::optional<std::string> judge();

 private:
  struct Seen {
    Value value;
    bool other;
    Moment start;
    Moment finish;
    Nanos time;
  };
  struct Cluster {  // all that is known of one value
    Value value = 0;
    Moment first_finish = kNever;
    Moment last_start = 0;
    bool real = false;         ///< acknowledged or seen
    std::size_t next = kNone;  ///< the cluster that a COMPARE AND WRITE made of it
    bool made_by_swap = false;
  };
  struct Span {  // clusters tied together
    Moment first_finish = kNever;
    Moment last_start = 0;
    Value value = 0;
  };
  static constexpr std::size_t kNone = ~std::size_t{0};

  /// One of the parts that cuts of the power, and times that are left out, make of its history.
  struct Part {
    Moment from = 0, to = kNever;
    bool left_out = false;
    Moment anew = 0;  ///< the end of the last time before it that was left out
    /// Neither cut came between.
    [[nodiscard]] bool has(Moment start, Moment finish) const { return from <= start && finish < to; }
  };
  [[nodiscard]] std::vector<Part> parts() const;
  [[nodiscard]] std::optional<std::string> judge_part();
  [[nodiscard]] bool is_lost(const WriteRecord& write) const {
    return write.lost <= part_.from || write.start < part_.anew;
  }
  [[nodiscard]] bool counts(const Seen& seen) const;
  [[nodiscard]] std::optional<std::string> gather();
  [[nodiscard]] std::optional<std::string> tie();
  [[nodiscard]] std::optional<std::string> order() const;
  [[nodiscard]] std::optional<std::string> judge_zeroes() const;
  [[nodiscard]] std::optional<std::string> judge_others() const;
  [[nodiscard]] bool explained(const Seen& zero_read) const;
  [[nodiscard]] std::size_t find(Value value) const;
  [[nodiscard]] std::string report(const std::string& what) const;
  [[nodiscard]] Value expected_by(Value swap) const;

  const History& history_;
  unsigned volume_;
  std::uint64_t block_;
  std::vector<Value> writes_;
  std::vector<Seen> seen_;
  Part part_;                      ///< that is judged
  std::vector<Cluster> clusters_;  ///< of values other than zero, sorted by value
  std::vector<Span> spans_;
  std::vector<Seen> zero_reads_;
};

}  // namespace lockstep::simulation
