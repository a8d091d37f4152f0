#pragma once
// The data mover's contract: one SCSI command between a transport (iSCSI over TCP, later iSER) and a device server (a
// volume's logical unit, or the partner service). The device server never sees a PDU; the transport never reads a CDB.
// Everything here happens on the connection's reactor; a device server that hops to another reactor hops back.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/result.hpp"
#include "engine/runtime/buffer_pool.hpp"
#include "engine/seams/clock.hpp"

namespace lockstep::scsi {

enum class Status : std::uint8_t {  // SAM-5 5.3.1
  good = 0x00,
  check_condition = 0x02,
  condition_met = 0x04,
  busy = 0x08,
  reservation_conflict = 0x18,
  task_set_full = 0x28,
  task_aborted = 0x40,
};

enum class TaskAttribute : std::uint8_t { untagged = 0, simple = 1, ordered = 2, head_of_queue = 3, aca = 4 };

constexpr std::size_t kMaxCdb = 260;         ///< bytes, with an extended CDB AHS
constexpr std::size_t kMaxDataPrefix = 256;  ///< bytes
constexpr std::size_t kMaxSense = 96;  ///< bytes: with the two bytes of length it fits every initiator's receive size

/// The I_T nexus that a command came by. Lives as long as its session; a device server may keep state beside it.
struct Nexus {
  std::uint64_t id = 0;        ///< unique in this process
  std::string initiator_name;  ///< iSCSI name
  std::array<std::uint8_t, 6> isid{};
  std::string target_name;
  std::uint16_t target_portal_group = 0;
  void* device_state = nullptr;  ///< the device server's own
};

/// A command in flight. Made and kept by the transport; the device server ends it with exactly one complete().
class Command {
 public:
  virtual ~Command() = default;

  std::array<std::uint8_t, kMaxCdb> cdb{};
  std::size_t cdb_length = 16;
  std::uint64_t lun = 0;  ///< the eight bytes of the LUN field, big-endian
  TaskAttribute attribute = TaskAttribute::simple;
  std::uint32_t expected_out = 0;  ///< bytes the initiator is ready to send
  std::uint32_t expected_in = 0;   ///< bytes the initiator is ready to receive
  engine::TimePoint came_at{};     ///< to this node; 0: not known
  Nexus* nexus = nullptr;
  /// Memory for what is expected, where the transport brings it: see take_buffer().
  engine::Buffer data_buffer;

  /// Set by the device server before complete().
  Status status = Status::good;
  std::array<std::uint8_t, kMaxSense> sense{};
  std::size_t sense_length = 0;
  /// How many bytes the command wanted to move each way, for the residual counts; may differ from what was expected.
  std::uint64_t wanted_out = 0;
  std::uint64_t wanted_in = 0;
  /// By the device server: its data are no blocks of a volume; what is copied of them counts apart.
  bool is_control = false;

  /// Optional, before complete(): sent ahead of its `data_in`, copied, at most kMaxDataPrefix bytes.
  std::span<const std::byte> data_prefix;
  /// Optional, before complete(): runs exactly once when `data_in` is no longer needed (sent, or never to be sent),
  /// perhaps inside complete(). With it `data_in` may be the device server's own memory, without a Buffer.
  engine::Callback<> data_released;

  /// Room for the device server: its per-command state lives here, so that no command costs an allocation.
  alignas(16) std::array<std::byte, 384> server_state{};

  /// Brings the write data [0, into.size()) into `into` (immediate and unsolicited data, then R2T). At most once, with
  /// into.size() <= expected_out. An error means that the command is dead: complete() is still owed, nothing is sent.
  /// `done` never runs inside pull().
  virtual void pull(std::span<std::byte> into, engine::IoCallback done) = 0;
  /// In the place of pull(): the first `bytes` of the write data, which are all that is expected, where they are there
  /// already and lie in a buffer of a pool, from its beginning. Empty: they don't, or not yet, and pull() brings them.
  /// May be asked again until it is answered, or pull() is called.
  [[nodiscard]] virtual engine::Buffer take(std::size_t bytes) {
    (void)bytes;
    return {};
  }
  /// Ends the command. `data_in` is sent before the status (not beyond expected_in) out of `buffer`, which the
  /// transport keeps until the last byte is sent. Data without a buffer must be at most 4 KiB and is copied.
  virtual void complete(std::span<const std::byte> data_in = {}, engine::Buffer buffer = {}) = 0;
  /// True once the command was aborted or its session is gone: stop early if that is cheap; complete() is still owed.
  [[nodiscard]] virtual bool aborted() const = 0;
  /// When its host was last heard, which had not given it up by then: for DiskRequest::came_since. 0: it came just now.
  [[nodiscard]] virtual engine::TimePoint came_since() const { return {}; }
  /// Before another step of what takes long. True: its host was heard a moment ago. Else `done` runs when it is heard,
  /// as pull()'s does. Not while it pulls, and only when all of its write data was fetched.
  [[nodiscard]] virtual bool await_host(engine::IoCallback& done) {
    (void)done;
    return true;
  }
};

/// A buffer of `bytes` for the command's data: what the transport brought when that is large enough, else out of
/// `pool`.
[[nodiscard]] inline engine::Buffer take_buffer(Command& command, std::size_t bytes, engine::BufferPool& pool) {
  if (command.data_buffer.resize(bytes)) [[likely]]
    return std::move(command.data_buffer);
  return pool.allocate(bytes);
}

enum class TaskManagement : std::uint8_t {  // RFC 7143 11.5.1
  abort_task = 1,
  abort_task_set = 2,
  clear_aca = 3,
  clear_task_set = 4,
  logical_unit_reset = 5,
  target_warm_reset = 6,
  target_cold_reset = 7,
};

/// What became of one.
enum class Managed : std::uint8_t {
  complete,
  no_such_unit,
  failed,  ///< some unit's reset is not in force, or nobody knows
};

class DeviceServer {
 public:
  virtual ~DeviceServer() = default;
  virtual void on_nexus_opened(Nexus& nexus) = 0;
  /// After every command of the nexus was completed.
  virtual void on_nexus_closed(Nexus& nexus) = 0;
  virtual void execute(Command& command) = 0;
  /// How many bytes of memory the command will ask take_buffer() for at most, as far as it is known by its CDB. What an
  /// initiator expects is only its word: no command gets more than one buffer.
  [[nodiscard]] virtual std::size_t data_bytes(const Command& command) const {
    return std::min<std::size_t>(std::max(command.expected_out, command.expected_in), engine::BufferPool::kMaxBuffer);
  }
  /// The command is given up: it was aborted, its session ends, or a reset that another session asked for ends it. What
  /// of it has not begun is not to begin any more. complete() is still owed, perhaps inside this call: with TASK
  /// ABORTED when something was left undone, else as ever; of a command that is aborted() nothing is sent. At most once
  /// for a command, between execute() and complete() and never inside either; not while it pulls, for that ends with an
  /// error.
  virtual void abort(Command& command) { (void)command; }
  /// Which logical units the nexus reaches: what another initiator has elsewhere it can't reset. Each by its LUN,
  /// written in one way.
  [[nodiscard]] virtual std::vector<std::uint64_t> units(const Nexus& nexus) const {
    (void)nexus;
    return {0};
  }
  /// The one of them that `lun` means, however it is written; nothing: none.
  [[nodiscard]] virtual std::optional<std::uint64_t> unit_at(const Nexus& nexus, std::uint64_t lun) const {
    (void)nexus;
    return lun == 0 ? std::optional<std::uint64_t>(0) : std::nullopt;
  }
  /// The session layer aborts the tasks it holds itself (and waits for their complete()); this is what the logical
  /// unit adds: reset state, unit attentions. False: LUN does not exist.
  virtual bool task_management(Nexus& nexus, TaskManagement function, std::uint64_t lun) = 0;
  /// The same; `done` (on this reactor, perhaps inside) runs when the reset is in force everywhere, or can't be.
  virtual void manage(Nexus& nexus, TaskManagement function, std::uint64_t lun, engine::Callback<Managed> done) {
    done(task_management(nexus, function, lun) ? Managed::complete : Managed::no_such_unit);
  }
};

}  // namespace lockstep::scsi
