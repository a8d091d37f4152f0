#pragma once
// A virtual disk as a logical unit sees it: the seam between the SCSI target and what stores its blocks (a mirror, or a
// single store). One request object carries one operation from submission to completion without allocation.
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <system_error>

#include "engine/base/extent.hpp"
#include "engine/base/result.hpp"
#include "engine/base/uuid.hpp"
#include "engine/seams/clock.hpp"

namespace lockstep::scsi {  // engine/scsi/lu_state.hpp
struct NexusKey;
class LuStateListener;
enum class AccessClass : std::uint8_t;
}  // namespace lockstep::scsi

namespace lockstep::engine {

enum class DiskOpcode : std::uint8_t {
  read,               ///< fill `data`
  write,              ///< store `data`
  write_zeroes,       ///< `extent` reads as zeros; may free space when `may_unmap`
  write_same,         ///< repeat `data` (one block) over `extent`
  unmap,              ///< `extent` reads as zeros, space given back
  flush,              ///< all completed writes are durable on every member
  compare_and_write,  ///< `data` is the expected bytes followed by the new ones, each extent.length long
  verify,             ///< compare `data` with the disk
  // On the logical unit's state (engine/scsi/lu_state.hpp); no extent. `transferred` says how much of `data` is answer.
  change_state,  ///< `data` (kLuAnswerSize bytes at least) is an encoded LuRequest, then the encoded LuAnswer: in force
                 ///< on every member, and nothing that was checked under the state before is at work any more
  read_state,    ///< fill `data` (kMaxLuState bytes) with the encoded LuState in force
  check_access,  ///< done when `access` was checked; nothing else
  // On blocks again; in the order in which the two nodes learned them.
  find_run,  ///< fill `data` (kRunSize bytes) with the encoded Run that begins at extent.offset; `transferred` as above
  renew_key,  ///< every member's blocks get another key: what `extent`, all of the disk, held is lost, and it reads as
              ///< anything until it is unmapped or written. Of encrypted disks only (Errc::refused)
};

/// How blocks are kept, from some place on: answered from a member's own store as it is at some moment of the request.
struct Run {
  std::uint64_t length = 0;  ///< bytes, more than none, at most to the end of what was asked for
  bool hole = false;         ///< reads as zeros and takes no space; otherwise it is kept, or nobody knows
  bool operator==(const Run&) const = default;
};
constexpr std::size_t kRunSize = 16;
using RunBytes = std::array<std::byte, kRunSize>;
[[nodiscard]] RunBytes encode(const Run& run);
/// What is no Run is one of no length.
[[nodiscard]] Run decode_run(std::span<const std::byte> bytes);

/// In flight from Disk::submit() until `done` runs; the submitter owns it and keeps it and its buffer alive until then.
struct DiskRequest {
  DiskOpcode opcode{};
  bool fua = false;  ///< durable when done, even with the write cache on
  bool may_unmap = false;
  Extent extent;
  std::span<std::byte> data;  ///< aligned to 4096 bytes where the buffers are the pool's
  std::uint64_t nexus = 0;    ///< identifies the I_T nexus on this node
  /// Whose command it is, and what it may be refused for: checked by the disk, where it is ordered. Lives as long as
  /// the session. Null with `access` unrestricted (0) only: the node's own doing.
  const scsi::NexusKey* port = nullptr;
  scsi::AccessClass access{};
  /// Its host had not given it up by then, as the reactor knows that took it; 0: as its disk's own does.
  TimePoint came_since{};
  /// When its command came to this node, however many requests it has made before this one: what a reset of the unit
  /// has ended since then is refused (Errc::aborted). 0: not known, or the node's own doing.
  TimePoint command_came{};

  // Results, set before `done`.
  /// Errc values; not_serving means: retry on the other node. reservation_conflict, write_protected, not_ready: what
  /// LuState::check() said.
  std::error_code status;
  std::uint64_t miscompare_offset = 0;  ///< bytes into `data`, with Errc::miscompare
  std::size_t transferred = 0;          ///< bytes of `data` that are the answer of change_state and read_state

  void (*done)(DiskRequest&) = nullptr;
  void* owner = nullptr;        ///< for the submitter
  DiskRequest* next = nullptr;  ///< for whoever holds the request
  void* holder = nullptr;       ///< for whoever holds the request
};

enum class AccessState : std::uint8_t {  // asymmetric access states that the product reports, SPC-4 6.37
  active_optimized,
  unavailable,
  transitioning,
};

struct DiskInfo {
  Uuid id;  ///< the volume's UUID, the same on both nodes
  std::string name;
  std::string serial;              ///< VPD 80h
  std::uint64_t size = 0;          ///< bytes
  std::uint32_t block_size = 512;  ///< bytes, logical
  std::uint32_t physical_block_size = 4096;
  bool thin = true;
  bool read_only = false;
  bool write_cache = false;
  bool encrypted = false;         ///< each copy's blocks, with a key of its own
  bool removable = false;         ///< the medium may be ejected
  bool persistent_state = false;  ///< the logical unit's state outlives power loss: APTPL is possible
};

class Disk {
 public:
  virtual ~Disk() = default;
  [[nodiscard]] virtual const DiskInfo& info() const = 0;
  [[nodiscard]] virtual AccessState access_state() const = 0;
  /// Called from any reactor; `done` runs on the reactor that submitted, and may run inside submit().
  virtual void submit(DiskRequest& request) = 0;
  /// The submitter gives `request` up: its session ends, or its task was aborted. What of it was not started is not
  /// started any more, on either node; what was started ends as it does. `done` still runs exactly once, perhaps inside
  /// this call; after it nothing of the request can take effect. Only between submit() and `done`, on the reactor that
  /// submitted; again has no effect.
  virtual void cancel(DiskRequest& request) { (void)request; }
  /// `listener` hears of the state in force at once, then of every state that is installed, with what it raised; all on
  /// the reactor that the disk lives on, from where alone this is called. Null: nobody does any more.
  virtual void set_state_listener(std::shared_ptr<scsi::LuStateListener> listener) { (void)listener; }
};

}  // namespace lockstep::engine
