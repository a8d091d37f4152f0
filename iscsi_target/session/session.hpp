#pragma once
// A session in full feature phase (RFC 7143 chapters 4, 7 and 11), error recovery level 0, one connection: PDUs in,
// commands to the device server, PDUs out. Knows no socket: its connection feeds it and drains it.
// How their data moves is the transport's (transfers.hpp).
//
// A command is executed as soon as its header is in, so that its data lands where the device server wants it. A status
// waits until the data that the initiator was entitled
// to send has come, since some initiators lose an answer that overtakes their own data.
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/iscsi/keys.hpp"
#include "engine/iscsi/login_target.hpp"
#include "engine/iscsi/pdu.hpp"
#include "engine/iscsi/pdu_sender.hpp"
#include "engine/iscsi/serial.hpp"
#include "engine/iscsi/text.hpp"
#include "iscsi_target/session/command_slots.hpp"
#include "iscsi_target/session/resources.hpp"
#include "iscsi_target/session/session_command.hpp"
#include "iscsi_target/session/settings.hpp"
#include "iscsi_target/session/target.hpp"
#include "iscsi_target/session/transfers.hpp"

namespace lockstep::iscsi_target {

/// Which commands a task management function is about.
struct TaskScope {
  std::optional<std::vector<std::uint64_t>> units;  ///< as DeviceServer::units() names them; nothing: all there are
  std::optional<std::uint64_t> sequence;            ///< one command only
  bool operator==(const TaskScope&) const = default;
};

/// What a session asks of its connection.
class SessionLink {
 public:
  virtual void want_send() = 0;
  /// What is encoded is sent, then the connection ends.
  virtual void close_gently(std::string reason) = 0;
  /// After end(): the device server has completed everything.
  virtual void drained() = 0;
  /// Deals with the commands in `scope` of all other sessions of this target, then calls back. False: nothing happens,
  /// its initiator waits for that as often as it may, through whatever sessions.
  [[nodiscard]] virtual bool quiesce_others(const TaskScope& scope, engine::Callback<> done) = 0;
  /// TARGET COLD RESET: ends every session of this initiator with the target.
  virtual void reset_target() = 0;
  /// Ends the connection at once.
  virtual void drop(std::string reason) = 0;
  /// The connection is over and end() follows. Until it does the transport may still read and write what the commands
  /// gave it: none may be ended.
  [[nodiscard]] virtual bool is_over() const = 0;
  [[nodiscard]] virtual const std::string& local_address() const = 0;
  /// What the initiator has taken of our answers so far: bytes, and how often all that there was; and whether there is
  /// more for it.
  [[nodiscard]] virtual std::uint64_t taken() const = 0;
  [[nodiscard]] virtual std::uint64_t taken_all() const = 0;
  [[nodiscard]] virtual bool has_unsent() const = 0;

 protected:
  ~SessionLink() = default;
};

struct SessionSetup {
  iscsi::LoginIdentity who;
  iscsi::Parameters parameters;
  iscsi::Serial stat_sn, exp_cmd_sn;
  std::uint32_t window = 1;  ///< commands, as the last answer to the login said
  std::uint64_t nexus_id = 0;
  std::string address;                          ///< the initiator's, without the port
  std::shared_ptr<const Target> target;         ///< null for discovery
  scsi::DeviceServer* device_server = nullptr;  ///< null for discovery
};

class Session final : private BufferUser {
 public:
  Session(SessionSetup setup, const SessionSettings& settings, SessionResources& resources,
          const TargetDirectory& directory, SessionLink& link, Transfers& transfers);
  /// After it has drained and what it had queued was sent or dropped.
  ~Session();

  // The reader's calls (iscsi::PduSink).
  void on_header(const iscsi::Bhs& header, std::span<const std::byte> ahs, std::uint32_t data_length);
  [[nodiscard]] std::span<std::byte> data_place(std::uint32_t offset);
  void on_pdu();

  /// Something comes from the initiator: before any of it is told.
  void heard();
  /// When something last came: a command that the initiator had given up by then was aborted, or its session over.
  [[nodiscard]] engine::TimePoint heard_at() const { return heard_at_; }

  /// Puts what is ready into `queue`, as far as its bound allows.
  void encode(iscsi::PduSender& queue);
  /// encode() has something to do.
  [[nodiscard]] bool has_to_encode() const { return first_ready_ != nullptr || first_deferred_ != nullptr; }
  /// After encode(): something goes on when answers have left: others that had no room, requests that wait for that, or
  /// commands that wait for memory, be they of other sessions.
  [[nodiscard]] bool awaits_sent() const {
    return has_to_encode() || wants_pause() || (resources_.data_buffers && resources_.data_buffers->anybody_waits());
  }
  /// Something waits to be encoded, and may be.
  [[nodiscard]] bool has_ready() const {
    return !said_last_word_ && (first_ready_ != nullptr || first_deferred_ != nullptr);
  }
  /// The initiator does not take our answers: take no more requests from it.
  [[nodiscard]] bool wants_pause() const {
    return control_backlog_ >= kPauseControlBacklog || control_bytes_ >= kPauseControlBytes;
  }
  struct Waiting {
    std::uint64_t sequence = 0;  ///< of the command; 0: none
    std::uint32_t received = 0;  ///< bytes of its data that have come
  };
  /// The oldest command that waits for the initiator: for its data, or for commands before it.
  [[nodiscard]] Waiting oldest_waiting() const;

  void reject(iscsi::RejectReason reason, const iscsi::Bhs& header);
  /// Asks whether the initiator is still there.
  void ping();
  /// Async message 1: please log out within `seconds`.
  void request_logout(std::uint16_t seconds);
  /// Commands of this session that another one's task management is about: those that wait for data, and those of which
  /// the device server leaves something undone, end with TASK ABORTED, the others end as they do; then `done`.
  void quiesce(const TaskScope& scope, engine::Callback<> done);

  /// The connection is over: nothing more is sent, every command is aborted. SessionLink::drained() follows, perhaps
  /// inside this call.
  void end();
  [[nodiscard]] bool ended() const { return ended_; }

  [[nodiscard]] const SessionSetup& setup() const { return setup_; }
  [[nodiscard]] const iscsi::Parameters& parameters() const { return setup_.parameters; }
  [[nodiscard]] std::size_t outstanding() const { return outstanding_; }

  // The transfers' calls.
  struct Numbers {
    std::uint32_t stat_sn, exp_cmd_sn, max_cmd_sn;
  };
  [[nodiscard]] const SessionSettings& settings() const { return settings_; }
  [[nodiscard]] SessionResources& resources() const { return resources_; }
  [[nodiscard]] SessionCommand* find(std::uint32_t task_tag) const { return slots_.find(task_tag); }
  /// Null unless both tags are the same command's.
  [[nodiscard]] SessionCommand* find(std::uint32_t transfer_tag, std::uint32_t task_tag) const {
    return slots_.find(transfer_tag, task_tag);
  }
  [[nodiscard]] FairShare::Claim& stash_claim_of(SessionCommand& command) {
    command.stash_claim.member = this;
    return command.stash_claim;
  }
  /// What a PDU says that is sent now.
  [[nodiscard]] Numbers numbers();
  /// The command wants its turn to be encoded.
  void make_ready(Ready& item);
  /// The initiator's data is not what was agreed: the command fails, whatever the device server makes of it.
  void break_command(SessionCommand& command, std::uint16_t additional_sense);
  /// The same, for another reason.
  void break_command(SessionCommand& command, scsi::Status status);
  void data_came(std::uint32_t bytes) { data_out_ += bytes; }
  /// The data that was arriving has come, for a command that is aborted or completed.
  void arrived_late(SessionCommand& command);
  /// The pull ends: with all of its data in place, or with an error, and nothing writes there any more.
  void finish_pull(SessionCommand& command, std::error_code error);
  /// The same at the end of the turn.
  void defer(SessionCommand& command, std::error_code error);
  /// What Transfers::abandon() had to wait for is over.
  void let_go(SessionCommand& command);
  /// The status of a read in the last PDU of its data.
  void encode_status_with_data(SessionCommand& command, iscsi::DataInHeader& header, iscsi::OutPdu& last);

 private:
  friend class SessionCommand;
  enum class Incoming : std::uint8_t { nothing, discard, command_data, control };
  enum class Turn : std::uint8_t { now, later, never };  // of a request, by its CmdSN

  struct Control : Ready {
    Session* session = nullptr;
    iscsi::Bhs header;
    std::vector<std::byte> data;
    bool takes_stat_sn = true;
    bool closes = false;
  };
  struct Waiter {
    std::uint64_t before = 0;  // commands with a smaller sequence number
    TaskScope scope;
    bool is_own = true;  // for a function of this session's initiator, which has a bound on them
    std::vector<engine::Callback<>> done;
  };

  // session.cpp: requests.
  [[nodiscard]] Turn take_cmd_sn(const iscsi::AnyHeader& header, iscsi::Serial cmd_sn);
  /// A command of that number waits for those before it.
  [[nodiscard]] bool is_held(iscsi::Serial cmd_sn) const;
  void ask_whether_it_is_there();
  void begin_control(const iscsi::Bhs& header, std::uint32_t data_length);
  void run_control();
  void nop_out(const iscsi::NopOutHeader& header);
  void text_request(const iscsi::TextRequestHeader& header);
  void logout_request(const iscsi::LogoutRequestHeader& header);
  void log_out(std::uint32_t task_tag);
  void answer_logout(std::uint32_t task_tag, iscsi::LogoutResult result);
  void send_text_piece(const iscsi::TextRequestHeader& header);
  Control& add_control(const iscsi::Bhs& header, std::span<const std::byte> data = {});

  // session_commands.cpp: commands and their data.
  void begin_command(const iscsi::Bhs& header, std::span<const std::byte> ahs, std::uint32_t data_length);
  [[nodiscard]] std::optional<iscsi::RejectReason> refuse_command(const iscsi::ScsiCommandHeader& header, bool ahs_good,
                                                                  std::uint32_t data_length) const;
  [[nodiscard]] bool data_fits_agreement(const iscsi::ScsiCommandHeader& header, std::uint32_t data_length) const;
  void start_held();
  /// Executes it when there is memory for its data.
  void start(SessionCommand& command);
  void execute(SessionCommand& command);
  void pull_begun(SessionCommand& command);
  void end_pull(SessionCommand& command, std::error_code error);
  void run_deferred();
  [[nodiscard]] bool was_heard_lately() const;
  void host_awaited();
  void completed(SessionCommand& command);
  void finish_if_over(SessionCommand& command);
  void leave_window(SessionCommand& command);
  void drop_stash(SessionCommand& command);
  void release(SessionCommand& command);

  // session_memory.cpp: the memory that commands wait for and hold.
  void buffer_ready(FairShare::Claim& claim, engine::Buffer buffer) override;
  void look(bool is_in_the_way) override;
  void end_stalled_transfers(bool is_in_the_way);
  void put_off(SessionCommand& command);
  void give_back_memory(SessionCommand& command);
  void stop_waiting(SessionCommand& command);
  void fail_unexecuted(SessionCommand& command, scsi::Status status);

  // session_send.cpp: answers.
  [[nodiscard]] bool encode_command(SessionCommand& command, iscsi::PduSender& queue);
  void encode_status(SessionCommand& command, iscsi::PduSender& queue);
  void encode_control(Control& control, iscsi::PduSender& queue);
  void forget(Control& control);
  void status_leaves(SessionCommand& command, iscsi::OutPdu& last);
  template <class T>
  void stamp(T& header);
  [[nodiscard]] iscsi::Serial window_end();

  // task_management.cpp
  void task_management(const iscsi::TaskManagementRequestHeader& header);
  void abort_task(const iscsi::TaskManagementRequestHeader& header);
  void await_abort(std::uint64_t sequence, std::uint32_t tag);
  void manage_scope(const iscsi::TaskManagementRequestHeader& header, scsi::TaskManagement function);
  [[nodiscard]] bool covers(const TaskScope& scope, const SessionCommand& command) const;
  void abort_commands(const TaskScope& scope);
  void abort(SessionCommand& command);
  void give_up(SessionCommand& command);
  void answer_management(std::uint32_t task_tag, iscsi::TaskManagementResult result);
  void wait_for(const TaskScope& scope, engine::Callback<> done);
  void wait_for_another(const TaskScope& scope, engine::Callback<> done);
  [[nodiscard]] bool is_over(const Waiter& waiter) const;
  void check_waiters();
  void check_drained();

  SessionSetup setup_;
  const SessionSettings& settings_;
  SessionResources& resources_;
  const TargetDirectory& directory_;
  SessionLink& link_;
  Transfers& transfers_;
  scsi::Nexus nexus_;

  CommandSlots slots_;
  iscsi::Serial stat_sn_;
  iscsi::Serial exp_cmd_sn_;
  iscsi::Serial max_cmd_sn_;
  std::vector<iscsi::Serial> skipped_;  // aborted before they came
  std::uint32_t window_used_ = 0;       // commands in the window that have not been answered
  std::uint32_t immediate_used_ = 0;
  std::size_t outstanding_ = 0;  // commands that the device server has not completed
  std::size_t alive_ = 0;        // commands that are not back in the pool
  std::uint64_t next_sequence_ = 1;

  Incoming incoming_ = Incoming::nothing;
  iscsi::Bhs control_header_{};
  std::vector<std::byte> control_data_;
  iscsi::TextAssembler text_in_;
  iscsi::TextSender text_out_;
  std::uint32_t text_tag_ = iscsi::kReservedTag;

  Ready* first_ready_ = nullptr;
  Ready* last_ready_ = nullptr;
  SessionCommand* first_deferred_ = nullptr;
  SessionCommand* last_deferred_ = nullptr;
  std::size_t control_backlog_ = 0;  // control PDUs that are not sent yet
  std::size_t control_bytes_ = 0;    // their data
  std::vector<Waiter> waiters_;
  std::size_t resets_ = 0;  ///< of units and targets, until they are answered
  std::size_t held_ = 0;
  std::size_t waiting_ = 0;            // commands that wait for memory
  std::uint64_t data_out_ = 0;         // bytes of write data that came
  std::uint64_t data_out_before_ = 0;  // at the last look
  std::uint64_t taken_before_ = 0;     // at the last look
  std::uint64_t all_before_ = 0;       // the same of taken_all()
  std::uint32_t untaken_looks_ = 0;    // in a row that saw little taken of what there is to send
  std::uint32_t next_ping_ = 1;
  std::size_t awaiting_host_ = 0;  // commands
  engine::TimePoint heard_at_;     // the initiator
  engine::TimePoint asked_at_;     // … whether it still waits for its commands
  bool ended_ = false;
  bool logging_out_ = false;     // a logout was accepted; it is answered when the device server has let go
  bool said_last_word_ = false;  // nothing follows a logout response
  std::shared_ptr<const char> life_ = std::make_shared<const char>();  // for callbacks that may come too late
  bool told_drained_ = false;
};

}  // namespace lockstep::iscsi_target
