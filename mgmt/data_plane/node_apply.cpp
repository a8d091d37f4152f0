// Convergence: node.apply, step by step. Each step that can't be taken is reported by name; the next one follows.
#include <algorithm>
#include <set>

#include "mgmt/data_plane/node.hpp"
#include "mgmt/log/log.hpp"

namespace lockstep::data_plane {

using mgmt::log_error;
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

  void problem(const std::string& object, const std::string& message) {
    log_warning(object + ": " + message);
    outcome.problems.push_back({object, message});
  }
};

void Node::apply(DesiredState state, engine::Callback<Result<ApplyOutcome>> done) {
  auto apply = std::make_shared<Apply>(Apply{std::move(state), {}, std::move(done), {}, 0});
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
        set_up_pair(*apply);
        detach_changed(apply);
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
  return state.witness_changing ? ArbiterWish::nobody : ArbiterWish::none;
}
}  // namespace

void Node::wish_arbiter(replication::ArbiterWish wish) {
  arbiter_wish_ = wish;
  for (const auto& [id, volume] : volumes_) {
    if (volume->spec.mirrored) pair_->node().want_arbiter(id, wish);
  }
}

void Node::set_up_pair(Apply& apply) {
  const DesiredState& state = apply.state;
  if (!pair_) {
    pair_ = std::make_unique<Pair>(
        *workers_.front(), random_, link_buffers_, PairIdentity{state.pair, state.side, process_}, state.settings,
        PairOptions{options_.confirms_reads, options_.fence_socket}, left_records_, *this, events_);
    pair_settings_ = state.settings;
  }
  if (state.settings != pair_settings_) {
    apply.problem("settings", "The lease and the resync rates take effect when lockstepd is restarted.");
  }
  const std::string witness = state.arbiter.kind == engine::ArbiterKind::witness ? state.arbiter.address : "";
  // Whoever wishes a preferred side asks no witness: the wish ends before one is asked, and begins when none is.
  if (!witness.empty()) wish_arbiter(replication::ArbiterWish::none);
  const auto used = pair_->witness().use(state.pair, state.side, seal_of(state), witness, state.witness_access);
  if (!used) {
    apply.problem("witness", used.error().message);
  } else if (*used) {
    pair_->node().look_at_witness_again();
  }
  pair_->fence().use(state.arbiter.kind == engine::ArbiterKind::fence);
  wish_arbiter(wish_of(state, pair_->witness().configured()));
  if (auto set = pair_->set_partner(state.partner); !set) {
    apply.problem("partner link " + state.partner->link.listen.to_string(), set.error().message);
  }
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
  if (stopping_) {
    apply->done(engine::fail(Errc::resource_exhausted, "The node is stopping."));
    return apply->next();
  }
  while (apply->attaching < apply->state.volumes.size()) {
    const VolumeSpec& spec = apply->state.volumes[apply->attaching++];
    if (leaving_.contains(spec.id)) continue;  // told of already
    if (const auto at = volumes_.find(spec.id); at != volumes_.end()) {
      at->second->spec = spec;
      if (spec.mirrored) {
        pair_->node().set_write_cache(spec.id, spec.write_cache);
        at->second->unit->set_use(spec.read_only, spec.write_cache);
      }
      const auto settings = unit_settings(spec);
      const auto& now = at->second->unit->settings();
      if (settings.paired != now.paired || settings.target_name != now.target_name) {
        auto& unit = at->second->unit;
        const std::uint64_t size = unit->blocks() * unit->block_size();
        unit = std::make_shared<iscsi_target::LogicalUnit>(*at->second->disk, settings);
        unit->set_capacity(size);
        unit->set_use(spec.read_only, spec.write_cache);
      }
      if (spec.mirrored) return grow_attached(apply, spec);
      continue;
    }
    return spec.mirrored ? attach_mirrored(apply, spec) : attach_unmirrored(apply, spec);
  }
  finish_apply(apply);
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

void Node::attach_mirrored(const ApplyPtr& apply, const VolumeSpec& spec) {
  const ReplicaPlace place{spec.data, spec.metadata, spec.size, spec.block_size};
  auto use = [this, apply, &spec](Result<OpenedReplica> opened) {
    const std::string object = "volume " + spec.name;
    if (!opened) {
      if (may_linger(opened.error())) return try_again(apply);
      apply->problem(object, opened.error().message);
      return attach_missing(apply);
    }
    if (opened->area->identity().pair != apply->state.pair) {
      apply->problem(
          object, spec.data + " belongs to pair " + opened->area->identity().pair.to_string() + ", not to this one.");
      opened->area.reset();
      return attach_missing(apply);
    }
    attach_opened(apply, spec, std::move(*opened));
  };
  options_.open_replica(*workers_.front()->ring, place, spec.id, apply->state.side, std::move(use));
}

void Node::attach_opened(const ApplyPtr& apply, const VolumeSpec& spec, OpenedReplica opened) {
  auto replica = std::make_shared<OpenedReplica>(std::move(opened));
  make_room_before_attach(spec, replica, [this, apply, &spec, replica](Result<void> room) {
    const std::string object = "volume " + spec.name;
    if (!room) apply->problem(object, "It can't grow on this node: " + room.error().message);
    Worker& worker = *workers_.front();
    if (auto unlocked = unlock(*worker.ring, worker.pool, *replica, spec.encrypted, keys_); !unlocked) {
      apply->problem(object, unlocked.error().message);
      replica->area.reset();
      return attach_missing(apply);
    }
    const std::uint64_t size = replica->area->identity().size;
    auto volume = std::make_unique<Volume>();
    volume->stores = std::move(replica->stores);
    auto attached = pair_->node().attach({disk_info(spec)}, volume->stores.blocks(), std::move(replica->area));
    if (!attached) {
      apply->problem(object, attached.error().message);
      return attach_missing(apply);
    }
    serve(spec, std::move(volume), *pair_->node().disk(spec.id));
    volumes_.at(spec.id)->unit->set_room(size);
    pair_->node().want_size(spec.id, spec.size);
    pair_->node().want_arbiter(spec.id, arbiter_wish_);
    attach_missing(apply);
  });
}

/// The size that is wanted, of a volume that is in use.
void Node::grow_attached(const ApplyPtr& apply, const VolumeSpec& spec) {
  pair_->node().want_size(spec.id, spec.size);
  make_room(spec.id, spec.size, [this, apply, &spec](Result<void> room) {
    if (!room) apply->problem("volume " + spec.name, "It can't grow on this node: " + room.error().message);
    home().post([this, apply] { attach_missing(apply); });
  });
}

void Node::attach_unmirrored(const ApplyPtr& apply, const VolumeSpec& spec) {
  const std::size_t index = next_home_++ % workers_.size();
  using Opened = Result<std::pair<ReplicaStores, std::unique_ptr<engine::Disk>>>;
  auto use = [this, apply, &spec, index](Opened opened) {
    end_replica_work();  // a shutdown that waited for it goes on in a later turn
    if (!opened) {
      if (may_linger(opened.error())) return try_again(apply);
      apply->problem("volume " + spec.name, opened.error().message);
      return attach_missing(apply);
    }
    auto volume = std::make_unique<Volume>();
    volume->home = index;
    volume->stores = std::move(opened->first);
    volume->own_disk = std::move(opened->second);
    engine::Disk& disk = *volume->own_disk;
    serve(spec, std::move(volume), disk);
    attach_missing(apply);
  };
  replica_work_ = true;
  Worker& worker = *workers_[index];
  open_unmirrored(worker, home(), file_worker_for(worker.reactor), spec, apply->state.side, keys_, std::move(use));
}

void Node::serve(const VolumeSpec& spec, std::unique_ptr<Volume> volume, engine::Disk& disk) {
  std::vector<engine::Reactor*> reactors;
  for (const auto& worker : workers_) reactors.push_back(&worker->reactor);
  volume->spec = spec;
  volume->disk = std::make_unique<HopDisk>(disk, std::move(reactors), volume->home);
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
  if (!pair_->started()) {
    pair_->start();
    server_.hold_logins(kDecisionPatience);
  }
  look_for_changes();
  // Before the map that gives names new volumes: a session that claimed such a name under the old lists is over then.
  put_target();
  server_.recheck_sessions([this, apply] {
    publish_map([this, apply] {
      // Not before there is a target: an initiator that is told "not found" may give up for good.
      set_portals(*apply);
      apply->done(std::move(apply->outcome));
      apply->next();
    });
  });
}

void Node::set_portals(Apply& apply) {
  std::vector<std::string> wanted;
  wanted.reserve(apply.state.target.portals.size());
  for (const auto& portal : apply.state.target.portals) wanted.push_back(portal.to_string());
  for (const auto& address : std::exchange(listening_, {})) {
    if (std::ranges::find(wanted, address) != wanted.end()) {
      listening_.push_back(address);
    } else {
      server_.stop_listening(address);
    }
  }
  for (const auto& address : wanted) {
    if (std::ranges::find(listening_, address) != listening_.end()) continue;
    auto listens = server_.listen(address);
    if (listens) {
      listening_.push_back(address);
      log_info("Serving at " + address + ".");
    } else {
      apply.problem("portal " + address, listens.error().message);
    }
  }
}

/// `adopted` runs when no reactor starts anything under the map before.
void Node::publish_map(engine::Callback<> adopted) {
  std::vector<iscsi_target::LunEntry> entries;
  std::set<std::uint32_t> luns;
  for (const auto& [id, volume] : volumes_) {
    const bool possible = volume->spec.lun < iscsi_target::kMaxLuns && luns.insert(volume->spec.lun).second;
    if (volume->unit && possible) entries.push_back({static_cast<std::uint16_t>(volume->spec.lun), volume->unit});
  }
  auto map = iscsi_target::LunMap::make(std::move(entries), access_);
  if (!map) {
    log_error("The LUN map can't be made: " + map.error().message);
    return adopted();
  }
  on_every_worker(
      workers_,
      [map = *map](Worker& worker, engine::Callback<> done) {
        worker.device.adopt(map, {});
        done();
      },
      std::move(adopted));
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
