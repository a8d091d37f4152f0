#pragma once
// One region that a resync has under way; of resync.cpp and resync_unreadable.cpp alone.
#include "replication/core/resync.hpp"

namespace lockstep::replication {

/// Locked against writes from the reading until the partner has it durably enough to be flushed.
struct Resync::Copy {
  Resync& resync;
  std::uint64_t run = 0;
  std::uint64_t region = 0;
  engine::RangeLock::Node lock{};
  engine::Buffer buffer{};
  bool busy = false;  ///< the store or the link has the buffer
  bool reading = false;
  bool writing = false;  ///< … and the store writes it
  bool on_link = false;  ///< the partner has not answered
  bool mends = false;    ///< what this store could not read is written there
  bool unwritable = false;
  bool frees = false;  ///< what is sent is a hole
  engine::TimePoint since{};
  engine::Extent part{};               ///< that is being read, written and sent: all of it at first
  bool by_block = false;               ///< … and one block after the other since that failed
  bool is_partners = false;            ///< the bytes of the part: it need not be sent
  std::vector<engine::Extent> lost{};  ///< nobody could read these
  std::vector<engine::Extent> runs{};  ///< parts that remain to be written here and sent, the last one first
  /// Of the part.
  [[nodiscard]] std::span<std::byte> bytes() {
    return buffer.span().subspan(part.offset - lock.extent().offset, part.length);
  }
};

}  // namespace lockstep::replication
