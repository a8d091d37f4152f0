#pragma once
// The connections of one reactor: the server's part that runs there.
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/iser/transport.hpp"
#include "engine/net/tcp.hpp"
#include "engine/runtime/system_random.hpp"
#include "iscsi_target/server/port_table.hpp"
#include "iscsi_target/server/server.hpp"
#include "iscsi_target/session/connection.hpp"

namespace lockstep::iscsi_target {

class Worker;

/// Whether a call over RDMA wants what this node does; without, it may not become a connection.
[[nodiscard]] bool suits(const engine::StreamProtection& ours, const rdma::Call& call);

/// What workers need of the server. Any thread.
class WorkerHub {
 public:
  [[nodiscard]] virtual std::uint64_t generation() const = 0;
  [[nodiscard]] virtual const SessionSettings& session_settings() const = 0;
  [[nodiscard]] virtual const RdmaService& rdma_service() const = 0;
  virtual TargetDirectory& directory() = 0;
  /// Of a connection that begins now.
  [[nodiscard]] virtual engine::StreamProtection protection() const = 0;
  [[nodiscard]] virtual bool holds_logins() const = 0;
  /// A call was dropped before there was a connection of it.
  virtual void dropped(std::uint64_t id) = 0;
  virtual void enter(Worker& worker, TargetConnection& connection, std::uint64_t id) = 0;
  [[nodiscard]] virtual std::optional<engine::Duration> proof_wait(const TargetConnection& connection,
                                                                   engine::Duration waited) = 0;
  virtual void proved(const TargetConnection& connection) = 0;
  virtual void opened(const SessionInfo& info) = 0;
  virtual void tell(SessionEvent event) = 0;
  virtual void gone(Worker& worker, const TargetConnection& connection, std::uint64_t id, const SessionInfo* info) = 0;
  virtual void quiesce_others(Worker& worker, std::uint64_t id, const std::string& target, const TaskScope& scope,
                              engine::Callback<> done) = 0;
  virtual void reset_others(std::uint64_t id, const iscsi::LoginIdentity& who) = 0;

 protected:
  ~WorkerHub() = default;
};

/// Who is on it, as far as that is known; since then.
[[nodiscard]] SessionInfo info_of(const TargetConnection& connection, engine::TimePoint since = {});

/// Everything on the worker's reactor, except where it says otherwise.
class Worker final : public ConnectionHost {
 public:
  /// Times that an initiator's sessions of a reactor wait for others' commands; further resets of it are rejected. Its
  /// sessions may end and come again meanwhile.
  static constexpr std::size_t kMostWaits = 32;

  Worker(WorkerHub& hub, std::size_t index, const ServerReactor& where);
  ~Worker();

  void adopt(engine::TcpSocket socket, std::uint64_t id);
  void adopt(std::unique_ptr<rdma::Call> call, std::uint64_t id);
  [[nodiscard]] TargetConnection* find(std::uint64_t id);
  [[nodiscard]] std::vector<std::uint64_t> ids() const;
  /// Ends those that match, then calls back when the last of them is gone.
  void close(const std::function<bool(std::uint64_t, const TargetConnection&)>& matches, const std::string& why,
             engine::Callback<> done);
  /// Ends those that have lost access; what they had begun is drained later.
  void recheck();
  void request_logout(std::uint16_t seconds);
  /// Why a login that is about to be let in is refused: there is no memory for its session. Empty: there is.
  [[nodiscard]] std::string why_no_room(const TargetConnection& connection) const;
  /// The logins that were held go on.
  void admit_held();
  /// The other sessions of `target`: see Session::quiesce().
  void quiesce(std::uint64_t except, const std::string& target, const TaskScope& scope, engine::Callback<> done);

  [[nodiscard]] std::size_t index() const { return index_; }                     ///< any thread
  [[nodiscard]] engine::Reactor& reactor() const { return *reactor_; }           ///< any thread
  [[nodiscard]] rdma::Completions* completions() const { return completions_; }  ///< any thread

  // ConnectionHost
  void admit(TargetConnection& connection) override;
  [[nodiscard]] bool holds_login(const TargetConnection& connection) const override;
  [[nodiscard]] std::optional<engine::Duration> proof_wait(const TargetConnection& connection,
                                                           engine::Duration waited) override;
  void proved(const TargetConnection& connection) override;
  void opened(TargetConnection& connection) override;
  void closed(TargetConnection& connection) override;
  [[nodiscard]] bool is_fenced(const TargetConnection& connection) const override;
  [[nodiscard]] scsi::DeviceServer* device_server(const Target& target) override;
  [[nodiscard]] bool quiesce_others(TargetConnection& connection, const TaskScope& scope,
                                    engine::Callback<> done) override;
  void reset_target(TargetConnection& connection) override;

 private:
  struct Kept {
    std::unique_ptr<TargetConnection> connection;
    std::unique_ptr<SessionInfo> info;  // once its session was opened
  };
  struct Drain {
    std::vector<std::uint64_t> ids;
    engine::Callback<> done;
  };
  void keep(std::uint64_t id, std::unique_ptr<iscsi::PduTransport> transport, std::unique_ptr<Transfers> transfers);
  /// Of the memory for messages: whose it is that calls from `address` take. Empty: nobody's.
  [[nodiscard]] std::string share_of(const std::string& address) const;
  /// A call found no memory: of those who have not been let in somebody gives way to the next one.
  void make_room_for_strangers(const std::string& host);
  void tell_no_room(SessionInfo caller);
  void destroy(std::uint64_t id);

  WorkerHub& hub_;
  std::size_t index_;
  engine::Reactor* reactor_;
  rdma::Completions* completions_;
  engine::BufferPool* bounce_;
  iser::Figures* figures_;
  engine::SystemRandom random_;
  SessionResources resources_;
  std::optional<iser::MessageMemory> messages_;  // where there is RDMA
  std::map<std::uint64_t, Kept> connections_;
  std::vector<Drain> drains_;
  std::vector<std::uint64_t> held_logins_;
  std::map<std::string, std::size_t> waits_;  // for others' commands, by who waits
};

}  // namespace lockstep::iscsi_target
