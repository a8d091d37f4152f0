#include "mgmt/data_plane/node.hpp"

#include "mgmt/log/log.hpp"

namespace lockstep::data_plane {

using mgmt::log_info;
using mgmt::log_warning;
using mgmt::LogLevel;

using engine::Errc;
using engine::Result;
using engine::Uuid;

namespace {

std::vector<iscsi_target::ServerReactor> server_reactors(const Workers& workers) {
  std::vector<iscsi_target::ServerReactor> all;
  for (const auto& worker : workers) all.push_back({&worker->reactor, &worker->pool});
  return all;
}

Event session_event(const iscsi_target::SessionEvent& event) {
  using Kind = iscsi_target::SessionEvent::Kind;
  const std::string who = event.session.initiator.empty()
                              ? event.session.address
                              : event.session.initiator + " (" + event.session.address + ")";
  Event told;
  told.times = 1 + event.untold;
  switch (event.kind) {
    case Kind::opened:
      told.kind = "session.opened";
      told.message = who + " logged in at " + event.session.portal + ".";
      return told;
    case Kind::closed:
      told.kind = "session.closed";
      told.message = who + " is gone: " + event.reason;
      return told;
    case Kind::refused:
    case Kind::turned_away:
      break;
  }
  told.kind = "session.refused";
  told.message = who + " was refused at " + event.session.portal + ": " + event.reason;
  return told;
}

}  // namespace

Node::Node(Workers& workers, engine::Random& random, engine::BufferPool& link_buffers, Uuid process,
           const std::string& state_folder, EventSink& events, NodeOptions options)
    : workers_(workers),
      random_(random),
      link_buffers_(link_buffers),
      process_(process),
      keys_(state_folder),
      left_records_(workers.front()->reactor, state_folder),
      events_(events),
      server_(server_reactors(workers), registry_),
      fence_trials_(workers.front()->reactor, options.fence_socket, [](const std::string&, const std::string&) {}),
      started_(workers.front()->reactor.now()),
      stores_closed_(started_),
      options_(std::move(options)) {
  server_.on_event(
      [this](const iscsi_target::SessionEvent& event) { home().post([this, event] { take_session(event); }); });
}

Node::~Node() {
  if (file_worker_.joinable()) file_worker_.join();
  if (looker_.joinable()) looker_.join();
}

void Node::take_session(const iscsi_target::SessionEvent& event) {
  const bool stranger = event.kind == iscsi_target::SessionEvent::Kind::refused || event.session.target.empty();
  const std::string host = event.session.address.substr(0, event.session.address.rfind(':'));
  auto now = (stranger ? strangers_ : sessions_).take(host, session_event(event), home().now());
  if (now) tell_session(std::move(*now));
  plan_counted_sessions();
}

void Node::tell_session(Event event) {
  const std::string times = event.times == 1 ? "" : " (" + std::to_string(event.times) + " times)";
  log(event.kind == "session.refused" ? LogLevel::warning : LogLevel::info, event.message + times);
  events_.publish(std::move(event));
}

void Node::plan_counted_sessions() {
  if (std::exchange(counts_sessions_, true)) return;
  home().call_after(RepeatedEvents::kFirstWhile, [this] {
    counts_sessions_ = false;
    for (RepeatedEvents* each : {&strangers_, &sessions_})
      for (Event& counted : each->due(home().now())) tell_session(std::move(counted));
    if (!strangers_.empty() || !sessions_.empty()) plan_counted_sessions();
  });
}

// ---- one thing after the other ----

void Node::queue(std::function<void(engine::Callback<>)> work, engine::Callback<> refused) {
  if (stopping_ || queue_.size() >= kMaxQueued) return refused();
  queue_.push_back(std::move(work));
  next_in_queue();
}

void Node::next_in_queue() {
  if (busy_ || queue_.empty()) return;
  busy_ = true;
  auto work = std::move(queue_.front());
  queue_.pop_front();
  work([this] {
    home().post([this] {
      busy_ = false;
      next_in_queue();
    });
  });
}

// ---- the witness and the fence ----

std::optional<Node::PairWitness> Node::witness_at(const std::string& addresses) {
  if (!pair_ || stopping_ || !pair_->witness().configured() || pair_->witness().addresses() != addresses)
    return std::nullopt;
  return PairWitness{pair_->witness(), state_->pair, pair_->witness().lost()};
}

void Node::look_at_fence(engine::Callback<const FenceWord&> done) { fence_trials_.look(std::move(done)); }

// ---- volumes ----

Result<Volume*> Node::mirrored_volume(const Uuid& id) {
  const auto at = volumes_.find(id);
  if (at == volumes_.end()) {
    return engine::fail(Errc::refused, "Volume " + id.to_string() + " is not attached on this node.");
  }
  if (!at->second->spec.mirrored) {
    return engine::fail(Errc::refused,
                        "Volume " + at->second->spec.name + " is not mirrored: it has one replica only.");
  }
  return at->second.get();
}

void Node::leave(const Uuid& volume, engine::Callback<Result<void>> done) {
  if (auto found = mirrored_volume(volume); !found) return done(std::unexpected(found.error()));
  pair_->node().leave(volume, std::move(done));
}

void Node::force_solo(const Uuid& volume, bool accept_inconsistent, engine::Callback<Result<void>> done) {
  const auto found = mirrored_volume(volume);
  if (!found) return done(std::unexpected(found.error()));
  log_warning("Volume " + (*found)->spec.name + ": an operator forces it to go on alone.");
  pair_->node().force_solo(volume, accept_inconsistent, std::move(done));
}

void Node::give_up(const Uuid& volume, engine::Callback<Result<void>> done) {
  const auto found = mirrored_volume(volume);
  if (!found) return done(std::unexpected(found.error()));
  log_warning("Volume " + (*found)->spec.name + ": an operator gives up this node's changes.");
  pair_->node().give_up(volume, std::move(done));
}

// ---- what the mirror tells ----

void Node::on_fenced() {
  log_warning("This node lost its lease: all initiator sessions are closed.");
  server_.hold_logins(kDecisionPatience);
  server_.close_all_sessions();
  events_.publish({"fenced", std::nullopt, {}, {}, "This node lost its lease: all initiator sessions were closed."});
}

namespace {

/// While it is connected: from its own replica, or by forwarding to this node.
bool partner_serves(const replication::VolumeStatus& status) {
  using replication::MirrorState;
  switch (status.state) {
    case MirrorState::in_sync:
    case MirrorState::syncing_source:
    case MirrorState::syncing_target:
    case MirrorState::left:
    case MirrorState::failed:
      return true;
    case MirrorState::solo:
      return status.partner_follows;
    case MirrorState::starting:
    case MirrorState::suspended:
    case MirrorState::waiting:
    case MirrorState::split_brain:
      break;
  }
  return false;
}

}  // namespace

// The mirror may not be called back from in here.
void Node::on_volume_changed(const Uuid&) {
  if (std::exchange(look_planned_, true)) return;
  home().post([this] {
    look_planned_ = false;
    look_for_changes();
  });
}

/// Nothing else tells of it.
void Node::look_again() {
  if (std::exchange(looks_again_, true)) return;
  home().call_after(kLookAgain, [this] {
    looks_again_ = false;
    look_for_changes();
  });
}

void Node::look_for_changes() {
  if (!pair_) return;
  const bool connected = pair_->node().partner_connected();
  bool undecided = false, partner_awaited = false;
  for (const auto& status : pair_->node().status()) {
    const auto at = volumes_.find(status.volume);
    if (at == volumes_.end() || !at->second->disk) continue;
    Volume& volume = *at->second;
    volume.disk->refresh_access();
    undecided |= status.undecided;
    partner_awaited |= connected && status.state == replication::MirrorState::solo && !status.partner_follows;
    volume.unit->set_partner_access(connected && partner_serves(status) ? engine::AccessState::active_optimized
                                                                        : engine::AccessState::unavailable);
    (void)volume.unit->access_state();
    // Not while a new epoch is recorded here alone: what initiators are told, both nodes carry out.
    if (status.serving && volume.unit->set_capacity(status.epoch.size)) {
      log_info("Volume " + volume.spec.name + ": has " + std::to_string(status.epoch.size) + " bytes now.");
    }
    tell_volume(volume, status);
  }
  if (!undecided) server_.release_logins();
  if (partner_awaited) look_again();
}

namespace {
Event state_change(const VolumeSpec& spec, replication::MirrorState from, const replication::VolumeStatus& status) {
  Event event{"volume.state", status.volume, to_string(from), to_string(status.state), {}};
  event.message = "Volume " + spec.name + " went from " + event.from + " to " + event.to +
                  (status.reason.empty() ? "." : ": ") + status.reason;
  return event;
}
}  // namespace

void Node::tell_state(Volume& volume, const replication::VolumeStatus& status) {
  using replication::MirrorState;
  if (status.state == volume.told_state) return;
  const bool may_pass = status.state == MirrorState::suspended || status.state == MirrorState::waiting;
  if (may_pass && home().now() - volume.state_since < kPassing) return look_again();
  events_.publish(state_change(volume.spec, volume.told_state, status));
  if (status.state == MirrorState::failed) {
    events_.publish({"store.failed",
                     status.volume,
                     {},
                     {},
                     "Volume " + volume.spec.name + ": this node's replica failed. " + status.reason});
  }
  volume.told_state = status.state;
}

void Node::tell_volume(Volume& volume, const replication::VolumeStatus& status) {
  const std::string name = "Volume " + volume.spec.name;
  if (status.state != volume.state) {
    const bool bad = !status.serving || status.state == replication::MirrorState::failed;
    log(bad ? LogLevel::warning : LogLevel::info, state_change(volume.spec, volume.state, status).message);
    volume.state = status.state;
    volume.state_since = home().now();
  }
  tell_state(volume, status);
  if (status.full != volume.full) {
    volume.full = status.full;
    const std::string message =
        name + (volume.full ? ": no space is left for " + volume.spec.data +
                                  " on this node. Writes that need new space are refused on both nodes; all else goes "
                                  "on. Free or add space there."
                            : ": there is space again for " + volume.spec.data + " on this node.");
    log(volume.full ? LogLevel::warning : LogLevel::info, message);
    events_.publish({volume.full ? "store.full" : "store.has_space", status.volume, {}, {}, message});
  }
  // How much there is to do is not known before the partner has told its part; and none is nothing to tell of.
  const bool begins = status.resync.running && status.resync.bytes_total > 0;
  if (volume.resyncing ? !status.resync.running : begins) {
    volume.resyncing = status.resync.running;
    const std::string message =
        name + (volume.resyncing ? ": resync of " + std::to_string(status.resync.bytes_total) + " bytes started."
                                 : ": resync finished.");
    log_info(message);
    events_.publish({volume.resyncing ? "resync.started" : "resync.finished", status.volume, {}, {}, message});
  }
}

// ---- status ----

NodeReport Node::report() {
  NodeReport report;
  report.process = process_.to_string();
  report.now = home().now();
  report.uptime = report.now - started_;
  report.sessions = server_.sessions();
  report.findings = options_.findings;
  if (pair_) report.lease = pair_->node().lease();
  report.arbiter = "none";
  if (state_) {
    report.revision = state_->revision;
    report.side = state_->side;
    report.has_partner = state_->partner.has_value();
    report.arbiter = name_of(state_->arbiter.kind);
  }
  if (pair_) {
    report.partner_connected = pair_->node().partner_connected();
    report.partner_since_ms = pair_->since_ms();
    report.partner_problem = pair_->link_problem();
    report.partner_cipher = pair_->link_cipher();
    if (report.has_partner) report.partner_paths = pair_->paths();
    if (pair_->link_up()) report.partner_address = pair_->link_address();
    report.witness_reachable = pair_->witness().reachable() || pair_->fence().ready();
    if (!pair_->fence().problem().empty())
      report.findings.push_back("The partner could not be powered off, and so I/O stops if it fails: " +
                                pair_->fence().problem());
    if (auto slow = pair_->slow_witness(); !slow.empty()) report.findings.push_back(std::move(slow));
    report.witness_changing = state_ && state_->witness_changing && !pair_->witness().configured();
    for (auto& status : pair_->node().status()) {
      if (leaving_.contains(status.volume)) continue;
      VolumeReport volume;
      volume.id = status.volume;
      volume.mirror = std::move(status);
      report.volumes.push_back(std::move(volume));
    }
  }
  for (const auto& [id, volume] : volumes_) {
    if (volume->spec.mirrored || !volume->disk) continue;
    VolumeReport plain;
    plain.id = id;
    plain.mirrored = false;
    plain.mirror.volume = id;
    plain.mirror.state = replication::MirrorState::solo;
    plain.mirror.serving = true;
    plain.mirror.epoch.members = engine::MemberSet::only(state_->side);
    plain.mirror.epoch.sequencer = state_->side;
    report.volumes.push_back(std::move(plain));
  }
  for (auto& entry : report.volumes) {
    const auto at = volumes_.find(entry.id);
    if (at == volumes_.end()) continue;
    const Volume& volume = *at->second;
    report.findings.insert(report.findings.end(), volume.findings.begin(), volume.findings.end());
    entry.size = volume.spec.mirrored ? entry.mirror.epoch.size : volume.spec.size;
    entry.allocated_bytes = volume.stores.allocated_bytes();
    if (volume.disk) {
      volume.disk->refresh_access();
      entry.access = volume.disk->access_state();
      entry.io = volume.disk->counters();
    }
  }
  return report;
}

// ---- the end ----

void Node::shutdown(engine::Callback<> done) {
  stopping_ = true;
  queue_.clear();
  // The stores of a replica that is being made or attached are closed before their ring is. Where that takes too long
  // the daemon is cut short: what a file system is at work on then, the next attempt takes.
  auto rest = [this, done = std::move(done)]() mutable {
    if (!replica_work_) return done();
    after_replica_work_ = std::move(done);
  };
  auto finish = [this, rest = std::move(rest)]() mutable {
    server_.stop([this, rest = std::move(rest)]() mutable {
      if (!pair_) return rest();
      pair_->stop(std::move(rest));
    });
  };
  // Initiators that move to the partner on their own lose nothing; the others are closed when the pair has been left.
  server_.retire(kRetireGrace, [this, finish = std::move(finish)]() mutable { leave_pair(std::move(finish)); });
}

void Node::leave_pair(engine::Callback<> then) {
  if (!pair_) return then();
  auto left = std::make_shared<engine::Callback<>>(std::move(then));
  const auto once = [left] {
    if (auto run = std::exchange(*left, {})) run();
  };
  // The partner may be stopping, too, or gone: then the epoch stays as it is, and both sort it out when they are back.
  home().call_after(kLeavePatience, [once, left] {
    if (*left) log_warning("Leaving could not be agreed with the partner in time; stopping with the epoch as it is.");
    once();
  });
  pair_->node().shutdown([this, once] {
    closed_ = true;
    once();
  });
}

}  // namespace lockstep::data_plane
