#pragma once
// How the data of a session's commands moves between the initiator and memory: what a session needs of its transport
// beyond PDUs (Get_Data and Put_Data of RFC 5047). A byte stream does it by Data-Out, R2T and Data-In PDUs
// (stream_transfers.hpp). Memory that a command gave is the transfer's until it says otherwise: it may be written while
// nothing of the session runs.
#include <cstdint>
#include <span>

#include "engine/iscsi/pdu.hpp"
#include "engine/iscsi/pdu_sender.hpp"
#include "engine/runtime/buffer_pool.hpp"

namespace lockstep::iscsi_target {

class Session;
class SessionCommand;

class Transfers {
 public:
  enum class Put : std::uint8_t {
    no_room,      ///< to be called again when there is
    data_only,    ///< the status is to follow
    with_status,  ///< the last PDU carries it
  };

  Transfers() = default;
  Transfers(const Transfers&) = delete;
  Transfers& operator=(const Transfers&) = delete;
  virtual ~Transfers() = default;

  /// Once, before anything else. The session outlives all that is moved for it.
  virtual void start(Session& session) = 0;

  // PDUs that bring data. Between one of the first two and data_ended() the command "is arriving": it stays.
  /// A command has come, and `data_length` bytes of its data with it; `is_final`: nothing more follows unasked.
  virtual void begin(SessionCommand& command, bool is_final, std::uint32_t data_length) = 0;
  /// False: there is no use for the data.
  [[nodiscard]] virtual bool data_out(const iscsi::DataOutHeader& header, std::uint32_t data_length) = 0;
  /// As PduSink::data_place().
  [[nodiscard]] virtual std::span<std::byte> data_place(std::uint32_t offset) = 0;
  virtual void data_ended() = 0;

  /// Brings the command's data to `command.into`; Session::finish_pull() or Session::defer() follows, perhaps the
  /// latter inside.
  virtual void get(SessionCommand& command) = 0;
  /// The turn of a command that pulls: asks the initiator for data. False: there was no room for all of it.
  [[nodiscard]] virtual bool ask(SessionCommand& command, iscsi::PduSender& queue) = 0;
  /// As scsi::Command::take().
  [[nodiscard]] virtual engine::Buffer take(SessionCommand& command, std::size_t bytes) = 0;
  /// Sends the data of a completed read, of which there is some, and its status with it where that can be.
  [[nodiscard]] virtual Put put(SessionCommand& command, iscsi::PduSender& queue) = 0;

  /// Its status is about to be sent in a PDU of its own.
  virtual void answering(SessionCommand& command, iscsi::OutPdu& status) { (void)command, (void)status; }
  /// How many commands the initiator may be allowed to have under way beyond those that have come.
  [[nodiscard]] virtual std::uint32_t receive_credit() const { return UINT32_MAX; }

  /// No more data is to come for the command, which pulls. True: some is on its way to `command.into` still, and
  /// Session::let_go() follows, never from inside, when nothing writes there any more.
  [[nodiscard]] virtual bool abandon(SessionCommand& command) = 0;
  /// What came for it unasked is not needed any more.
  virtual void forget(SessionCommand& command) = 0;
  /// The transport has ended: nothing reads or writes any memory.
  virtual void end() = 0;
};

}  // namespace lockstep::iscsi_target
