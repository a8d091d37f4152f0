#pragma once
// The bounds of a session.
#include <cstdint>

#include "engine/iscsi/keys.hpp"
#include "engine/seams/clock.hpp"

namespace lockstep::iscsi_target {

/// What an initiator wanted then it still wants: well below the shortest lease, within which it gives nothing up.
constexpr auto kHeardLately = std::chrono::milliseconds(100);

constexpr std::uint32_t kMaxQueueDepth = 240;     ///< a task's slot number fits a byte, with room for immediate ones
constexpr std::uint32_t kNarrowWindow = 4;        ///< commands of a session while the reactor is short of buffers
constexpr std::uint32_t kImmediateSlots = 8;      ///< immediate commands beyond the window
constexpr std::size_t kMaxTaskManagement = 16;    ///< resets waiting for tasks, a session; and aborts of one command
constexpr std::size_t kPauseControlBacklog = 64;  ///< unsent answers to NOP, text, task management: reading pauses
constexpr std::size_t kPauseControlBytes = std::size_t{128} << 10;  ///< the same, by their data
constexpr std::size_t kMaxControlBacklog = 4096;  ///< and beyond this (one receive can bring that many) it ends
constexpr std::size_t kMaxQueuedPdus = 64;        ///< encoded and not yet sent, a connection

// While others wait for the memory that a session holds, and have less:
/// After this long with next to no data coming, its writes that wait for data end.
constexpr engine::Duration kTransferPatience = std::chrono::seconds(2);
/// After this long with next to none of its answers taken, it ends itself.
constexpr engine::Duration kTakingPatience = std::chrono::seconds(5);

constexpr std::uint64_t kLeastProgress = std::uint64_t{64} << 10;  ///< bytes

struct SessionSettings {
  iscsi::Offers offers;
  /// The commands' data buffers come from the sessions, shared fairly; false: from the device server, which waits for
  /// them itself.
  bool brings_buffers = true;
  std::uint32_t queue_depth = 128;               ///< commands a session may have outstanding
  std::size_t max_stash = std::size_t{4} << 20;  ///< bytes of unsolicited data that no command wanted yet
  engine::Duration login_timeout = std::chrono::seconds(15);
  engine::Duration keepalive = std::chrono::seconds(15);  ///< silence after which a NOP-In asks; as long again ends it
  /// A session whose initiator takes nothing of what we send, or sends nothing of what we asked for, holds buffers: it
  /// ends after this long (to the next keepalive) with less than kLeastProgress moved in each keepalive's time; of what
  /// was asked for, for the oldest command that waits. So does one whose initiator does not finish a PDU that it began.
  engine::Duration stall_patience = std::chrono::seconds(30);
};

}  // namespace lockstep::iscsi_target
