#pragma once
// What the iSER connections of one reactor have moved, and what they have under way.
#include <algorithm>
#include <array>
#include <cstdint>

#include "engine/rdma/status.hpp"

namespace lockstep::iser {

/// On the reactor's thread; ever, but for what is now. What the CPU copied is told apart by why.
struct Figures {
  std::uint64_t messages_in = 0, messages_out = 0;
  std::uint64_t bytes_in = 0, bytes_out = 0;        ///< of those
  std::uint64_t bytes_read = 0, bytes_written = 0;  ///< of the peers' memory
  std::uint64_t reads = 0, writes = 0, invalidations = 0;
  std::uint64_t windows = 0;      ///< of own memory that peers were let at
  std::uint64_t invalidated = 0;  ///< of those, that the peer's answer shut
  std::uint64_t hidden = 0;       ///< … and that this end shut
  std::uint64_t eager = 0;        ///< writes whose data came with them, and was handed on as it lay
  struct Copied {
    std::uint64_t immediate_prefix = 0;  ///< of a write whose other data was read
    std::uint64_t ahs = 0;               ///< data that additional headers had moved from its place
    std::uint64_t bounce = 0;            ///< data to be written that lay in no arena
    std::uint64_t control = 0;           ///< logins, texts, pings, and whatever is no host's data
    std::uint64_t cipher = 0;            ///< data that was encrypted or decrypted, wherever it lay
  } copied;
  std::uint64_t starved = 0;  ///< receives that had to wait for memory
  /// Work requests that failed, by their status: each was its connection's end.
  std::array<std::uint64_t, rdma::kStatuses> errors{};
  struct Queues {
    std::uint64_t connections = 0;  ///< now
    std::uint64_t work = 0;         ///< now: sends, reads, writes and windows that are posted and not over
    std::uint64_t depth = 0;        ///< now: how many of those the connections have room for
    std::uint64_t most = 0;         ///< ever under way on one connection
  } queues;

  Figures& operator+=(const Figures& o) {
    messages_in += o.messages_in, messages_out += o.messages_out;
    bytes_in += o.bytes_in, bytes_out += o.bytes_out;
    bytes_read += o.bytes_read, bytes_written += o.bytes_written;
    reads += o.reads, writes += o.writes, invalidations += o.invalidations;
    windows += o.windows, eager += o.eager;
    copied.immediate_prefix += o.copied.immediate_prefix;
    copied.ahs += o.copied.ahs;
    copied.bounce += o.copied.bounce;
    copied.control += o.copied.control;
    copied.cipher += o.copied.cipher;
    starved += o.starved;
    invalidated += o.invalidated, hidden += o.hidden;
    for (std::size_t i = 0; i < errors.size(); ++i) errors[i] += o.errors[i];
    queues.connections += o.queues.connections;
    queues.work += o.queues.work;
    queues.depth += o.queues.depth;
    queues.most = std::max(queues.most, o.queues.most);
    return *this;
  }
};

}  // namespace lockstep::iser
