#pragma once
// iSCSI over TCP, and over RDMA (iSER) at the same ports: listeners, connections spread over the reactors one by one,
// and the sessions on them.
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/result.hpp"
#include "engine/iscsi/keys.hpp"
#include "engine/iser/figures.hpp"
#include "engine/iser/shape.hpp"
#include "engine/net/open_stream.hpp"
#include "engine/rdma/verbs.hpp"
#include "engine/runtime/buffer_pool.hpp"
#include "engine/runtime/reactor.hpp"
#include "iscsi_target/server/registry.hpp"
#include "iscsi_target/server/session_limit.hpp"
#include "iscsi_target/session/settings.hpp"

namespace lockstep::iscsi_target {

struct ServerReactor {
  engine::Reactor* reactor = nullptr;
  engine::BufferPool* pool = nullptr;  ///< that reactor's
  /// Where calls over RDMA are served on it, the memory for their messages, and what counts them, on that reactor;
  /// null: there are none. Both pools' arenas are the fabric's.
  rdma::Completions* completions = nullptr;
  engine::BufferPool* messages = nullptr;
  /// For data over RDMA that lies in no arena. Null: `pool` is.
  engine::BufferPool* bounce = nullptr;
  iser::Figures* figures = nullptr;
};

/// How calls over RDMA are served.
struct RdmaService {
  rdma::Fabric* fabric = nullptr;  ///< null: they are not
  rdma::Domain domain = rdma::Domain::initiators;
  iser::Shape shape = iser::kHosts;
  /// An address has a share of the memory for messages (message_memory.hpp). False: all of it, where one peer calls.
  bool shares_memory = true;
};

struct ServerOptions {
  /// Calls come over RDMA, too, at the ports of the TCP listeners.
  RdmaService rdma{};
  SessionSettings session;
  SessionLimit::Bounds sessions{};
  /// Connections that have not finished their login; one more takes the place of the oldest (crowd.hpp).
  std::size_t max_half_open = 512;
  std::size_t max_half_open_per_address = 128;
  /// Discovery sessions, which ask for no rights where no credentials are configured; bounded in the same way. They do
  /// not count as sessions.
  std::size_t max_discovery = 256;
  std::size_t max_discovery_per_address = 64;
};

struct SessionInfo {
  std::uint64_t nexus = 0;
  std::string initiator, target;  ///< target is empty for discovery
  std::string address;            ///< the initiator's
  std::string portal;             ///< ours
  bool over_rdma = false;
  engine::TimePoint since;
};

/// What happens to sessions; called on the session's reactor. Refused logins and discovery sessions are told at
/// most 20 times a second, calls that were turned away (on reactor 0) once a minute, so that strangers can't flood the
/// log; those that find too many sessions once, until one of these has ended.
struct SessionEvent {
  enum class Kind : std::uint8_t {
    opened,
    closed,
    refused,
    turned_away,  ///< a call from an address that may not call; of the session only the addresses are known
  };
  Kind kind{};
  SessionInfo session;
  std::string reason;        ///< of all but opened: a whole sentence
  std::uint64_t untold = 0;  ///< how many such events were passed over before this one
};

class TargetServer {
 public:
  /// The reactors, pools and the registry outlive the server. Reactor 0 accepts.
  TargetServer(std::vector<ServerReactor> reactors, TargetRegistry& registry, ServerOptions options = {});
  /// After stop() has called back, or when no reactor runs any more (then everything is dropped where it stands).
  ~TargetServer();

  /// Before the first listen().
  void on_event(std::function<void(const SessionEvent&)> handler);

  /// "127.0.0.1:3260"; port 0 picks one, which is given back. Any thread but a reactor's, or reactor 0's. That there is
  /// no RDMA at the address is no failure: why_no_rdma() tells.
  [[nodiscard]] engine::Result<std::string> listen(std::string_view address);
  /// A sentence; empty: calls come there over RDMA, or nobody listens there.
  [[nodiscard]] std::string why_no_rdma(std::string_view address) const;
  void stop_listening(std::string_view address);
  /// Calls from other addresses than `hosts` ("10.0.0.2", "[fd00::2]") are closed before a byte is read. None: from
  /// any.
  void accept_only_from(std::vector<std::string> hosts);
  /// With what calls that come from now on are protected; at first with nothing. Who can't prove itself gets no login,
  /// and is told of as one that was refused. Over RDMA a caller says when it calls what it wants; where all must be
  /// protected, connections over RDMA that are not are ended.
  void protect(engine::StreamProtection protection);

  /// Fencing: from the moment this returns no response is begun; every session is reset, its commands are drained.
  /// `done` runs (on reactor 0) when the last command was completed. Any thread. New logins are admitted again
  /// afterwards: what they may do is up to the device server and the access policy.
  void close_all_sessions(engine::Callback<> done = {});
  /// Normal sessions' logins are answered only after release_logins(), or when `patience` is over: an initiator waits
  /// for its login where it might give up over what it is told in a session. Counted from the last call. Any thread.
  void hold_logins(std::chrono::milliseconds patience);
  void release_logins();
  /// Ends the sessions that match, gracefully (asynchronous logout request is skipped, the connection is closed).
  void close_sessions(std::function<bool(const SessionInfo&)> matches, engine::Callback<> done = {});
  /// After a change of who may log in: ends each session whose initiator would not be let in with what it proved at its
  /// login; all others go on undisturbed. `done` runs on reactor 0 when none of the former takes a command any more.
  void recheck_sessions(engine::Callback<> done = {});
  /// Asks every initiator to log out (async message 1); who does not within `grace` is closed.
  void request_logout(std::chrono::seconds grace);
  /// After stop_listening(): asks the initiators of sessions that came by an address at which nobody listens any more
  /// to log out (async message 1); who has not within `grace` is closed, what it had begun is drained. The others go on
  /// undisturbed. Any thread.
  void retire_unlistened(std::chrono::seconds grace);
  /// Stops listening and asks every initiator to log out (async message 1), so that they move to the partner on their
  /// own; calls back on reactor 0 when all have, or when `grace` is over. Any thread, before stop().
  void retire(std::chrono::milliseconds grace, engine::Callback<> done);
  /// Stops listening, closes and drains everything, then calls back on reactor 0. Any thread.
  void stop(engine::Callback<> done);

  [[nodiscard]] std::vector<SessionInfo> sessions() const;  ///< any thread

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace lockstep::iscsi_target
