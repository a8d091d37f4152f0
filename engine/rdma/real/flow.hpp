#pragma once
// What stands in the queues of a queue pair, counted: which requests ask for a completion, what a completion says of
// those before it, and when there is room. Without verbs: the queues complete in the order of their posts (InfiniBand
// Architecture volume 1, 10.8.5), and a request that asked for no completion is known to be over by a later one's.
#include <bit>
#include <cassert>
#include <cstdint>
#include <optional>
#include <vector>

#include "engine/rdma/verbs.hpp"

namespace lockstep::rdma {

/// What is left, of a connection that is closed, of all that was posted.
enum class Rest : std::uint8_t {
  awaited,  ///< completions are to come
  silent,   ///< none is to come; what asked for none may still read memory, until the queue pair is destroyed
  nothing,  ///< no device reads or writes any of it
};

class SendFlow {
 public:
  static constexpr std::uint32_t kSignalEvery = 16;

  struct Entry {
    std::uint64_t id = 0;
    Work work{};
    bool signalled = false;
  };
  struct Posted {
    std::uint32_t sequence = 0;  ///< of its place in the queue; goes round
    bool signalled = false;
  };

  /// `depth` requests at once, of which `reads` may be RDMA Reads.
  SendFlow(std::uint32_t depth, std::uint32_t reads) : entries_(std::bit_ceil(depth)), depth_(depth), reads_(reads) {
    assert(depth > 0);
  }

  [[nodiscard]] bool may_post(Work work) const { return count_ < depth_ && (work != Work::read || reading_ < reads_); }
  /// Only what may_post(). Id 0 is told to nobody: it asks for a completion only as often as the count needs one.
  Posted post(Work work, std::uint64_t id);
  /// The completion of a request that was posted: it and all before it leave the queue. Nothing when it stands in the
  /// queue no more.
  std::optional<Entry> complete(std::uint32_t sequence);

  void set_reads(std::uint32_t reads) { reads_ = reads; }
  [[nodiscard]] std::uint32_t reads() const { return reads_; }
  [[nodiscard]] std::uint32_t count() const { return count_; }
  /// Completions that are still to come, if nothing fails.
  [[nodiscard]] std::uint32_t awaited() const { return awaited_; }
  /// Somebody waits for the completions of all that stands in the queue now.
  void await() { awaited_by_user_ = count_; }
  /// A completion is waited for: the poster goes on with what a read or a hide has done.
  [[nodiscard]] bool is_urgent() const { return reading_ > 0 || hiding_ > 0 || awaited_by_user_ > 0; }
  /// One of those that stand in the queue reads memory of the poster's, though it asked for no completion.
  [[nodiscard]] bool reads_silently() const;

 private:
  [[nodiscard]] Entry& at(std::uint32_t sequence) { return entries_[sequence & (entries_.size() - 1)]; }

  std::vector<Entry> entries_;  // a ring; a power of two, so that its places go on where sequences go round
  std::uint32_t depth_;
  std::uint32_t reads_;
  std::uint32_t first_ = 0;  // sequence of the oldest
  std::uint32_t count_ = 0;
  std::uint32_t reading_ = 0;
  std::uint32_t hiding_ = 0;           // with an id
  std::uint32_t awaited_by_user_ = 0;  // of the oldest
  std::uint32_t awaited_ = 0;
  std::uint32_t unsignalled_ = 0;  // since the last that asked for a completion
};

/// The ids of receives, which complete in the order of their posts.
class ReceiveFlow {
 public:
  explicit ReceiveFlow(std::uint32_t depth) : ids_(depth) {}
  [[nodiscard]] bool may_post() const { return count_ < ids_.size(); }
  void post(std::uint64_t id) {
    assert(may_post());
    ids_[(first_ + count_++) % ids_.size()] = id;
  }
  /// The id of the oldest; nothing when there is none.
  std::optional<std::uint64_t> complete() {
    if (count_ == 0) return {};
    const std::uint64_t id = ids_[first_];
    first_ = (first_ + 1) % static_cast<std::uint32_t>(ids_.size());
    --count_;
    return id;
  }
  [[nodiscard]] std::uint32_t count() const { return count_; }

 private:
  std::vector<std::uint64_t> ids_;  // a ring
  std::uint32_t first_ = 0;
  std::uint32_t count_ = 0;
};

/// The 64 bits that come back with a completion: whose it is, and which of its requests. A slot is used again with
/// another generation, so that what a provider left of a destroyed queue pair is nobody's.
struct WorkTag {
  std::uint16_t slot = 0;
  std::uint16_t generation = 0;
  bool receive = false;
  std::uint32_t sequence = 0;  ///< its lower 31 bits
  static constexpr std::uint32_t kSequences = 0x7fff'ffff;

  [[nodiscard]] std::uint64_t pack() const {
    return std::uint64_t{slot} << 48 | std::uint64_t{generation} << 32 | std::uint64_t{receive} << 31 |
           (sequence & kSequences);
  }
  [[nodiscard]] static WorkTag unpack(std::uint64_t bits) {
    return {.slot = static_cast<std::uint16_t>(bits >> 48),
            .generation = static_cast<std::uint16_t>(bits >> 32),
            .receive = (bits >> 31 & 1) != 0,
            .sequence = static_cast<std::uint32_t>(bits) & kSequences};
  }
  bool operator==(const WorkTag&) const = default;
};

}  // namespace lockstep::rdma
