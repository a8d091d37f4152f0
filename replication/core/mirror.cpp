#include "replication/core/mirror.hpp"

#include "replication/core/applier.hpp"
#include "replication/core/cleaner.hpp"
#include "replication/core/forward_server.hpp"
#include "replication/core/forwarder.hpp"
#include "replication/core/front.hpp"
#include "replication/core/generations.hpp"
#include "replication/core/lu_state_keeper.hpp"
#include "replication/core/membership.hpp"
#include "replication/core/regions.hpp"
#include "replication/core/resync.hpp"
#include "replication/core/sequencer.hpp"
#include "replication/core/space.hpp"
#include "replication/core/witnessing.hpp"

namespace lockstep::replication {

using engine::AccessState;

Core::Core(const NodeSettings& settings_in, NodeSeams& seams_in, Partner& partner_in, engine::DiskInfo info_in,
           engine::Store& data_in, std::unique_ptr<engine::MetadataArea> meta_in)
    : settings(settings_in),
      seams(seams_in),
      partner(partner_in),
      standing(settings, seams.clock, *meta_in),
      store(*this, standing, seams.clock, std::move(info_in), data_in, std::move(meta_in)),
      outbound(partner, store, seams.clock.now()),
      front(std::make_unique<Front>(*this)),
      sequencer(std::make_unique<Sequencer>(*this)),
      applier(std::make_unique<Applier>(*this)),
      forwarder(std::make_unique<Forwarder>(*this)),
      forwards(std::make_unique<ForwardServer>(*this)),
      regions(std::make_unique<Regions>(store.region_size())),
      space(std::make_unique<Space>(*this)),
      cleaner(std::make_unique<Cleaner>(*this)),
      resync(std::make_unique<Resync>(*this)),
      generations(std::make_unique<Generations>(*this)),
      witnessing(std::make_unique<Witnessing>(*this)),
      lu(std::make_unique<LuStateKeeper>(*this, LuStateKeeper::load(*store.meta).value_or(scsi::LuState{}))),
      membership(std::make_unique<Membership>(*this)) {}

/// The process ends, perhaps in the middle of everything: no lock is handed on to anybody.
Core::~Core() { store.locks.forget_all(); }

void Core::set_write_cache(bool on) {
  const bool was = std::exchange(store.info.write_cache, on);
  store.was_cached |= on;
  if (was && !on) membership->make_durable();
}

void Core::on_store_failed() { membership->on_store_failed(); }
void Core::on_metadata_failed(const std::string& why) { membership->fail_metadata(why); }

void Core::end_unstarted(const Selection& which) {
  sequencer->drop(which);
  forwarder->drop(which);
  lu->drop(which);
  front->drop_held(which);
}

Mirror::Mirror(const NodeSettings& settings, NodeSeams& seams, Partner& partner, engine::DiskInfo info,
               engine::Store& data, std::unique_ptr<engine::MetadataArea> meta)
    : core_(settings, seams, partner, std::move(info), data, std::move(meta)) {}

Mirror::~Mirror() = default;

AccessState Mirror::access_state() const {
  if (core_.membership->serving() && !core_.standing.gated) return AccessState::active_optimized;
  return core_.membership->undecided() ? AccessState::transitioning : AccessState::unavailable;
}

void Mirror::submit(engine::DiskRequest& request) { core_.front->submit(request); }
void Mirror::cancel(engine::DiskRequest& request) { core_.front->cancel(request); }

void Mirror::set_state_listener(std::shared_ptr<scsi::LuStateListener> listener) {
  core_.lu->set_listener(std::move(listener));
}

VolumeStatus Mirror::status() const {
  VolumeStatus s;
  s.volume = core_.store.info.id;
  s.state = core_.membership->mirror_state();
  s.serving = core_.membership->serving();
  s.undecided = core_.membership->undecided();
  s.failover_limited = core_.membership->failover_limited();
  s.partner_follows = core_.membership->partner_follows();
  s.epoch = core_.standing.epoch();
  s.dirty_bytes = core_.store.meta->dirty_count() * core_.store.region_size();
  s.full = core_.space->lacking();
  s.resync = core_.resync->progress();
  s.reason = core_.membership->reason();
  return s;
}

void Mirror::take(std::uint64_t session, InboundRequest& request, const Message& m) {
  switch (m.type) {
    case MessageType::state:
    case MessageType::propose:
    case MessageType::resume:
      return core_.membership->take(session, request, m);
    case MessageType::lu_state:
      return core_.lu->take(request, m);
    case MessageType::forward:
      return core_.forwards->take(request, m);
    case MessageType::generation:
      return core_.generations->take(request, m);
    case MessageType::cancel:
      return core_.forwards->take_cancel(request, m);
    default:
      return core_.applier->take(session, request, m);
  }
}

}  // namespace lockstep::replication
