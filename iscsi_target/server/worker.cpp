#include "iscsi_target/server/worker.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

#include "engine/iscsi/stream_transport.hpp"
#include "iscsi_target/server/countdown.hpp"
#include "iscsi_target/session/iser_transfers.hpp"
#include "iscsi_target/session/stream_transfers.hpp"

namespace lockstep::iscsi_target {

bool suits(const engine::StreamProtection& ours, const rdma::Call& call) {
  if (iser::wants_protection(call.private_data())) return ours.context != nullptr;
  return !ours.context || ours.role == engine::TlsRole::server_or_plain;
}

SessionInfo info_of(const TargetConnection& connection, engine::TimePoint since) {
  const iscsi::LoginIdentity& who = connection.identity();
  return {.nexus = connection.nexus_id(),
          .initiator = who.initiator_name,
          .target = who.target_name,
          .address = connection.peer_address(),
          .portal = connection.local_address(),
          .over_rdma = connection.is_rdma(),
          .since = since};
}

Worker::Worker(WorkerHub& hub, std::size_t index, const ServerReactor& where)
    : hub_(hub),
      index_(index),
      reactor_(where.reactor),
      completions_(where.completions),
      bounce_(where.bounce != nullptr ? where.bounce : where.pool),
      figures_(where.figures),
      resources_{*where.reactor, random_, *where.pool} {
  assert(completions_ == nullptr || figures_ != nullptr);
  if (where.messages != nullptr) messages_.emplace(*where.messages);
  if (!hub.session_settings().brings_buffers) return;
  resources_.data_buffers = std::make_unique<DataBuffers>(*where.reactor, *where.pool);
}

Worker::~Worker() { assert(connections_.empty()); }

void Worker::adopt(engine::TcpSocket socket, std::uint64_t id) {
  auto opened = engine::open_stream(*reactor_, std::move(socket), hub_.protection());
  auto transport = std::make_unique<iscsi::StreamTransport>(std::move(opened.stream), resources_.pdus);
  iscsi::StreamTransport& pdus = *transport;
  keep(id, std::move(transport), std::make_unique<StreamTransfers>());
  opened.start(pdus);
}

void Worker::adopt(std::unique_ptr<rdma::Call> call, std::uint64_t id) {
  const auto ours = hub_.protection();
  if (!suits(ours, *call)) return hub_.dropped(id);
  auto tls = iser::wants_protection(call->private_data()) ? ours.context : nullptr;
  SessionInfo caller;
  caller.address = call->peer_address();
  caller.portal = call->local_address();
  caller.over_rdma = true;
  auto transport = iser::Transport::make(
      std::move(call), {.completions = *completions_,
                        .pool = *bounce_,
                        .messages = *messages_,
                        .share = share_of(caller.address),
                        .pdus = resources_.pdus,
                        .clock = *reactor_,
                        .figures = *figures_,
                        .domain = hub_.rdma_service().domain,
                        .shape = hub_.rdma_service().shape,
                        .tls = std::move(tls),
                        .at_end_of_turn = [this](engine::TurnHook& hook) { reactor_->at_end_of_turn(hook); }});
  if (!transport) {
    make_room_for_strangers(host_of(caller.address));
    hub_.dropped(id);
    return tell_no_room(std::move(caller));
  }
  iser::Transport& data = *transport;
  keep(id, std::move(transport), std::make_unique<IserTransfers>(data));
}

std::string Worker::share_of(const std::string& address) const {
  return hub_.rdma_service().shares_memory ? host_of(address) : std::string{};
}

void Worker::tell_no_room(SessionInfo caller) {
  caller.since = reactor_->now();
  hub_.tell({.kind = SessionEvent::Kind::refused,
             .session = std::move(caller),
             .reason = "Too many calls over RDMA have no session yet; the oldest of them gives way to the next call."});
}

// The oldest from the address that has most, or from the caller's if that would have as many. Its memory is free when
// its queue pair is gone: the next call finds it. Who calls meanwhile ends no other.
void Worker::make_room_for_strangers(const std::string& host) {
  std::map<std::string, std::vector<TargetConnection*>> strangers;
  for (const auto& [id, kept] : connections_) {
    TargetConnection& connection = *kept.connection;
    if (!connection.is_rdma()) continue;
    if (connection.phase() == TargetConnection::Phase::closed) {
      if (kept.info) continue;  // it had a session: what it holds is no stranger's
      return;
    }
    const bool let_in = connection.phase() == TargetConnection::Phase::full_feature && !connection.identity().discovery;
    if (!let_in) strangers[host_of(connection.peer_address())].push_back(&connection);
  }
  if (strangers.empty()) return;
  const auto count = [](const auto& entry) { return entry.second.size(); };
  const auto own = strangers.find(host);
  auto most = std::ranges::max_element(strangers, {}, count);
  if (own != strangers.end() && count(*own) + 1 >= count(*most)) most = own;
  most->second.front()->reset("Too many calls over RDMA had no session; this was the oldest of them.");
}

std::string Worker::why_no_room(const TargetConnection& connection) const {
  if (!connection.is_rdma() || connection.identity().discovery) return {};
  const iser::Shape& shape = hub_.rdma_service().shape;
  switch (messages_->room_for_session(share_of(connection.peer_address()), shape.memory(), shape.first)) {
    case iser::MessageMemory::Room::there:
      break;
    case iser::MessageMemory::Room::taken:
      return "There are as many sessions over RDMA as there is memory for.";
    case iser::MessageMemory::Room::over_share:
      return "The sessions over RDMA from its address have all the memory that one address may have.";
  }
  return {};
}

void Worker::keep(std::uint64_t id, std::unique_ptr<iscsi::PduTransport> transport,
                  std::unique_ptr<Transfers> transfers) {
  auto connection = std::make_unique<TargetConnection>(std::move(transport), std::move(transfers), *this, resources_,
                                                       hub_.directory(), hub_.session_settings());
  connection->id = id;
  connection->generation = hub_.generation();
  connections_[id].connection = std::move(connection);
}

TargetConnection* Worker::find(std::uint64_t id) {
  const auto at = connections_.find(id);
  return at == connections_.end() ? nullptr : at->second.connection.get();
}

std::vector<std::uint64_t> Worker::ids() const {
  std::vector<std::uint64_t> out;
  out.reserve(connections_.size());
  for (const auto& [id, kept] : connections_) out.push_back(id);
  return out;
}

void Worker::close(const std::function<bool(std::uint64_t, const TargetConnection&)>& matches, const std::string& why,
                   engine::Callback<> done) {
  Drain drain{.ids = {}, .done = std::move(done)};
  for (const auto& [id, kept] : connections_) {
    if (matches(id, *kept.connection)) drain.ids.push_back(id);
  }
  const auto ids = drain.ids;
  if (ids.empty()) return drain.done();
  drains_.push_back(std::move(drain));
  for (const std::uint64_t id : ids) {
    if (TargetConnection* connection = find(id)) connection->reset(why);
  }
}

void Worker::recheck() {
  for (const std::uint64_t id : ids()) {
    TargetConnection* const connection = find(id);
    if (connection && connection->has_lost_access()) connection->reset("The initiator's access was changed.");
  }
}

void Worker::request_logout(std::uint16_t seconds) {
  for (const auto& [id, kept] : connections_) kept.connection->request_logout(seconds);
}

void Worker::quiesce(std::uint64_t except, const std::string& target, const TaskScope& scope, engine::Callback<> done) {
  std::vector<TargetConnection*> others;
  for (const auto& [id, kept] : connections_) {
    const auto& theirs = kept.connection->target();
    if (id != except && theirs && theirs->name == target) others.push_back(kept.connection.get());
  }
  if (others.empty()) return done();
  auto countdown = std::make_shared<Countdown>(others.size(), std::move(done));
  for (TargetConnection* other : others) {
    other->quiesce(scope, [countdown] { countdown->one(); });
  }
}

void Worker::admit(TargetConnection& connection) {
  if (hub_.holds_logins() && !connection.identity().discovery) return held_logins_.push_back(connection.id);
  hub_.enter(*this, connection, connection.id);
}

bool Worker::holds_login(const TargetConnection& connection) const {
  return std::ranges::find(held_logins_, connection.id) != held_logins_.end();
}

void Worker::admit_held() {
  for (const std::uint64_t id : std::exchange(held_logins_, {})) {
    TargetConnection* const connection = find(id);
    if (connection && connection->phase() == TargetConnection::Phase::admitting) hub_.enter(*this, *connection, id);
  }
}

std::optional<engine::Duration> Worker::proof_wait(const TargetConnection& connection, engine::Duration waited) {
  return hub_.proof_wait(connection, waited);
}

void Worker::proved(const TargetConnection& connection) { hub_.proved(connection); }

void Worker::opened(TargetConnection& connection) {
  Kept& kept = connections_.at(connection.id);
  kept.info = std::make_unique<SessionInfo>(info_of(connection, reactor_->now()));
  hub_.opened(*kept.info);
}

void Worker::closed(TargetConnection& connection) {
  reactor_->post([this, id = connection.id] { destroy(id); });
}

void Worker::destroy(std::uint64_t id) {
  auto node = connections_.extract(id);
  assert(!node.empty());
  std::erase(held_logins_, id);
  Kept& kept = node.mapped();
  // The session's memory first, so that the nexus is closed before anybody takes its place.
  kept.connection->destroy_session();
  hub_.gone(*this, *kept.connection, id, kept.info.get());
  for (std::size_t i = 0; i < drains_.size();) {
    std::erase(drains_[i].ids, id);
    if (!drains_[i].ids.empty()) {
      ++i;
      continue;
    }
    auto done = std::move(drains_[i].done);
    drains_.erase(drains_.begin() + static_cast<std::ptrdiff_t>(i));
    done();
    i = 0;
  }
}

bool Worker::is_fenced(const TargetConnection& connection) const { return connection.generation != hub_.generation(); }

scsi::DeviceServer* Worker::device_server(const Target& target) {
  return index_ < target.device_servers.size() ? target.device_servers[index_] : nullptr;
}

bool Worker::quiesce_others(TargetConnection& connection, const TaskScope& scope, engine::Callback<> done) {
  const std::string& who = connection.identity().initiator_name;
  std::size_t& waits = waits_[who];
  if (waits >= kMostWaits) return false;
  ++waits;
  hub_.quiesce_others(*this, connection.id, connection.target()->name, scope,
                      [this, name = std::string(who), done = std::move(done)]() mutable {
                        if (--waits_.at(name) == 0) waits_.erase(name);
                        done();
                      });
  return true;
}

void Worker::reset_target(TargetConnection& connection) { hub_.reset_others(connection.id, connection.identity()); }

}  // namespace lockstep::iscsi_target
