#pragma once
// Every operation that initiators saw, and the judgement over them: is each block a linearizable register?
//
// Written values are unique (see stamp.hpp), so that the judgement needs no search. All operations on one value of a
// block form a cluster; its write comes first, then its reads. Cluster X must come before cluster Y when some operation
// of X finished before one of Y started. The history is linearizable if and only if no two clusters must both come
// before the other (Gibbons and Korach, Testing Shared Memories, 1997). A COMPARE AND WRITE that succeeded ties the
// cluster it found and the cluster it made together. Zeroes are not unique: a zero read needs some zeroing that it may
// have seen, and may not stand between two operations of one cluster.
//
// A write whose outcome is unknown may take effect at any time after its start, or never; but not after a later try of
// the same write was acknowledged.
//
// Where a power cut may take what was in a write cache, the history of a block falls into parts. In those behind the
// moment the writes that may be lost count as such whose outcome is unknown: what was seen of them before says nothing,
// and one that is seen afterwards is there to stay. So do writes before the end of a time that is left out.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tests/simulation/stamp.hpp"
#include "tests/simulation/trace.hpp"

namespace lockstep::simulation {

using Moment = std::uint64_t;  ///< counts the beginnings and ends of operations: a total order
constexpr Moment kNever = std::numeric_limits<Moment>::max();

enum class WriteKind : std::uint8_t { write, write_same, zero, compare_and_write };

struct WriteRecord {
  unsigned volume = 0;
  std::uint64_t first = 0;  ///< block
  std::uint32_t count = 0;  ///< blocks
  WriteKind kind{};
  bool had_no_effect = false;  ///< said so by the disk
  bool maybe_missed = false;   ///< a COMPARE AND WRITE that did not end well
  Moment start = 0;
  Moment finish = kNever;
  Moment deadline = kNever;  ///< without an acknowledgement: took effect by then, or never will
  bool fua = false;          ///< no cache may hold it
  bool flushed = false;      ///< a flush that began after it was acknowledged was, too
  Moment lost = kNever;      ///< when a power cut may have taken it from a cache
  Nanos start_time = 0;
  Nanos finish_time = 0;
  std::vector<Value> expected;  ///< COMPARE AND WRITE: one for each block
  /// It did not take effect later than this, if at all.
  [[nodiscard]] Moment latest() const { return finish < deadline ? finish : deadline; }
  [[nodiscard]] bool zero() const { return kind == WriteKind::zero; }
  [[nodiscard]] bool covers(unsigned v, std::uint64_t block) const {
    return v == volume && block >= first && block < first + count;
  }
};

class History {
 public:
  History();

  /// The value that the operation writes; for a zeroing one only a handle.
  Value begin_write(unsigned volume, std::uint64_t first, std::uint32_t count, WriteKind kind, Nanos now,
                    std::vector<Value> expected = {}, bool fua = false);
  void write_acknowledged(Value value, Nanos now);
  /// A try of a write whose later try was acknowledged just now, or that its node has done with: nothing of it may come
  /// after that.
  void write_is_over(Value value) { writes_[value].deadline = std::min(writes_[value].deadline, moment_); }
  /// The disk says that the write never happened and never will.
  void write_had_no_effect(Value value) { writes_[value].had_no_effect = true; }

  /// A flush that began then is acknowledged.
  void flushed(unsigned volume, Moment began);
  /// Every copy lost its power that had what is not flushed: of that, what was cached may be gone.
  void lost_power(unsigned volume, const std::function<bool(const WriteRecord&)>& cached);

  /// From then on until now hosts saw two lines, of which one is given up: nothing of that is judged, and of what was
  /// written before its end any may be left.
  void leave_out(unsigned volume, Moment since) { leave_out(volume, since, ++moment_); }
  void leave_out(unsigned volume, Moment since, Moment until);

  /// Every copy is one of an earlier moment: what came since, and some of what came before, is gone.
  void set_back(unsigned volume);

  [[nodiscard]] Moment begin_read() { return ++moment_; }
  /// What a read that began at `start` and ends now returned.
  void read_returned(unsigned volume, std::uint64_t first, std::span<const Value> values, Moment start, Nanos now);
  /// A comparison that began at `start` and ends now found something else than `value` in the block.
  void found_other(unsigned volume, std::uint64_t block, Value value, Moment start, Nanos now);

  [[nodiscard]] const WriteRecord& write(Value value) const { return writes_[value]; }
  [[nodiscard]] std::size_t write_count() const { return writes_.size() - 1; }
  [[nodiscard]] std::size_t read_count() const { return reads_; }
  [[nodiscard]] std::vector<bool> written_blocks(unsigned volume, std::uint64_t blocks) const;
  /// True unless `found` is older than the acknowledged write `acked`: what a member's disk may hold when it is
  /// acknowledged.
  [[nodiscard]] bool not_older(unsigned volume, std::uint64_t block, Value found, Value acked) const;

  /// Nothing when every block's history is linearizable; else which block, and why.
  [[nodiscard]] std::optional<std::string> check() const;

 private:
  friend class BlockJudge;
  struct Observation {
    unsigned volume = 0;
    std::uint64_t block = 0;
    Value value = 0;
    bool other = false;  ///< something else than `value` was found
    Moment start = 0;
    Moment finish = 0;
    Nanos time = 0;
  };
  struct LeftOut {
    unsigned volume = 0;
    Moment from = 0, to = kNever;
  };
  std::vector<LeftOut> left_out_;
  std::vector<WriteRecord> writes_;  ///< by value; [0] is the zeroes that a volume starts with
  std::vector<Observation> observations_;
  std::size_t reads_ = 0;
  Moment moment_ = 0;
};

}  // namespace lockstep::simulation
