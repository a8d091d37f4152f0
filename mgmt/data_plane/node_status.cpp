// What the mirrors tell of their volumes, to initiators, to people and to management.
#include <ranges>

#include "mgmt/data_plane/node.hpp"
#include "mgmt/log/log.hpp"

namespace lockstep::data_plane {

using mgmt::log;
using mgmt::log_info;
using mgmt::log_warning;
using mgmt::LogLevel;

using engine::Uuid;

/// What a session had brought before it was closed is on its way to its volume's reactor ahead of what is posted from
/// its own reactor afterwards.
void Node::close_sessions(engine::Callback<> closed) {
  log_warning("This node lost its lease: all initiator sessions are closed.");
  ++closings_;
  server_.hold_logins(kDecisionPatience);
  server_.close_all_sessions();
  events_.publish({"fenced", std::nullopt, {}, {}, "This node lost its lease: all initiator sessions were closed."});
  on_every_worker(
      workers_, [](Worker&, engine::Callback<> passed) { passed(); },
      [this, closed = std::move(closed)]() mutable {
        closed();
        look_for_changes();  // logins were held, and may be let in already
      });
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

/// The mirror may not be called back from in here.
void Node::on_volume_changed() {
  if (look_planned_.exchange(true)) return;
  home().post([this] { look_for_changes(); });
}

/// Nothing else tells of it.
void Node::look_again() {
  if (std::exchange(looks_again_, true)) return;
  home().call_after(kLookAgain, [this] {
    looks_again_ = false;
    look_for_changes();
  });
}

/// What a volume's disk lets initiators do is read where it lives, with the rest.
void Node::look_at_shards(engine::Callback<ShardReports> done) {
  auto reports = std::make_shared<ShardReports>();
  std::vector<std::pair<HopDisk*, std::size_t>> disks;
  for (const auto& [id, volume] : volumes_) {
    if (volume->disk) disks.emplace_back(volume->disk.get(), volume->home);
  }
  pair_->gather(
      [disks = std::move(disks), this](PairShard& shard) {
        for (const auto& [disk, home] : disks) {
          if (workers_[home].get() == &shard.worker()) disk->refresh_access();
        }
        return shard.report();
      },
      std::move(done));
}

void Node::look_for_changes(engine::Callback<> done) {
  look_planned_ = false;
  if (!pair_) return;
  const std::uint64_t closings = closings_;
  look_at_shards([this, closings, done = std::move(done)](const ShardReports& shards) mutable {
    const bool undecided = take_look(shards);
    // A shard that was fenced since has not said so yet.
    if (!undecided && closings == closings_ && !pair_->closes_sessions()) server_.release_logins();
    if (done) done();
  });
}

/// True where it is not decided yet who serves some volume.
bool Node::take_look(const ShardReports& shards) {
  bool undecided = false, partner_awaited = false;
  for (const ShardReport& shard : shards) {
    for (const auto& status : shard.volumes) {
      const auto at = volumes_.find(status.volume);
      if (at == volumes_.end() || !at->second->disk) continue;
      undecided |= status.undecided;
      partner_awaited |= shard.connected && status.state == replication::MirrorState::solo && !status.partner_follows;
      take_status(*at->second, status, shard.connected);
    }
  }
  if (partner_awaited) look_again();
  return undecided;
}

void Node::take_status(Volume& volume, const replication::VolumeStatus& status, bool connected) {
  // Linux takes what any path says of any group for that group's state, and fails what goes to one that is unavailable:
  // only who serves, and knows that the partner does not, may say so. A node in sync whose link breaks does not know
  // who will serve. Of a partner that is dead its paths tell.
  const bool is_only_member = !status.epoch.members.is_both();
  const bool alone = status.serving && is_only_member && !status.undecided && !(connected && partner_serves(status));
  volume.unit->set_partner_access(alone ? engine::AccessState::unavailable : engine::AccessState::active_optimized);
  (void)volume.unit->access_state();
  // Not while a new epoch is recorded here alone: what initiators are told, both nodes carry out.
  if (status.serving && volume.unit->set_capacity(status.epoch.size)) {
    log_info("Volume " + volume.spec.name + ": has " + std::to_string(status.epoch.size) + " bytes now.");
  }
  tell_volume(volume, status);
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
  if (status.refuses_writes != volume.refuses_writes) {
    volume.refuses_writes = status.refuses_writes;
    if (volume.refuses_writes) {
      const std::string message = name + ": this node's copy, which is in use alone, takes no writes. " + status.reason;
      log(LogLevel::warning, message);
      events_.publish({"store.failed", status.volume, {}, {}, message});
    }
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

void Node::report(engine::Callback<NodeReport> done) {
  if (!pair_) return add_rdma(report_of({}), std::move(done));
  look_at_shards([this, done = std::move(done)](const ShardReports& shards) mutable {
    add_rdma(report_of(shards), std::move(done));
  });
}

/// What hosts have moved over RDMA is counted on each reactor.
void Node::add_rdma(NodeReport report, engine::Callback<NodeReport> done) {
  report.rdma_findings = fabric_.findings();
  report.rdma_counters = fabric_.counters();
  report.rdma_looks = fabric_.looks();
  const std::string why_not = report.partner_connected ? report.why_not_rdma : "";
  if (auto found = rdma::link_without_rdma(fabric_.asked(), why_not)) report.rdma_findings.push_back(std::move(*found));
  if (options_.rdma == nullptr) return done(std::move(report));
  report.rdma_registrations = options_.rdma->registrations();
  auto each = std::make_shared<std::vector<iser::Figures>>(workers_.size());
  const auto look = [this, each](Worker& worker, engine::Callback<> looked) {
    const auto at = std::ranges::find(workers_, &worker, &std::unique_ptr<Worker>::get);
    (*each)[static_cast<std::size_t>(at - workers_.begin())] = worker.rdma_hosts;
    looked();
  };
  on_every_worker(workers_, look, [this, each, report = std::move(report), done = std::move(done)]() mutable {
    iser::Figures& all = report.rdma_hosts.emplace();
    for (const auto& figures : *each) all += figures;
    fabric_.count(all, report.rdma_link);
    done(std::move(report));
  });
}

NodeReport Node::report_of(const ShardReports& shards) {
  NodeReport report;
  report.process = process_.to_string();
  report.now = home().now();
  report.uptime = report.now - started_;
  report.sessions = server_.sessions();
  report.findings = options_.findings;
  report.arbiter = "none";
  if (state_) {
    report.revision = state_->revision;
    report.side = state_->side;
    report.has_partner = state_->partner.has_value();
    report.arbiter = name_of(state_->arbiter.kind);
  }
  if (pair_) report_arbiter(report);
  report_shards(report, shards);
  report_unmirrored(report);
  for (auto& entry : report.volumes) report_volume(report, entry);
  return report;
}

void Node::report_arbiter(NodeReport& report) {
  report.witness_reachable = pair_->witness().reachable() || pair_->fence().ready();
  if (auto problem = pair_->fence().finding(); !problem.empty()) report.findings.push_back(std::move(problem));
  if (auto slow = pair_->slow_witness(); !slow.empty()) report.findings.push_back(std::move(slow));
  if (auto open = pair_->open_witness(); !open.empty()) report.findings.push_back(std::move(open));
  report.witness_changing = state_ && state_->witness_changing && !pair_->witness().configured();
}

namespace {

/// The first shard's path that a shard's one goes beside: to the same address, with the shard's number less of port.
PathReport* path_beside(std::vector<PathReport>& firsts, const PathReport& path, unsigned shard) {
  const auto to = SocketAddress::parse(path.way.address);
  if (!to || to->port < shard) return nullptr;
  const std::string first = SocketAddress{to->host, static_cast<std::uint16_t>(to->port - shard)}.to_string();
  const auto found = std::ranges::find_if(firsts, [&](const PathReport& p) { return p.way.address == first; });
  return found == firsts.end() ? nullptr : &*found;
}

/// What goes over a path for every shard is told as one.
void add_figures(PathReport& all, const PathReport& one) {
  all.losses += one.losses;
  if (all.rdma && one.rdma) all.rdma->losses += one.rdma->losses;
  if (!all.figures || !one.figures) return;
  all.figures->bytes_out += one.figures->bytes_out;
  all.figures->bytes_in += one.figures->bytes_in;
  all.figures->segments_out += one.figures->segments_out;
  all.figures->segments_sent_again += one.figures->segments_sent_again;
}

ShardLink link_of(const ShardReport& shard, std::vector<PathReport>& firsts) {
  ShardLink link{shard.number, shard.connected, shard.problem, {}, shard.carried};
  if (shard.number == 0) return link;
  for (const PathReport& path : shard.paths) {
    PathReport* const first = path_beside(firsts, path, shard.number);
    if (first == nullptr) continue;
    const bool down = path.state == PathReport::State::down && first->state != PathReport::State::down;
    if (down && shard.connected) link.paths_down.push_back(first->way.address);
    add_figures(*first, path);
  }
  return link;
}

}  // namespace

/// The link is the first shard's; it is down as long as that of any shard is that has volumes.
void Node::report_shards(NodeReport& report, const ShardReports& shards) {
  if (shards.empty()) return;
  const ShardReport* shown = &shards.front();
  report.lease = shown->lease;
  for (const ShardReport& shard : std::views::filter(shards, &ShardReport::is_used)) {
    if (shown->connected && !shard.connected) shown = &shard;
    if (shard.lease.held != report.lease.held) report.lease.held = {};
    report.lease.settled &= shard.lease.settled;
  }
  report.partner_connected = shown->connected;
  report.partner_since_ms = shown->since_ms;
  report.partner_problem = shown->problem;
  report.partner_cipher = shown->cipher;
  report.partner_over_rdma = shown->over_rdma;
  report.why_not_rdma = shown->why_not_rdma;
  report.partner_address = shown->address;
  if (report.has_partner) report.partner_paths = shards.front().paths;
  for (const ShardReport& shard : shards) {
    report.rdma_link += shard.rdma;
    report.shards.push_back(link_of(shard, report.partner_paths));
    for (const auto& status : shard.volumes) {
      if (!volumes_.contains(status.volume)) continue;  // it leaves, or is about to be served
      VolumeReport volume;
      volume.id = status.volume;
      volume.shard = shard.number;
      volume.mirror = status;
      report.volumes.push_back(std::move(volume));
    }
  }
}

void Node::report_unmirrored(NodeReport& report) const {
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
}

void Node::report_volume(NodeReport& report, VolumeReport& entry) const {
  const auto at = volumes_.find(entry.id);
  if (at == volumes_.end()) return;
  const Volume& volume = *at->second;
  report.findings.insert(report.findings.end(), volume.findings.begin(), volume.findings.end());
  entry.size = volume.spec.mirrored ? entry.mirror.epoch.size : volume.spec.size;
  entry.allocated_bytes = volume.stores.allocated_bytes();
  if (!volume.disk) return;
  entry.access = volume.disk->access_state();
  entry.io = volume.disk->counters();
}

}  // namespace lockstep::data_plane
