#include "replication/core/mirror.hpp"

namespace lockstep::replication {

using engine::AccessState;

Mirror::Mirror(const NodeSettings& settings, NodeSeams& seams, Partner& partner, engine::DiskInfo info,
               engine::Store& data, std::unique_ptr<engine::MetadataArea> meta, MirrorNotices notices)
    : notices_(std::move(notices)),
      partner_(partner),
      standing_(settings, seams.clock, *meta),
      store_(*this, standing_, seams.clock, std::move(info), data, std::move(meta)),
      outbound_(partner, store_, seams.clock.now()),
      in_force_(LuStateKeeper::load(*store_.meta).value_or(scsi::LuState{})),
      forward_entries_(operations_),
      completions_(partner, standing_, operations_, in_force_, forward_entries_),
      regions_(store_.region_size(), 2 * settings.dirty_bound / store_.region_size()),
      space_(seams.clock, store_, notices_.changed),
      forwarder_(settings, seams.clock, partner, standing_, outbound_, operations_, in_force_, completions_, *this),
      resync_(settings, seams.clock, seams.buffers, standing_, store_, outbound_, completions_, regions_, space_,
              notices_.changed, *this, partner),
      sequencer_(seams.clock, seams.buffers, partner, standing_, store_, outbound_, operations_, regions_, space_,
                 resync_, completions_, *this),
      applier_(seams.clock, seams.buffers, standing_, store_, space_, forwarder_, *this),
      generations_(seams.clock, standing_, store_, outbound_, regions_, applier_, *this),
      cleaner_(settings, seams.clock, standing_, store_, outbound_, regions_, resync_, generations_),
      witness_agreement_(standing_, store_),
      witnessing_(settings, seams.clock, seams.random, seams.witness, standing_, store_, generations_,
                  witness_agreement_, *this, notices_.changed),
      lu_(settings, seams.clock, partner, standing_, store_, outbound_, operations_, in_force_, completions_,
          forwarder_, *this),
      front_(settings, partner, standing_, store_, operations_, completions_, lu_, sequencer_, forwarder_),
      forward_server_(seams.buffers, partner, standing_, store_, operations_, forward_entries_, lu_, front_),
      read_repair_(seams.buffers, standing_, store_, front_),
      membership_({.settings = settings,
                   .clock = seams.clock,
                   .random = seams.random,
                   .witness = seams.witness,
                   .fencing = seams.fencing,
                   .left_records = seams.left_records,
                   .partner = partner,
                   .standing = standing_,
                   .store = store_,
                   .outbound = outbound_,
                   .forward_entries = forward_entries_,
                   .completions = completions_,
                   .regions = regions_,
                   .space = space_,
                   .forwarder = forwarder_,
                   .resync = resync_,
                   .sequencer = sequencer_,
                   .applier = applier_,
                   .generations = generations_,
                   .cleaner = cleaner_,
                   .witness_agreement = witness_agreement_,
                   .witnessing = witnessing_,
                   .lu = lu_,
                   .front = front_,
                   .changed = notices_.changed,
                   .close_sessions = notices_.close_sessions}),
      write_cache_(seams.clock, store_, completions_, front_, membership_) {}

/// The process ends, perhaps in the middle of everything: no lock is handed on to anybody.
Mirror::~Mirror() { store_.locks.forget_all(); }

AccessState Mirror::access_state() const {
  if (membership_.serving() && !standing_.gated) return AccessState::active_optimized;
  return membership_.undecided() ? AccessState::transitioning : AccessState::unavailable;
}

void Mirror::submit(engine::DiskRequest& request) { front_.submit(request); }
void Mirror::cancel(engine::DiskRequest& request) { front_.cancel(request); }

void Mirror::set_state_listener(std::shared_ptr<scsi::LuStateListener> listener) {
  lu_.set_listener(std::move(listener));
}

VolumeStatus Mirror::status() const {
  VolumeStatus s;
  s.volume = store_.info.id;
  s.state = membership_.mirror_state();
  s.serving = membership_.serving();
  s.undecided = membership_.undecided();
  s.failover_limited = membership_.failover_limited();
  s.partner_follows = membership_.partner_follows();
  s.epoch = standing_.epoch();
  s.dirty_bytes = store_.meta->dirty_count() * store_.region_size();
  s.full = space_.lacking();
  s.refuses_writes = standing_.is_alone() && store_.data.refuses_writes();
  s.read_errors = store_.read_errors.met;
  s.rewritten = store_.read_errors.rewritten;
  s.resync = resync_.progress();
  s.reason = membership_.reason();
  return s;
}

void Mirror::take(std::uint64_t session, InboundRequest& request, const Message& m) {
  switch (m.type) {
    case MessageType::state:
    case MessageType::propose:
    case MessageType::resume:
      return membership_.take(session, request, m);
    case MessageType::lu_state:
      return lu_.take(request, m);
    case MessageType::forward:
      return forward_server_.take(request, m);
    case MessageType::generation:
      return generations_.take(request, m);
    case MessageType::cancel:
      return forward_server_.take_cancel(request, m);
    default:
      return applier_.take(session, request, m);
  }
}

}  // namespace lockstep::replication
