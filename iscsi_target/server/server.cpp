#include "iscsi_target/server/server.hpp"

#include <algorithm>
#include <atomic>
#include <cassert>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "engine/net/tcp.hpp"
#include "iscsi_target/server/countdown.hpp"
#include "iscsi_target/server/crowd.hpp"
#include "iscsi_target/server/event_limit.hpp"
#include "iscsi_target/server/login_guard.hpp"
#include "iscsi_target/server/port_table.hpp"
#include "iscsi_target/server/session_limit.hpp"
#include "iscsi_target/server/worker.hpp"

namespace lockstep::iscsi_target {
namespace {

std::string port_of(const std::string& address) { return address.substr(address.rfind(':') + 1); }

bool is_wildcard(const std::string& address) {
  const std::string host = host_of(address);
  return host == "0.0.0.0" || host == "[::]";
}

}  // namespace

struct TargetServer::Impl final : WorkerHub, std::enable_shared_from_this<Impl> {
  Impl(std::vector<ServerReactor> reactors, TargetRegistry& targets, ServerOptions settings)
      : registry(targets),
        options(std::move(settings)),
        half_open(options.max_half_open, options.max_half_open_per_address),
        discoveries(options.max_discovery, options.max_discovery_per_address),
        limit(options.sessions) {
    assert(!reactors.empty());
    for (std::size_t i = 0; i < reactors.size(); ++i)
      workers.push_back(std::make_unique<Worker>(*this, i, reactors[i]));
  }

  [[nodiscard]] engine::Reactor& front() const { return workers.front()->reactor(); }

  template <class Work>
  void on_each_worker(Work work) {
    for (const auto& worker : workers) {
      worker->reactor().post([self = shared_from_this(), worker = worker.get(), work]() mutable { work(*worker); });
    }
  }

  // ---- Coming in ----

  void accepted(engine::TcpSocket socket) {
    const std::string peer = socket.peer_address();
    come_in(peer, std::move(socket));
  }

  void called(std::unique_ptr<rdma::Call> call) {
    const std::string peer = call->peer_address();
    if (!suits(protection(), *call) && !other_owner(peer)) return refuse_unsuited(*call);
    come_in(peer, std::move(call));
  }

  template <class Caller>
  void come_in(const std::string& peer, Caller caller) {
    if (auto owner = other_owner(peer)) return turn_away(peer, *owner);
    Worker& worker = *workers[next_worker++ % workers.size()];
    std::uint64_t id = 0;
    std::optional<ConnectionRef> gives_way;
    {
      const std::lock_guard lock(mutex);
      if (stopped) return;
      id = next_id++;
      gives_way = half_open.enter({worker.index(), id}, host_of(peer));
    }
    worker.reactor().post([self = shared_from_this(), &worker, id, caller = std::move(caller)]() mutable {
      worker.adopt(std::move(caller), id);
    });
    if (gives_way) give_up_login(*gives_way);
  }

  void dropped(std::uint64_t id) override {
    const std::lock_guard lock(mutex);
    half_open.leave(id);
  }

  engine::Result<std::unique_ptr<rdma::Listener>> listen_for_rdma(const std::string& address) {
    rdma::Completions* const home = workers.front()->completions();
    if (options.rdma.fabric == nullptr || home == nullptr) {
      return engine::fail(engine::Errc::not_ready, "There is no RDMA on this node.");
    }
    return options.rdma.fabric->listen(*home, address, [weak = weak_from_this()](std::unique_ptr<rdma::Call> call) {
      if (const auto impl = weak.lock()) impl->called(std::move(call));
    });
  }

  /// Whether somebody listens at this end of a connection.
  [[nodiscard]] bool is_listened(const std::string& local) const {
    const std::lock_guard lock(mutex);
    return std::ranges::any_of(listeners, [&](const auto& listener) {
      return listener.first == local || (is_wildcard(listener.first) && port_of(listener.first) == port_of(local));
    });
  }

  /// Who alone may call, if that isn't `peer`.
  [[nodiscard]] std::optional<std::string> other_owner(const std::string& peer) const {
    const std::lock_guard lock(mutex);
    if (only_from.empty() || std::ranges::find(only_from, host_of(peer)) != only_from.end()) return std::nullopt;
    std::string owners;
    for (const auto& one : only_from) owners += (owners.empty() ? "" : " or ") + one;
    return owners;
  }

  /// Of a call that never became a connection.
  void tell_of_call(SessionEvent::Kind kind, const std::string& peer, std::string reason) {
    SessionEvent event{.kind = kind, .session = {}, .reason = std::move(reason)};
    event.session.address = peer;
    event.session.since = front().now();
    tell(std::move(event));
  }

  /// Of one that may call: it, or this node, is about to be told of another protection.
  void refuse_unsuited(const rdma::Call& call) {
    tell_of_call(SessionEvent::Kind::refused, call.peer_address(),
                 iser::wants_protection(call.private_data()) ? "It wants to be encrypted, which calls here are not."
                                                             : "Calls over RDMA have to be encrypted here.");
  }

  void turn_away(const std::string& peer, const std::string& owner) {
    tell_of_call(SessionEvent::Kind::turned_away, peer, "Only " + owner + " may call here.");
  }

  // Unless it has been finished meanwhile.
  void give_up_login(const ConnectionRef& who) {
    Worker& worker = *workers[who.worker];
    worker.reactor().post([self = shared_from_this(), &worker, id = who.id] {
      TargetConnection* const connection = worker.find(id);
      if (connection == nullptr || connection->phase() == TargetConnection::Phase::full_feature) return;
      connection->reset("Too many logins were unfinished; this was the oldest of them.");
    });
  }

  void enter(Worker& worker, TargetConnection& connection, std::uint64_t id) override {
    if (connection.identity().discovery) return enter_discovery(worker, connection, id);
    PortTable::Entry entry;
    SessionLimit::Verdict verdict;
    {
      const std::lock_guard lock(mutex);
      const auto key = PortTable::key_of(connection.identity());
      verdict =
          limit.enter(id, connection.identity().initiator_name, host_of(connection.peer_address()), ports.has(key));
      if (verdict.status == iscsi::LoginStatus::success) {
        entry = ports.enter(key, {worker.index(), id});
      } else if (!verdict.is_news) {
        old_news.insert(id);
      }
    }
    if (entry.admitted) return admit(worker, id);
    if (!entry.in_the_way) return connection.refused(verdict.status, std::move(verdict.reason));
    reset_one(*entry.in_the_way, "The initiator logged in anew.");
  }

  // Side by side with any others of the same initiator.
  void enter_discovery(Worker& worker, const TargetConnection& connection, std::uint64_t id) {
    std::optional<ConnectionRef> gives_way;
    {
      const std::lock_guard lock(mutex);
      gives_way = discoveries.enter({worker.index(), id}, host_of(connection.peer_address()));
    }
    if (gives_way) reset_one(*gives_way, "Too many discovery sessions were open; this was the oldest of them.");
    admit(worker, id);
  }

  void reset_one(const ConnectionRef& who, const char* why) {
    Worker& worker = *workers[who.worker];
    worker.reactor().post([self = shared_from_this(), &worker, id = who.id, why] {
      if (TargetConnection* const connection = worker.find(id)) connection->reset(why);
    });
  }

  // On the worker's reactor.
  void admit(Worker& worker, std::uint64_t id) {
    TargetConnection* const connection = worker.find(id);
    if (connection == nullptr || connection->phase() != TargetConnection::Phase::admitting) return;
    if (auto why = worker.why_no_room(*connection); !why.empty())
      return connection->refused(iscsi::LoginStatus::out_of_resources, std::move(why));
    std::uint16_t tsih = 0;
    {
      const std::lock_guard lock(mutex);
      half_open.leave(id);
      if (++last_tsih == 0) ++last_tsih;
      tsih = last_tsih;
    }
    connection->admitted(tsih, next_nexus());
  }

  static std::uint64_t next_nexus() {
    static std::atomic<std::uint64_t> last{0};  // unique in the process, over all servers
    return ++last;
  }

  std::optional<engine::Duration> proof_wait(const TargetConnection& connection, engine::Duration waited) override {
    const std::lock_guard lock(mutex);
    return guard.ask(host_of(connection.peer_address()), connection.identity().initiator_name, waited, front().now());
  }

  void proved(const TargetConnection& connection) override {
    const std::lock_guard lock(mutex);
    guard.proved(host_of(connection.peer_address()), connection.identity().initiator_name, front().now());
  }

  void opened(const SessionInfo& info) override {
    {
      const std::lock_guard lock(mutex);
      sessions.emplace(info.nexus, info);
    }
    tell({.kind = SessionEvent::Kind::opened, .session = info, .reason = {}});
  }

  // ---- Going out ----

  void gone(Worker& worker, const TargetConnection& connection, std::uint64_t id, const SessionInfo* info) override {
    PortTable::Succession after;
    engine::Callback<> retired;
    bool is_told = true;
    {
      const std::lock_guard lock(mutex);
      half_open.leave(id);
      discoveries.leave(id);
      limit.leave(id);
      is_told = old_news.erase(id) == 0;
      if (info != nullptr) sessions.erase(info->nexus);
      if (sessions.empty()) retired = std::exchange(when_retired, nullptr);
      if (!connection.identity().discovery) {
        after = ports.leave(PortTable::key_of(connection.identity()), {worker.index(), id});
      }
    }
    if (info != nullptr) {
      tell({.kind = SessionEvent::Kind::closed, .session = *info, .reason = connection.reason()});
    } else if (is_told) {
      SessionInfo never_opened = info_of(connection, worker.reactor().now());
      never_opened.nexus = 0;
      tell({.kind = SessionEvent::Kind::refused, .session = std::move(never_opened), .reason = connection.reason()});
    }
    if (retired) front().post(std::move(retired));
    for (const ConnectionRef& late : after.superseded) reset_one(late, "The initiator logged in anew.");
    if (after.next) {
      Worker& theirs = *workers[after.next->worker];
      theirs.reactor().post(
          [self = shared_from_this(), &theirs, id_next = after.next->id] { self->admit(theirs, id_next); });
    }
  }

  void tell(SessionEvent event) override {
    if (!handler) return;
    if (event.kind == SessionEvent::Kind::refused || event.session.target.empty()) {
      const std::lock_guard lock(mutex);
      auto& most = event.kind == SessionEvent::Kind::turned_away ? turned_away : strangers;
      const auto untold = most.pass(front().now());
      if (!untold) return;
      event.untold = *untold;
    }
    handler(event);
  }

  void close(std::function<bool(std::uint64_t, const TargetConnection&)> matches, std::string why,
             engine::Callback<> done) {
    auto countdown =
        std::make_shared<Countdown>(workers.size(), [self = shared_from_this(), done = std::move(done)]() mutable {
          if (done) self->front().post(std::move(done));
        });
    on_each_worker([matches = std::move(matches), why = std::move(why), countdown](Worker& worker) {
      worker.close(matches, why, [countdown] { countdown->one(); });
    });
  }

  // ---- Between sessions ----

  void quiesce_others(Worker& asking, std::uint64_t id, const std::string& target, const TaskScope& scope,
                      engine::Callback<> done) override {
    auto countdown = std::make_shared<Countdown>(
        workers.size(), [self = shared_from_this(), &asking, done = std::move(done)]() mutable {
          asking.reactor().post([server = std::weak_ptr(self), done = std::move(done)]() mutable {
            if (const auto still_there = server.lock()) done();
          });
        });
    on_each_worker([id, target, scope, countdown](Worker& worker) {
      worker.quiesce(id, target, scope, [countdown] { countdown->one(); });
    });
  }

  void reset_others(std::uint64_t id, const iscsi::LoginIdentity& who) override {
    close(
        [id, initiator = who.initiator_name, target = who.target_name](std::uint64_t other, const TargetConnection& c) {
          const iscsi::LoginIdentity& theirs = c.identity();
          return other != id && theirs.initiator_name == initiator && theirs.target_name == target;
        },
        "The initiator reset the target by another session.", {});
  }

  [[nodiscard]] std::uint64_t generation() const override { return generation_now.load(std::memory_order_acquire); }
  [[nodiscard]] bool holds_logins() const override { return holding.load(std::memory_order_acquire); }
  void release_logins() {
    if (holding.exchange(false, std::memory_order_acq_rel)) on_each_worker([](Worker& w) { w.admit_held(); });
  }
  [[nodiscard]] const SessionSettings& session_settings() const override { return options.session; }
  [[nodiscard]] const RdmaService& rdma_service() const override { return options.rdma; }
  TargetDirectory& directory() override { return registry; }
  [[nodiscard]] engine::StreamProtection protection() const override {
    const std::lock_guard lock(mutex);
    return protects;
  }

  TargetRegistry& registry;
  const ServerOptions options;
  std::vector<std::unique_ptr<Worker>> workers;
  std::function<void(const SessionEvent&)> handler;
  std::atomic<std::uint64_t> generation_now{0};
  std::atomic<std::size_t> next_worker{0};
  std::atomic<bool> holding{false};
  std::atomic<std::uint64_t> last_hold{0};

  mutable std::mutex mutex;  // guards what follows
  struct Portal {
    std::unique_ptr<engine::TcpListener> tcp;
    std::unique_ptr<rdma::Listener> rdma;
    std::string why_no_rdma;
  };
  std::map<std::string, Portal> listeners;
  Crowd half_open, discoveries;
  LoginGuard guard;
  std::map<std::uint64_t, SessionInfo> sessions;  // by nexus
  std::vector<std::string> only_from;
  engine::StreamProtection protects;
  EventLimit strangers, turned_away{1, std::chrono::minutes(1)};
  SessionLimit limit;                // those of them that are no discovery
  std::set<std::uint64_t> old_news;  // connections whose refusal is no news
  engine::Callback<> when_retired;
  PortTable ports;
  std::uint64_t next_id = 1;
  std::uint16_t last_tsih = 0;
  bool stopped = false;
};

TargetServer::TargetServer(std::vector<ServerReactor> reactors, TargetRegistry& registry, ServerOptions options)
    : impl_(std::make_shared<Impl>(std::move(reactors), registry, std::move(options))) {}

TargetServer::~TargetServer() = default;

void TargetServer::on_event(std::function<void(const SessionEvent&)> handler) { impl_->handler = std::move(handler); }

engine::Result<std::string> TargetServer::listen(std::string_view address) {
  auto listener =
      engine::TcpListener::open(impl_->front(), address, [weak = std::weak_ptr<Impl>(impl_)](engine::TcpSocket socket) {
        if (const auto impl = weak.lock()) impl->accepted(std::move(socket));
      });
  if (!listener) return std::unexpected(listener.error());
  std::string actual = (*listener)->address();
  auto rdma = impl_->listen_for_rdma(actual);
  const std::lock_guard lock(impl_->mutex);
  Impl::Portal& portal = impl_->listeners[actual];
  portal.tcp = *std::move(listener);
  portal.why_no_rdma = rdma ? std::string{} : rdma.error().message;
  portal.rdma = rdma ? *std::move(rdma) : nullptr;
  return actual;
}

std::string TargetServer::why_no_rdma(std::string_view address) const {
  const std::lock_guard lock(impl_->mutex);
  const auto at = impl_->listeners.find(std::string(address));
  return at == impl_->listeners.end() ? std::string{} : at->second.why_no_rdma;
}

void TargetServer::stop_listening(std::string_view address) {
  const std::lock_guard lock(impl_->mutex);
  impl_->listeners.erase(std::string(address));
}

void TargetServer::accept_only_from(std::vector<std::string> hosts) {
  const std::lock_guard lock(impl_->mutex);
  impl_->only_from = std::move(hosts);
}

void TargetServer::protect(engine::StreamProtection protection) {
  const bool all = protection.context && protection.role == engine::TlsRole::server;
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->protects = std::move(protection);
  }
  if (!all) return;
  impl_->close([](std::uint64_t, const TargetConnection& c) { return c.is_rdma() && !c.is_protected_rdma(); },
               "Connections over RDMA have to be encrypted here from now on.", {});
}

void TargetServer::close_all_sessions(engine::Callback<> done) {
  const std::uint64_t now = impl_->generation_now.fetch_add(1, std::memory_order_acq_rel) + 1;
  impl_->close([now](std::uint64_t, const TargetConnection& c) { return c.generation < now; },
               "The node stopped serving.", std::move(done));
}

void TargetServer::hold_logins(std::chrono::milliseconds patience) {
  const std::uint64_t hold = impl_->last_hold.fetch_add(1) + 1;
  impl_->holding.store(true, std::memory_order_release);
  impl_->front().post([impl = impl_, hold, patience] {
    impl->front().call_after(patience, [impl, hold] {
      if (impl->last_hold.load() == hold) impl->release_logins();
    });
  });
}

void TargetServer::release_logins() { impl_->release_logins(); }

void TargetServer::close_sessions(std::function<bool(const SessionInfo&)> matches, engine::Callback<> done) {
  impl_->close([matches = std::move(matches)](std::uint64_t, const TargetConnection& c) { return matches(info_of(c)); },
               "The session was closed by the node.", std::move(done));
}

void TargetServer::recheck_sessions(engine::Callback<> done) {
  auto countdown = std::make_shared<Countdown>(impl_->workers.size(), [impl = impl_, done = std::move(done)]() mutable {
    if (done) impl->front().post(std::move(done));
  });
  impl_->on_each_worker([countdown](Worker& worker) {
    worker.recheck();
    countdown->one();
  });
}

void TargetServer::request_logout(std::chrono::seconds grace) {
  const auto seconds = static_cast<std::uint16_t>(std::clamp<std::int64_t>(grace.count(), 0, 65535));
  impl_->on_each_worker([seconds, impl = impl_, grace](Worker& worker) {
    worker.request_logout(seconds);
    std::vector<std::uint64_t> asked = worker.ids();
    worker.reactor().call_after(grace, [impl, &worker, asked = std::move(asked)] {
      worker.close([&](std::uint64_t id,
                       const TargetConnection&) { return std::find(asked.begin(), asked.end(), id) != asked.end(); },
                   "The initiator did not log out when asked to.", [] {});
    });
  });
}

void TargetServer::retire_unlistened(std::chrono::seconds grace) {
  const auto seconds = static_cast<std::uint16_t>(std::clamp<std::int64_t>(grace.count(), 0, 65535));
  impl_->on_each_worker([seconds, impl = impl_, grace](Worker& worker) {
    std::vector<std::uint64_t> asked;
    for (const std::uint64_t id : worker.ids()) {
      TargetConnection* const connection = worker.find(id);
      if (impl->is_listened(connection->local_address())) continue;
      connection->request_logout(seconds);
      asked.push_back(id);
    }
    if (asked.empty()) return;
    worker.reactor().call_after(grace, [impl, &worker, asked = std::move(asked)] {
      worker.close(
          [&](std::uint64_t id, const TargetConnection&) { return std::ranges::find(asked, id) != asked.end(); },
          "The portal that the initiator came by is closed.", [] {});
    });
  });
}

void TargetServer::retire(std::chrono::milliseconds grace, engine::Callback<> done) {
  engine::Callback<> over;
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->listeners.clear();
    (impl_->sessions.empty() ? over : impl_->when_retired) = std::move(done);
  }
  if (over) return impl_->front().post(std::move(over));
  const auto seconds = static_cast<std::uint16_t>(std::clamp<std::int64_t>((grace.count() + 999) / 1000, 0, 65535));
  impl_->on_each_worker([seconds](Worker& worker) { worker.request_logout(seconds); });
  impl_->front().post([impl = impl_, grace] {
    impl->front().call_after(grace, [impl] {
      const auto late = [&] {
        const std::lock_guard lock(impl->mutex);
        return std::exchange(impl->when_retired, nullptr);
      };
      if (auto retired = late()) retired();
    });
  });
}

void TargetServer::stop(engine::Callback<> done) {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->stopped = true;
    impl_->listeners.clear();
  }
  // Twice: a socket that was accepted before may still be on its way to a worker during the first round.
  close_all_sessions([this_impl = impl_, done = std::move(done)]() mutable {
    this_impl->close([](std::uint64_t, const TargetConnection&) { return true; }, "The node stops.", std::move(done));
  });
}

std::vector<SessionInfo> TargetServer::sessions() const {
  const std::lock_guard lock(impl_->mutex);
  std::vector<SessionInfo> out;
  for (const auto& [nexus, info] : impl_->sessions) out.push_back(info);
  return out;
}

}  // namespace lockstep::iscsi_target
