#pragma once
// One SCSI command of a session, from its PDU to the last byte of its status: the transport's half of scsi::Command.
// Comes out of a pool that the sessions of a reactor share; the session moves it along.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/iscsi/serial.hpp"
#include "engine/iser/format.hpp"
#include "engine/runtime/buffer_pool.hpp"
#include "engine/scsi/command.hpp"
#include "iscsi_target/session/fair_share.hpp"

namespace lockstep::iscsi_target {

class Session;

/// Something that waits for its turn to be encoded: a command (R2T, data, status) or a control PDU.
struct Ready {
  Ready* next_ready = nullptr;
  bool is_ready = false;  ///< stands in the session's list
  bool is_command = false;
};

class SessionCommand final : public scsi::Command, public Ready {
 public:
  void pull(std::span<std::byte> into, engine::IoCallback done) override;
  [[nodiscard]] engine::Buffer take(std::size_t bytes) override;
  void complete(std::span<const std::byte> data_in, engine::Buffer buffer) override;
  [[nodiscard]] engine::TimePoint came_since() const override;
  [[nodiscard]] bool await_host(engine::IoCallback& done) override;
  [[nodiscard]] bool aborted() const override { return is_aborted; }

  // What follows is the session's.
  Session* session = nullptr;
  std::uint64_t sequence = 0;  ///< in order of arrival, never reused within a session
  std::uint32_t task_tag = 0;
  std::uint32_t transfer_tag = 0;
  std::uint32_t slot = 0;
  iscsi::Serial cmd_sn;

  bool reads = false, writes = false;
  bool is_immediate = false;
  bool is_held = false;       ///< waits for commands before it that have not come
  bool is_waiting = false;    ///< for memory for its data
  bool has_waited = false;    ///< … and its host may have given it up meanwhile
  bool is_executing = false;  ///< the device server owes complete()
  bool is_completed = false;
  bool is_aborted = false;   ///< nothing is sent for it any more
  bool is_given_up = false;  ///< the device server was told to end it
  bool is_broken = false;    ///< its data went wrong: `broken_status` is sent instead of what the device server says
  scsi::Status broken_status{};
  std::uint16_t broken_sense = 0;  ///< ASC and ASCQ
  bool status_encoded = false;     ///< left the slots; only its last PDUs are on their way
  bool is_arriving = false;        ///< a PDU that brings data of it is coming in
  bool is_letting_go = false;      ///< its pull has failed, and ends when nothing writes to its memory any more

  // Data-Out. `received` counts from the buffer's start; data comes in order.
  std::uint32_t received = 0;
  std::uint32_t next_data_sn = 0;
  bool unsolicited_open = false;  ///< more unsolicited data may come
  bool pull_wanted = false;       ///< pull() was called and is not answered yet
  bool pulled = false;            ///< pull() was called, or the data taken
  bool awaits_host = false;       ///< that it is heard; as if it pulled nothing
  std::span<std::byte> into;
  engine::IoCallback pull_done;
  std::error_code pull_error;
  SessionCommand* next_deferred = nullptr;
  bool is_deferred = false;
  engine::Buffer stash;  ///< unsolicited data that came before pull()
  FairShare::Claim stash_claim;
  bool stash_missing = false;         ///< there was none: what has come is thrown away, and asked for again
  std::uint32_t r2t_outstanding = 0;  ///< sequences asked for and not finished
  std::uint32_t r2t_asked = 0;        ///< up to where data was asked for
  std::uint32_t sequence_end = 0;     ///< of the sequence under way
  std::uint32_t r2t_count = 0;
  iser::Tagged tagged;                ///< iSER: the initiator's memory for it
  bool holds_message = false;         ///< iSER: a message's buffer, as its stash or handed on
  std::uint32_t reads_under_way = 0;  ///< iSER: of its data, to `into`
  bool is_sealed = false;             ///< iSER, protected: its data is encrypted, in a buffer
  std::uint32_t stalled_looks = 0;    ///< in a row that saw it wait for data of which little came

  // Data-In and status.
  std::span<const std::byte> data;
  FairShare::Claim claim;  ///< for the memory of its data, either way
  engine::Buffer buffer;
  std::vector<std::byte> copied;  ///< small data without a buffer, or the prefix
  std::size_t prefix_length = 0;
  std::uint32_t data_sent = 0;  ///< bytes encoded
  std::uint32_t data_sn = 0;

  /// Whose claim it is.
  [[nodiscard]] static SessionCommand& of(FairShare::Claim& claim) {
    return *static_cast<SessionCommand*>(claim.owner);
  }
  /// Data of a sequence that was begun may still come.
  [[nodiscard]] bool expects_data() const { return unsolicited_open || r2t_outstanding != 0; }
  void expect_no_data() { unsolicited_open = false, r2t_outstanding = 0; }
  /// Bytes that are sent ahead of its status.
  [[nodiscard]] std::uint32_t data_in_total() const {
    return static_cast<std::uint32_t>(std::min<std::size_t>(prefix_length + data.size(), expected_in));
  }
  [[nodiscard]] engine::Buffer take_stash(std::size_t bytes);
  /// Back to how a fresh one is, without touching what is overwritten anyway.
  void reset();
};

/// Commands of one reactor that are free. Grows to what was ever needed at once.
class SessionCommandPool {
 public:
  SessionCommandPool() = default;
  SessionCommandPool(const SessionCommandPool&) = delete;
  SessionCommandPool& operator=(const SessionCommandPool&) = delete;
  ~SessionCommandPool();
  [[nodiscard]] SessionCommand& get();
  void put(SessionCommand& command);
  [[nodiscard]] std::size_t in_use() const { return in_use_; }

 private:
  std::vector<SessionCommand*> free_;
  std::size_t in_use_ = 0;
};

}  // namespace lockstep::iscsi_target
