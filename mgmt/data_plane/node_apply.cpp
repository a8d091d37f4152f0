// Convergence: node.apply, step by step. Each step that can't be taken is reported by name; the next one follows.
#include <algorithm>
#include <set>

#include "mgmt/data_plane/node.hpp"
#include "mgmt/log/log.hpp"

namespace lockstep::data_plane {

using mgmt::log_info;
using mgmt::log_warning;

using engine::Errc;
using engine::Result;
using engine::Uuid;

struct Node::Apply {
  DesiredState state;
  ApplyOutcome outcome;
  engine::Callback<Result<ApplyOutcome>> done;
  engine::Callback<> next;
  std::size_t attaching = 0;  ///< index of the volume being attached
  bool met_silence = false;   ///< some disk has not answered: the others are waited for less long

  void problem(const std::string& object, const std::string& message) {
    log_warning(object + ": " + message);
    outcome.problems.push_back({object, message});
  }
};

void Node::apply(DesiredState state, engine::Callback<Result<ApplyOutcome>> done) {
  auto apply = std::make_shared<Apply>(Apply{std::move(state), {}, std::move(done), {}});
  queue(
      [this, apply](engine::Callback<> next) {
        apply->next = std::move(next);
        apply->outcome.revision = apply->state.revision;
        const PairIdentity identity{apply->state.pair, apply->state.side, process_};
        if (pair_ && pair_->identity() != identity) {
          apply->done(engine::fail(Errc::refused,
                                   "This lockstepd runs for another pair or side; restart it to give it a new one."));
          return apply->next();
        }
        set_up_pair(apply);
      },
      [apply] {
        apply->done(engine::fail(Errc::resource_exhausted, "The node is stopping, or too many requests wait for it."));
      });
}

namespace {
/// Both nodes have the link's secrets: whose they are to show differs, so that the order says nothing.
replication::WitnessSeal seal_of(const DesiredState& state) {
  if (state.seal) return replication::witness_seal(state.pair, state.seal->one, state.seal->other);
  const Authentication proof = state.partner ? state.partner->link.authentication : Authentication{};
  const auto secret = [](const std::optional<Credentials>& c) { return c ? c->secret : std::string(); };
  return replication::witness_seal(state.pair, secret(proof.chap), secret(proof.mutual));
}
/// What the volumes in use are to be decided by (replication/core/verdict.hpp).
replication::ArbiterWish wish_of(const DesiredState& state, bool asks_witness) {
  using replication::ArbiterWish;
  if (!state.names_arbiter || asks_witness) return ArbiterWish::none;
  if (state.arbiter.kind == engine::ArbiterKind::preferred)
    return state.arbiter.preferred == engine::NodeSide::a ? ArbiterWish::preferred_a : ArbiterWish::preferred_b;
  if (state.arbiter.kind == engine::ArbiterKind::fence) return ArbiterWish::fence;
  return state.witness_changing ? ArbiterWish::nobody : ArbiterWish::none;
}
}  // namespace

void Node::wish_arbiter(replication::ArbiterWish wish, engine::Callback<> then) {
  arbiter_wish_ = wish;
  std::vector<std::pair<Uuid, unsigned>> mirrored;
  for (const auto& [id, volume] : volumes_) {
    if (volume->spec.mirrored) mirrored.emplace_back(id, volume->spec.shard);
  }
  pair_->on_each(
      [mirrored, wish](PairShard& shard, engine::Callback<> done) {
        for (const auto& [id, number] : mirrored) {
          if (number == shard.number()) shard.node().want_arbiter(id, wish);
        }
        done();
      },
      std::move(then));
}

void Node::set_up_pair(const ApplyPtr& apply) {
  make_pair(apply, [this, apply] {
    if (is_cut_short(apply)) return;
    name_witness(apply, [this, apply] {
      if (is_cut_short(apply)) return;
      name_partner(apply, [this, apply] {
        if (!is_cut_short(apply)) detach_changed(apply);
      });
    });
  });
}

bool Node::is_cut_short(const ApplyPtr& apply) {
  if (!stopping_) return false;
  apply->done(engine::fail(Errc::resource_exhausted, "The node is stopping."));
  apply->next();
  return true;
}

namespace {
std::set<unsigned> used_shards(const DesiredState& state) {
  std::set<unsigned> used;
  for (const VolumeSpec& volume : state.volumes) {
    if (volume.mirrored) used.insert(volume.shard);
  }
  return used;
}
}  // namespace

void Node::make_pair(const ApplyPtr& apply, engine::Callback<> then) {
  const DesiredState& state = apply->state;
  const auto used = used_shards(state);
  const bool is_new = !pair_;
  if (is_new) {
    pair_ = std::make_unique<Pair>(workers_, PairIdentity{state.pair, state.side, process_}, state.settings,
                                   PairOptions{options_.confirms_reads, options_.kernel_tls, options_.fence_socket,
                                               options_.link_buffers, options_.rdma, options_.why_no_rdma},
                                   left_records_, *this, events_);
  }
  if (is_new || state.settings != pair_settings_ || used.size() != shards_used_) {
    pair_->use(state.settings, used.size());
    pair_settings_ = state.settings;
    shards_used_ = used.size();
  }
  pair_->make_shards(used.empty() ? 1 : *used.rbegin() + 1, std::move(then));
}

/// Whoever wishes a preferred side or a fence asks no witness, and whoever wishes nobody uses no fence: the wish ends
/// in every shard before one is asked or used, and begins when none is.
void Node::name_witness(const ApplyPtr& apply, engine::Callback<> then) {
  auto name = [this, apply, then = std::move(then)]() mutable {
    use_arbiter(*apply);
    wish_arbiter(wish_of(apply->state, pair_->witness().configured()), std::move(then));
  };
  const engine::ArbiterSettings& arbiter = apply->state.arbiter;
  const bool asks = arbiter.kind == engine::ArbiterKind::witness && !arbiter.address.empty();
  const bool uses_fence = arbiter.kind == engine::ArbiterKind::fence && !pair_->fence().configured();
  if (!asks && !uses_fence) return name();
  wish_arbiter(replication::ArbiterWish::none, std::move(name));
}

void Node::use_arbiter(Apply& apply) {
  const DesiredState& state = apply.state;
  const bool asks = state.arbiter.kind == engine::ArbiterKind::witness;
  const auto used = pair_->witness().use(state.pair, state.side, seal_of(state), asks ? state.arbiter.address : "",
                                         state.witness_access);
  if (!used) {
    apply.problem("witness", used.error().message);
  } else if (*used) {
    pair_->tell_each([](PairShard& shard) { shard.node().look_at_witness_again(); });
  }
  pair_->use_fence(state.arbiter.kind == engine::ArbiterKind::fence);
}

void Node::name_partner(const ApplyPtr& apply, engine::Callback<> then) {
  const DesiredState& state = apply->state;
  std::set<unsigned> used = used_shards(state);
  for (const auto& [id, volume] : volumes_) used.insert(volume->spec.shard);
  for (const auto& [id, volume] : leaving_) used.insert(volume->spec.shard);
  pair_->set_partner({state.partner, state.target.portals, std::move(used)},
                     [apply, then = std::move(then)](const Pair::AddressProblems& problems) mutable {
                       for (const auto& [address, message] : problems)
                         apply->problem("partner link " + address, message);
                       then();
                     });
}

// ---- volumes out ----

void Node::detach_changed(const ApplyPtr& apply) {
  std::vector<Uuid> gone;
  for (const auto& [id, volume] : volumes_) {
    const auto wanted = std::ranges::find(apply->state.volumes, id, &VolumeSpec::id);
    if (wanted == apply->state.volumes.end() || needs_reattach(volume->spec, *wanted)) gone.push_back(id);
  }
  detach(std::move(gone), [this, apply] {
    state_ = apply->state;
    tell_of_leaving(*apply);
    attach_missing(apply);
  });
}

void Node::tell_of_leaving(Apply& apply) {
  for (const auto& [id, volume] : leaving_) apply.problem("volume " + volume->spec.name, still_owed(*volume));
}

// ---- volumes in ----

void Node::attach_missing(const ApplyPtr& apply) {
  if (is_cut_short(apply)) return;
  while (apply->attaching < apply->state.volumes.size()) {
    const VolumeSpec& spec = apply->state.volumes[apply->attaching++];
    if (leaving_.contains(spec.id)) continue;  // told of already
    const auto at = volumes_.find(spec.id);
    if (at == volumes_.end() && disk_work_.contains(place_of(spec))) {
      apply->problem("volume " + spec.name, silence(spec.data));
      continue;
    }
    if (at == volumes_.end()) return begin_attach(apply, spec);
    use_spec(*at->second, spec);
    if (spec.mirrored) return use_mirrored(apply, spec);
  }
  finish_apply(apply);
}

/// Of a volume that is attached.
void Node::use_spec(Volume& volume, const VolumeSpec& spec) {
  volume.spec = spec;
  auto& unit = volume.unit;
  unit->set_name(spec.name);
  const auto settings = unit_settings(spec);
  unit->set_paired(settings.paired);
  if (settings.target_name == unit->settings().target_name) return;
  const std::uint64_t size = unit->blocks() * unit->block_size();
  const bool write_cache = unit->write_cache();
  unit = std::make_shared<iscsi_target::LogicalUnit>(*volume.disk, settings);
  unit->set_name(spec.name);
  unit->set_capacity(size);
  unit->set_use(spec.read_only, write_cache);
}

/// Initiators are told that nothing is cached when that is so, however late: with a volume that serves nobody it is not
/// known, and nobody waits for it.
void Node::set_write_cache(const VolumeSpec& spec) {
  pair_->ask<bool>(
      spec.shard,
      [id = spec.id, on = spec.write_cache](PairShard& shard, engine::Callback<bool> done) {
        shard.node().set_write_cache(id, on, [done = std::move(done)]() mutable { done(true); });
      },
      [this, id = spec.id, on = spec.write_cache](bool) {
        const auto volume = volumes_.find(id);
        if (volume == volumes_.end() || volume->second->spec.write_cache != on) return;
        volume->second->unit->set_use(volume->second->unit->read_only(), on);
      });
}

void Node::use_mirrored(const ApplyPtr& apply, const VolumeSpec& spec) {
  set_write_cache(spec);
  pair_->ask<bool>(
      spec.shard,
      [&spec](PairShard& shard, engine::Callback<bool> done) {
        shard.node().want_size(spec.id, spec.size);
        done(true);
      },
      [this, apply, &spec](bool) {
        auto& unit = *volumes_.at(spec.id)->unit;
        unit.set_use(spec.read_only, unit.write_cache());
        grow_attached(apply, spec);
      });
}

// The kernel takes a moment to let go of what was open through io_uring, in a process that was killed or here: soon
// after, a store that is in use is tried again before it is called so.
bool Node::may_linger(const engine::Error& error) {
  return error.code == Errc::refused && home().now() - stores_closed_ < kLinger;
}

void Node::try_again(const ApplyPtr& apply) {
  --apply->attaching;
  home().call_after(std::chrono::milliseconds(50), [this, apply] { attach_missing(apply); });
}

void Node::begin_attach(const ApplyPtr& apply, const VolumeSpec& spec) {
  const Place place = place_of(spec);
  engine::Duration patience =
      apply->met_silence ? std::min(kNextPatience, options_.disk_patience) : options_.disk_patience;
  const auto late = late_.find(place);
  // One that can't be attached is tried again and again, and nobody is to wait for that.
  if (pair_ && (!pair_->started() || late != late_.end())) pair_->note_attaching();
  if (late != late_.end() && !apply->met_silence) {
    apply->met_silence = true;  // the others are waited for less long, however long this one takes
    patience = std::max(patience, std::min(late->second * 3 / 2, kLongestPatience));
  }
  begin_disk_work(place, patience, [this, apply, &spec] {
    apply->met_silence = true;
    apply->problem("volume " + spec.name, silence(spec.data));
    attach_missing(apply);
  });
  look_first(place, spec.metadata, [this, apply, &spec, place] {
    if (!is_waited_for(place)) return void(end_disk_work(place));
    spec.mirrored ? attach_mirrored(apply, spec) : attach_unmirrored(apply, spec);
  });
}

/// What comes after all has gone on without it is not used, for the configuration may be another one by now.
template <class Opened>
void Node::close_late(const VolumeSpec& spec, Worker& worker, Opened opened) {
  const Place place = place_of(spec);
  if (opened) late_[place] = home().now() - disk_work_.at(place).since;
  worker.reactor.post([this, place, gone = std::make_unique<Opened>(std::move(opened))]() mutable {
    gone.reset();
    home().post([this, place] {
      stores_closed_ = home().now();
      end_disk_work(place);
    });
  });
}

void Node::attach_mirrored(const ApplyPtr& apply, const VolumeSpec& spec) {
  Worker& worker = *workers_[pair_->worker_of(spec.shard)];
  auto use = [this, apply, &spec, &worker](Result<MirroredReplica> opened) {
    if (!has_answered(place_of(spec))) return close_late(spec, worker, std::move(opened));
    if (opened) return attach_opened(apply, spec, std::make_shared<MirroredReplica>(std::move(*opened)));
    end_disk_work(place_of(spec));
    if (may_linger(opened.error())) return try_again(apply);
    apply->problem("volume " + spec.name, opened.error().message);
    attach_missing(apply);
  };
  const PairIdentity& identity = pair_->identity();
  open_mirrored(worker, home(), file_worker_for(worker.reactor), options_.open_replica, spec,
                {identity.pair, identity.side, keys_}, std::move(use));
}

void Node::attach_opened(const ApplyPtr& apply, const VolumeSpec& spec,
                         const std::shared_ptr<MirroredReplica>& opened) {
  if (!opened->room_problem.empty())
    apply->problem("volume " + spec.name, "It can't grow on this node: " + opened->room_problem);
  using Attached = Result<std::unique_ptr<Volume>>;
  auto attach = [this, &spec, opened, wish = arbiter_wish_, stopping = stopping_](PairShard& shard,
                                                                                  engine::Callback<Attached> answer) {
    if (!stopping) return answer(attach_to(shard, spec, std::move(opened->replica), wish));
    opened->replica.close();
    answer(engine::fail(Errc::resource_exhausted, "The node is stopping."));
  };
  pair_->volumes().put(spec.id, spec.shard);
  auto take = [this, apply, &spec](Attached attached) {
    end_disk_work(place_of(spec));  // a shutdown that waited for it goes on in a later turn
    late_.erase(place_of(spec));
    if (!attached) {
      pair_->volumes().remove(spec.id);
      apply->problem("volume " + spec.name, attached.error().message);
      return attach_missing(apply);
    }
    const std::uint64_t room = (*attached)->room;
    serve(spec, std::move(*attached));
    volumes_.at(spec.id)->unit->set_room(room);
    attach_missing(apply);
  };
  pair_->ask<Attached>(spec.shard, std::move(attach), std::move(take));
}

/// On the shard's reactor.
Result<std::unique_ptr<Volume>> Node::attach_to(PairShard& shard, const VolumeSpec& spec, OpenedReplica replica,
                                                replication::ArbiterWish wish) {
  auto volume = std::make_unique<Volume>();
  volume->home = pair_->worker_of(spec.shard);
  volume->room = replica.area->identity().size;
  volume->stores = std::move(replica.stores);
  auto attached = shard.node().attach({disk_info(spec)}, volume->stores.blocks(), std::move(replica.area));
  if (!attached) return std::unexpected(attached.error());
  shard.node().want_size(spec.id, spec.size);
  shard.node().want_arbiter(spec.id, wish);
  volume->disk = hop_disk(*shard.node().disk(spec.id), volume->home);
  return volume;
}

/// The size that is wanted, of a volume that is in use.
void Node::grow_attached(const ApplyPtr& apply, const VolumeSpec& spec) {
  make_room(spec.id, spec.size, [this, apply, &spec](Result<void> room) {
    if (!room) apply->problem("volume " + spec.name, "It can't grow on this node: " + room.error().message);
    home().post([this, apply] { attach_missing(apply); });
  });
}

void Node::attach_unmirrored(const ApplyPtr& apply, const VolumeSpec& spec) {
  const std::size_t index = next_home_++ % workers_.size();
  using Opened = Result<std::pair<ReplicaStores, std::unique_ptr<engine::Disk>>>;
  auto use = [this, apply, &spec, index](Opened opened) {
    if (!has_answered(place_of(spec))) return close_late(spec, *workers_[index], std::move(opened));
    end_disk_work(place_of(spec));  // a shutdown that waited for it goes on in a later turn
    late_.erase(place_of(spec));
    if (!opened) {
      if (may_linger(opened.error())) return try_again(apply);
      apply->problem("volume " + spec.name, opened.error().message);
      return attach_missing(apply);
    }
    auto volume = std::make_unique<Volume>();
    volume->home = index;
    volume->stores = std::move(opened->first);
    volume->own_disk = std::move(opened->second);
    volume->disk = hop_disk(*volume->own_disk, index);
    serve(spec, std::move(volume));
    attach_missing(apply);
  };
  Worker& worker = *workers_[index];
  open_unmirrored(worker, home(), file_worker_for(worker.reactor), spec, apply->state.side, keys_, std::move(use));
}

std::unique_ptr<HopDisk> Node::hop_disk(engine::Disk& disk, std::size_t home) const {
  std::vector<HopDisk::From> from;
  for (const auto& worker : workers_) from.push_back({&worker->reactor, &worker->stalls});
  return std::make_unique<HopDisk>(disk, from, home);
}

void Node::serve(const VolumeSpec& spec, std::unique_ptr<Volume> volume) {
  volume->spec = spec;
  volume->unit = std::make_shared<iscsi_target::LogicalUnit>(*volume->disk, unit_settings(spec));
  log_info("Volume " + spec.name + ": attached (" + std::to_string(spec.size) + " bytes, LUN " +
           std::to_string(spec.lun) + (spec.mirrored ? ")." : ", not mirrored)."));
  volumes_.emplace(spec.id, std::move(volume));
  if (!std::exchange(looks_at_space_, true)) look_at_space();
}

iscsi_target::UnitSettings Node::unit_settings(const VolumeSpec& spec) const {
  iscsi_target::UnitSettings settings;
  settings.target_name = state_->target.name;
  settings.port_group = state_->side == engine::NodeSide::a ? 1 : 2;
  settings.paired = spec.mirrored && state_->partner.has_value();
  settings.instance = random_.uuid();
  return settings;
}

// ---- what initiators see ----

void Node::finish_apply(const ApplyPtr& apply) {
  std::set<std::uint32_t> luns;
  for (const VolumeSpec& spec : apply->state.volumes) {
    if (!luns.insert(spec.lun).second) {
      apply->problem("volume " + spec.name, "LUN " + std::to_string(spec.lun) + " belongs to another volume already.");
    } else if (spec.lun >= iscsi_target::kMaxLuns) {
      apply->problem("volume " + spec.name, "LUNs go from 0 to " + std::to_string(iscsi_target::kMaxLuns - 1) + ".");
    }
  }
  access_ = std::make_shared<const Access>(apply->state.volumes);
  start_pair([this, apply] {
    look_for_changes([this, apply] {
      if (!is_cut_short(apply)) show(apply);
    });
  });
}

void Node::start_pair(engine::Callback<> then) {
  if (pair_->started()) return then();
  server_.hold_logins(kDecisionPatience);
  pair_->start(std::move(then));
}

void Node::show(const ApplyPtr& apply) {
  // Before the map that gives names new volumes: a session that claimed such a name under the old lists is over then.
  put_target();
  server_.recheck_sessions([this, apply] {
    publish_map([this, apply, resized = find_absent()] {
      for (const auto& unit : resized) unit->events().raise(iscsi_target::UnitAttention::capacity_changed);
      // Not before there is a target: an initiator that is told "not found" may give up for good.
      for (const auto& problem : set_portals(apply->state.target.portals))
        apply->problem(problem.object, problem.message);
      fabric_.serve(*state_);
      apply->done(std::move(apply->outcome));
      apply->next();
    });
  });
}

void Node::put_target() {
  iscsi_target::Target target;
  target.name = state_->target.name;
  target.alias = state_->pair_name;
  const std::uint16_t mine = state_->side == engine::NodeSide::a ? 1 : 2;
  target.portal_group = mine;
  for (const auto& portal : state_->target.portals) target.portals.push_back({portal.to_string(), mine});
  if (state_->partner) {
    for (const auto& portal : state_->partner->portals) {
      target.portals.push_back({portal.to_string(), static_cast<std::uint16_t>(3 - mine)});
    }
  }
  for (const auto& worker : workers_) target.device_servers.push_back(&worker->device);
  target.access = access_;
  registry_.put(std::move(target));
  std::vector<iscsi::ChapCredentials> discovery;
  if (state_->target.discovery_auth) {
    if (const auto chap = to_chap(*state_->target.discovery_auth)) discovery.push_back(*chap);
  }
  registry_.set_discovery_credentials(std::move(discovery));
}

}  // namespace lockstep::data_plane
