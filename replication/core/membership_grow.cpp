// Growing a volume in use: room on each replica first, then the size in an epoch that both record
// (docs/developer/grow.md).
#include "replication/core/marks.hpp"
#include "replication/core/membership.hpp"

namespace lockstep::replication {

using engine::Errc;
using engine::fail;

void Membership::make_room(std::uint64_t size, Done done) {
  if (size <= store_.room()) return done({});
  if (closed() || making_room_) {
    return done(fail(Errc::refused, "The volume is being detached, or makes room already. Try again in a moment."));
  }
  if (store_.data.info().size < size) {
    return done(fail(Errc::no_space, "The store " + store_.data.info().name + " has " +
                                         std::to_string(store_.data.info().size) + " bytes, not " +
                                         std::to_string(size) + "."));
  }
  making_room_ = true;
  store_.meta->grow(size, [this, done = std::move(done)](std::error_code error) mutable {
    making_room_ = false;
    if (error) {
      // What the superblock says now is not known: as with an epoch record that can't be written, this replica stops.
      const bool unknown = error != Errc::refused && error != Errc::no_space && error != Errc::resource_exhausted;
      if (unknown && !closed()) fail_metadata("The metadata can't grow: " + error.message() + ".");
      return done(std::unexpected(engine::Error{error, "The metadata can't grow: " + error.message() + "."}));
    }
    mark<"membership.made_room">();
    exchange();
    done({});
  });
}

void Membership::want_size(std::uint64_t size) {
  if (size == wanted_size_) return;
  wanted_size_ = size;
  if (wanted_size_ > store_.volume_size()) exchange();
}

/// The room travels where a state has no use for an extent: a partner that knows nothing of it says 0.
Message Membership::state_message() const {
  Message m = outbound_.message(MessageType::state);
  m.extent.length = store_.room();
  generations_.tell(m);
  return m;
}

void Membership::note_partner_room(const Message& m) {
  const bool news = m.extent.length != partner_room_;
  partner_room_ = m.extent.length;
  if (news && size_to_take() > store_.volume_size()) exchange();
}

/// What both replicas have room for; 0: nothing is wanted.
std::uint64_t Membership::size_to_take() const {
  return wanted_size_ <= store_.room() && wanted_size_ <= partner_room_ ? wanted_size_ : 0;
}

bool Membership::may_grow_in_sync() const {
  return standing_.is_sequencer() && standing_.in_sync() && !standing_.gated && !resync_.active() &&
         size_to_take() > store_.volume_size();
}

/// The only member, and nobody there who would serve another size: its next epoch names it again. A partner that comes
/// back makes room and adopts.
void Membership::grow_alone() {
  if (!standing_.is_alone() || standing_.gated || change_ || closed() || store_.failed) return;
  if (partner_.connected() || partner_.in_contact() || resync_.active()) return;
  if (wanted_size_ <= store_.volume_size() || wanted_size_ > store_.room()) return;
  mark<"membership.grows_alone">();
  engine::EpochRecord next = next_epoch(standing_.epoch(), engine::MemberSet::only(standing_.side()), standing_.side(),
                                        random_.uuid(), witnessing_.attempted());
  next.size = wanted_size_;
  const std::uint64_t step = begin_step(Step::driving);
  close_gate();
  sequencer_.drain([this, step, next] {
    if (!current(step)) return;
    record(next, [this, step](std::error_code error) {
      if (!current(step)) return;
      end_step();
      if (!error) apply(event::AloneRecorded{});
    });
  });
}

}  // namespace lockstep::replication
