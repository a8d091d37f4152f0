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

namespace {
engine::DiskInfo with_persistence(engine::DiskInfo info, const engine::MetadataArea& meta) {
  info.persistent_state = meta.keeps_state();
  return info;
}
}  // namespace

Core::Core(const NodeSettings& settings_in, NodeSeams& seams_in, Partner& partner_in, engine::DiskInfo info_in,
           engine::Store& data_in, std::unique_ptr<engine::MetadataArea> meta_in)
    : settings(settings_in),
      seams(seams_in),
      partner(partner_in),
      info(with_persistence(std::move(info_in), *meta_in)),
      data(data_in),
      meta(std::move(meta_in)),
      front(std::make_unique<Front>(*this)),
      sequencer(std::make_unique<Sequencer>(*this)),
      applier(std::make_unique<Applier>(*this)),
      forwarder(std::make_unique<Forwarder>(*this)),
      forwards(std::make_unique<ForwardServer>(*this)),
      regions(std::make_unique<Regions>(meta->identity().region_size)),
      space(std::make_unique<Space>(*this)),
      cleaner(std::make_unique<Cleaner>(*this)),
      resync(std::make_unique<Resync>(*this)),
      generations(std::make_unique<Generations>(*this)),
      witnessing(std::make_unique<Witnessing>(*this)),
      lu(std::make_unique<LuStateKeeper>(*this, LuStateKeeper::load(*meta).value_or(scsi::LuState{}))),
      membership(std::make_unique<Membership>(*this)) {}

/// The process ends, perhaps in the middle of everything: no lock is handed on to anybody.
Core::~Core() { locks.forget_all(); }

engine::Extent Core::region_extent(std::uint64_t region) const {
  const std::uint64_t offset = region * region_size();
  return {offset, std::min<std::uint64_t>(region_size(), volume_size() - offset)};
}

std::uint16_t Core::flags_of(const Op& op) const {
  const bool durable = durability(op.fua) == engine::Durability::durable;
  return static_cast<std::uint16_t>((durable ? kFlagFua : 0) | (op.may_unmap ? kFlagMayUnmap : 0));
}

Message Core::message(MessageType type) const {
  Message m;
  m.type = type;
  m.volume = info.id;
  m.epoch = epoch().id;
  m.number = epoch().number;
  m.watermark = sequencer->watermark();
  return m;
}

void Core::set_write_cache(bool on) {
  const bool was = std::exchange(info.write_cache, on);
  was_cached |= on;
  if (was && !on) membership->make_durable();
}

/// Alone there is nobody to hand over to: each operation tells its own error.
void Core::fail_store(const std::string& why, std::error_code error) {
  const bool full = error == engine::Errc::no_space;
  store_may_return = full && (store_may_return || !store_failed);
  if (is_alone() || store_failed) return;
  full ? mark<"store.full">() : mark<"store.failed">();
  store_failed = true;
  store_failed_at = now();
  reason = full ? space->sentence() : why;
  membership->on_store_failed();
}

void Core::fail_flush(std::error_code error) {
  flush_failed = true;
  fail_store("The store failed a flush: " + error.message() + ".", error);
}

/// A volume that was detached writes nothing any more: its stores may be another mirror's already.
void Core::keep_knowledge(engine::Callback<> done) {
  if (membership->closed()) return;
  meta->write_knowledge(known, [this, done = std::move(done)](std::error_code error) mutable {
    if (!error) return done();
    membership->fail_metadata("What this replica has learnt can't be written: " + error.message() + ".");
  });
}

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
  if (core_.membership->serving() && !core_.gated) return AccessState::active_optimized;
  return core_.membership->undecided() ? AccessState::transitioning : AccessState::unavailable;
}

void Mirror::submit(engine::DiskRequest& request) { core_.front->submit(request); }
void Mirror::cancel(engine::DiskRequest& request) { core_.front->cancel(request); }

void Mirror::set_state_listener(std::shared_ptr<scsi::LuStateListener> listener) {
  core_.lu->set_listener(std::move(listener));
}

VolumeStatus Mirror::status() const {
  VolumeStatus s;
  s.volume = core_.info.id;
  s.state = core_.membership->mirror_state();
  s.serving = core_.membership->serving();
  s.undecided = core_.membership->undecided();
  s.failover_limited = core_.membership->failover_limited();
  s.partner_follows = core_.membership->partner_follows();
  s.epoch = core_.epoch();
  s.dirty_bytes = core_.meta->dirty_count() * core_.region_size();
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
