#pragma once
// The initiator's side of one partner session over a transport that is connected already: login, greeting, commands and
// their answers, pings. Lives until something goes wrong; then it stops and says why. No sockets and no clock in here.
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/iscsi/login_initiator.hpp"
#include "engine/iscsi/pdu_transport.hpp"
#include "engine/iser/transport.hpp"
#include "engine/seams/random.hpp"
#include "replication/link/link_task.hpp"
#include "replication/link/rdma_payloads.hpp"

namespace lockstep::replication {

struct LinkIdentity {
  Hello ours;                                  ///< pair, process and side of this node
  std::optional<iscsi::ChapCredentials> chap;  ///< ours, and what the partner must prove
  /// Logs in beside the session that stands and says nothing: both have proven who they are then.
  bool only_tries = false;
  std::uint8_t path = 0;  ///< of this node's way out: each has a session of its own beside the others
  unsigned shard = 0;     ///< of both nodes' mirrors
};

class LinkSessionOwner {
 public:
  /// Greeted and welcome: tasks may be issued.
  virtual void on_session_ready() = 0;
  /// There may be room for another task.
  virtual void on_session_room() = 0;
  /// Its answer is in `prefix` and `payload_in`, and nothing reads `payload_out` any more.
  virtual void on_task_done(LinkTask& task, AnswerStart answer) = 0;
  /// The session stops by itself. It must not be destroyed in here.
  virtual void on_session_failed(const std::string& why) = 0;
  /// Once, after the session has stopped, perhaps inside stop(): nothing reads or writes its tasks' buffers any more.
  /// Not before this may they be called back. The session must not be destroyed in here.
  virtual void on_session_silent() = 0;

 protected:
  ~LinkSessionOwner() = default;
};

class LinkSession final : private iscsi::PduTransportUser, private RdmaPayloads::User {
 public:
  static constexpr std::size_t kMaxOutstanding = 256;                      ///< tasks on the session
  static constexpr std::size_t kMaxBytesInFlight = std::size_t{32} << 20;  ///< payload of tasks on the session
  /// Tasks that go ahead: as many immediate commands as the partner's end takes beside its window.
  static constexpr std::size_t kMaxAhead = 8;

  LinkSession(LinkIdentity identity, engine::Random& random, LinkSessionOwner& owner, bool over_rdma = false);
  /// When it never started or is silent, or after its transport is destroyed. Tasks still on it are forgotten: their
  /// owner has them listed.
  ~LinkSession();
  LinkSession(const LinkSession&) = delete;
  LinkSession& operator=(const LinkSession&) = delete;

  /// The transport was not started yet.
  void start(iscsi::PduTransport& transport);
  void start(iser::Transport& transport);
  [[nodiscard]] bool ready() const { return phase_ == Phase::ready; }
  /// Agreed on by the greeting.
  [[nodiscard]] std::uint16_t version() const { return version_; }
  [[nodiscard]] bool has_room(LinkTask& next);
  /// Only when ready and has_room().
  void issue(LinkTask& task);
  /// Asks the partner for a sign of life.
  void ping();
  /// PDUs that came so far: unchanged over a while means silence.
  [[nodiscard]] std::uint64_t heard() const { return heard_; }
  /// Issues and tells nothing any more. Its tasks stay with the caller, who may touch their buffers once
  /// on_session_silent() was called.
  void stop();
  [[nodiscard]] bool stopped() const { return phase_ == Phase::stopping || phase_ == Phase::silent; }
  [[nodiscard]] bool is_silent() const { return phase_ == Phase::silent; }
  /// The tasks on the session, when it is silent.
  void take_tasks(LinkTaskList& into);

 private:
  /// Stopping: what the transport was given may still be read and written.
  enum class Phase : std::uint8_t { login, greeting, ready, stopping, silent };
  struct Slot {
    LinkSession* session = nullptr;
    LinkTask* task = nullptr;
    std::uint16_t generation = 0;
  };

  bool takes_more() override { return true; }
  void on_received() override {}
  void fill() override;
  void on_all_sent() override {}
  void on_lost(std::error_code why) override;
  void on_header(const iscsi::Bhs& header, std::span<const std::byte> ahs, std::uint32_t data_length) override;
  std::span<std::byte> data_place(std::uint32_t offset) override;
  void on_pdu() override;
  void on_read_error(iscsi::ReadError error) override;

  void on_shut(LinkTask& task) override { take_payload(task); }

  void login_step(iscsi::InitiatorLogin::Step step);
  void greet();
  void greeted();
  void begin_data_in();
  void end_data_in();
  void on_scsi_response();
  void on_r2t();
  void take_sealed_answer(LinkTask& task);
  void take_payload(LinkTask& task);
  void on_nop_in();
  [[nodiscard]] bool take_numbers();
  [[nodiscard]] bool fits_the_window(const LinkTask& next) const;
  [[nodiscard]] LinkTask* find(std::uint32_t tag);
  void answered(LinkTask& task);
  void note_behind(LinkTask& task);
  void finish_if_over(LinkTask& task);
  [[nodiscard]] std::size_t encode_cdb(LinkTask& task, LinkCdb& cdb) const;
  void add_payload(LinkTask& task, iscsi::OutPdu& pdu);
  void push_command(LinkTask& task);
  void push_data(LinkTask& task, std::uint32_t offset, std::uint32_t length, std::uint32_t transfer_tag);
  void track(iscsi::OutPdu& pdu, LinkTask& task);
  void push(iscsi::OutPdu& pdu);
  [[nodiscard]] static std::size_t window_bytes(const LinkTask& task);
  void fail(std::string why);

  LinkIdentity identity_;
  LinkSessionOwner& owner_;
  iscsi::InitiatorLogin login_;
  iscsi::PduTransport* transport_ = nullptr;
  iscsi::PduSender* sender_ = nullptr;  ///< the transport's
  std::optional<RdmaPayloads> rdma_;    ///< where that is RDMA
  const iscsi::Bhs* header_ = nullptr;  ///< of the PDU that comes in
  Phase phase_ = Phase::login;
  std::uint16_t version_ = 0;
  iscsi::Parameters parameters_;
  iscsi::Serial cmd_sn_, max_cmd_sn_, exp_stat_sn_;
  std::uint64_t heard_ = 0;
  std::uint32_t pings_ = 0;
  bool ping_outstanding_ = false;

  std::vector<std::byte> text_;  ///< data segments that are not an answer's
  LinkTask* data_in_ = nullptr;  ///< whose answer is coming in
  std::uint32_t data_offset_ = 0;

  std::array<Slot, kMaxOutstanding> slots_;
  std::vector<std::uint16_t> free_slots_;
  std::size_t bytes_in_flight_ = 0;  ///< of those in the window
  std::size_t ahead_ = 0;            ///< tasks beside it
  std::size_t behind_ = 0;           ///< tasks, as LinkTask says
  LinkTask hello_;
};

}  // namespace lockstep::replication
