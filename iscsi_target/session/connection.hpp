#pragma once
// One connection of an initiator's: the login, then the session on it, one connection each. A core: a transport carries
// its PDUs, a host lets its session in.
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/iscsi/login_target.hpp"
#include "engine/iscsi/pdu_transport.hpp"
#include "iscsi_target/session/resources.hpp"
#include "iscsi_target/session/session.hpp"
#include "iscsi_target/session/settings.hpp"
#include "iscsi_target/session/target.hpp"

namespace lockstep::iscsi_target {

class TargetConnection;

/// Of "10.0.0.1:3260", without the port.
[[nodiscard]] inline std::string host_of(std::string_view address) {
  return std::string(address.substr(0, address.rfind(':')));
}

/// Who keeps the connections of a server.
class ConnectionHost {
 public:
  /// The login is complete but for its last answer: admitted() or refused() follows, now or later. Before that every
  /// other session of the same initiator port with the same target is over and drained.
  virtual void admit(TargetConnection& connection) = 0;
  /// The login waits for this node's decision whether it serves, not for other sessions of its port.
  [[nodiscard]] virtual bool holds_login(const TargetConnection& connection) const = 0;
  /// A proof has come and has waited so long: zero when it is to be looked at, or how long it waits yet; nothing when
  /// it is to be refused unseen.
  [[nodiscard]] virtual std::optional<engine::Duration> proof_wait(const TargetConnection& connection,
                                                                   engine::Duration waited) = 0;
  /// It was right.
  virtual void proved(const TargetConnection& connection) = 0;
  virtual void opened(TargetConnection& connection) = 0;
  /// The last call: nothing is in flight any more. The connection is destroyed soon, but not inside.
  virtual void closed(TargetConnection& connection) = 0;
  /// True once every connection of this age must fall silent.
  [[nodiscard]] virtual bool is_fenced(const TargetConnection& connection) const = 0;
  /// This reactor's device server of the target; null when there is none.
  [[nodiscard]] virtual scsi::DeviceServer* device_server(const Target& target) = 0;
  [[nodiscard]] virtual bool quiesce_others(TargetConnection& connection, const TaskScope& scope,
                                            engine::Callback<> done) = 0;
  /// Ends all other sessions of its initiator with its target.
  virtual void reset_target(TargetConnection& connection) = 0;

 protected:
  ~ConnectionHost() = default;
};

class TargetConnection final : private iscsi::PduTransportUser, private SessionLink {
 public:
  enum class Phase : std::uint8_t { login, proof_waits, admitting, full_feature, closed };

  /// `transfers` moves the data of what comes by `transport`.
  TargetConnection(std::unique_ptr<iscsi::PduTransport> transport, std::unique_ptr<Transfers> transfers,
                   ConnectionHost& host, SessionResources& resources, TargetDirectory& directory,
                   const SessionSettings& settings);
  /// After ConnectionHost::closed().
  ~TargetConnection();
  TargetConnection(const TargetConnection&) = delete;
  TargetConnection& operator=(const TargetConnection&) = delete;

  // The host's answers to admit().
  void admitted(std::uint16_t tsih, std::uint64_t nexus_id);
  void refused(iscsi::LoginStatus status, std::string why);

  /// Ends the connection: nothing more is sent. ConnectionHost::closed() follows, perhaps inside.
  void reset(std::string why);
  void request_logout(std::uint16_t seconds);
  void quiesce(const TaskScope& scope, engine::Callback<> done);

  [[nodiscard]] Phase phase() const { return phase_; }
  [[nodiscard]] const iscsi::LoginIdentity& identity() const { return identity_; }
  /// Past its login, and what it was let in by lets nobody in any more.
  [[nodiscard]] bool has_lost_access() const;
  [[nodiscard]] const std::shared_ptr<const Target>& target() const { return target_; }
  [[nodiscard]] std::uint64_t nexus_id() const { return nexus_id_; }
  /// Why it ended: a whole sentence.
  [[nodiscard]] const std::string& reason() const { return reason_; }
  [[nodiscard]] const std::string& peer_address() const { return peer_; }
  [[nodiscard]] const std::string& local_address() const override { return local_; }
  [[nodiscard]] bool is_rdma() const { return transport_->is_rdma(); }
  [[nodiscard]] bool is_protected_rdma() const { return transport_->is_protected_rdma(); }
  /// For the host: its name for this connection, and which generation of connections it belongs to.
  std::uint64_t id = 0;
  std::uint64_t generation = 0;
  /// After ConnectionHost::closed(): tells the device server that the nexus is closed.
  void destroy_session() { session_.reset(); }

 private:
  // iscsi::PduTransportUser
  bool takes_more() override;
  void on_received() override;
  void fill() override;
  void on_all_sent() override;
  void on_lost(std::error_code why) override;
  void on_header(const iscsi::Bhs& header, std::span<const std::byte> ahs, std::uint32_t data_length) override;
  std::span<std::byte> data_place(std::uint32_t offset) override;
  void on_pdu() override;
  void on_read_error(iscsi::ReadError error) override;

  // SessionLink
  void want_send() override;
  void close_gently(std::string why) override;
  void drained() override;
  [[nodiscard]] bool quiesce_others(const TaskScope& scope, engine::Callback<> done) override;
  void reset_target() override;
  void drop(std::string why) override { reset(std::move(why)); }
  [[nodiscard]] bool is_over() const override { return phase_ == Phase::closed; }
  [[nodiscard]] std::uint64_t taken() const override { return transport_->progress().sent; }
  [[nodiscard]] std::uint64_t taken_all() const override { return transport_->progress().emptied; }
  [[nodiscard]] bool has_unsent() const override { return !sender_.empty(); }

  void login_request(const iscsi::Bhs& header, std::span<const std::byte> data);
  void proof_came(engine::Duration waited);
  void login_step(iscsi::TargetLogin::Step step);
  void send_login(const iscsi::TargetLogin::Step& step);
  void start_timer(engine::Duration delay);
  void on_timer();
  [[nodiscard]] const char* why_no_login() const;
  void watch_silence();
  [[nodiscard]] bool trickles();
  [[nodiscard]] bool stalls();
  /// Silence first; then, when nothing reads or writes the commands' memory any more, the session ends.
  void end(engine::StreamClose how, std::string why);
  void silent();

  std::unique_ptr<iscsi::PduTransport> transport_;
  iscsi::PduSender& sender_;  // the transport's
  std::unique_ptr<Transfers> transfers_;
  ConnectionHost& host_;
  SessionResources& resources_;
  TargetDirectory& directory_;
  const SessionSettings& settings_;
  std::string peer_, local_;
  const iscsi::Offers offers_;
  std::unique_ptr<iscsi::TargetLogin> login_;
  std::vector<std::byte> login_data_;
  struct WaitingProof {
    iscsi::Bhs header{};
    std::vector<std::byte> data;
    engine::Duration waited{};
  };
  std::unique_ptr<WaitingProof> waiting_proof_;
  iscsi::LoginIdentity identity_;
  std::optional<iscsi::ChapCredentials> proof_;
  std::shared_ptr<const Target> target_;
  std::unique_ptr<Session> session_;
  struct Quiesce {
    TaskScope scope;
    engine::Callback<> done;
  };
  std::vector<Quiesce> quiesce_when_silent_;
  std::uint64_t nexus_id_ = 0;
  Phase phase_ = Phase::login;
  std::string reason_;
  engine::TimerId timer_ = engine::TimerId::none;
  bool closing_ = false;  // ends when what is queued is sent
  bool paused_ = false;   // the transport waits for resume()
  bool heard_ = false;    // since the timer last ran
  bool asked_ = false;    // a ping is unanswered

  // What moved since the timer last ran, and for how long too little of it did.
  std::uint64_t sent_before_ = 0;
  Session::Waiting waited_for_;
  std::uint64_t pdus_ = 0;              // that are whole
  std::uint64_t under_way_before_ = 0;  // which PDU was, counted from 1; 0: none
  std::uint64_t received_before_ = 0;
  engine::Duration trickled_{};
  std::uint64_t emptied_before_ = 0;
  engine::Duration stalled_{};
};

}  // namespace lockstep::iscsi_target
