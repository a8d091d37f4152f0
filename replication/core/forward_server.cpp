#include "replication/core/forward_server.hpp"

#include "replication/core/marks.hpp"

namespace lockstep::replication {

using engine::DiskOpcode;
using engine::Errc;

namespace {
std::size_t bytes_fetched(const Message& m) {
  return m.opcode == DiskOpcode::read       ? m.extent.length
         : m.opcode == DiskOpcode::find_run ? engine::kRunSize
                                            : scsi::kMaxLuState;
}
}  // namespace

bool ForwardServer::is_well_formed(const InboundRequest& request, const Message& m) const {
  const std::size_t sent = request.payload().size(), room = request.max_answer_payload();
  if (m.opcode == DiskOpcode::flush) return true;
  if (m.opcode == DiskOpcode::check_access) return sent == 0;
  if (m.opcode == DiskOpcode::read_state) return sent == 0 && room >= scsi::kMaxLuState;
  if (m.opcode == DiskOpcode::change_state) {
    return sent > 0 && sent <= scsi::kMaxLuRequest && room >= scsi::kLuAnswerSize;
  }
  const std::uint64_t block = store_.info.block_size;
  if (m.extent.empty() || !m.extent.fits(store_.volume_size())) return false;
  if (m.extent.offset % block || m.extent.length % block) return false;
  const std::size_t payload = request.payload().size();
  switch (m.opcode) {
    case DiskOpcode::read:
      return m.extent.length <= kMaxPiece && m.extent.length <= request.max_answer_payload();
    case DiskOpcode::find_run:
      return payload == 0 && room >= engine::kRunSize;
    case DiskOpcode::write:
    case DiskOpcode::verify:
      return payload == m.extent.length;
    case DiskOpcode::compare_and_write:
      return m.extent.length <= Front::kMaxCompareAndWrite && payload == 2 * m.extent.length;
    case DiskOpcode::write_same:
      return payload == block;
    case DiskOpcode::renew_key:
      return payload == 0 && store_.info.encrypted;
    default:
      return payload == 0;
  }
}

namespace {
/// Whether both may be sendings of one forward. It may be sent again only to ask whether the unit's state still refuses
/// it.
bool may_be_one(const Message& first, const Message& again) {
  const bool asks = again.opcode == DiskOpcode::check_access || first.opcode == DiskOpcode::check_access;
  return (asks || again.opcode == first.opcode) && again.extent == first.extent && again.nexus == first.nexus;
}
}  // namespace

/// No process gives a tag twice but one whose memory was set back: the result of the other forward is not this one's.
void ForwardServer::refuse_tag(InboundRequest& request, const Message& m) {
  mark<"forward.tag_used_twice">();
  answer(request, m, Errc::corrupt);
  partner_.found_partner_set_back(m.process);
}

void ForwardServer::take(InboundRequest& request, const Message& m) {
  if (!is_well_formed(request, m)) {
    // One that was set back, or has not heard yet that the volume grew, knows of no extent that it is out of range.
    const bool knows = m.epoch == standing_.epoch().id && standing_.orders();
    return answer(request, m, knows ? Errc::out_of_range : Errc::stale);
  }
  entries_.forget_below(m.lowest_tag);
  entries_.forget(m.watermark);
  if (m.tag < entries_.lowest()) return answer(request, m, Errc::stale);
  ForwardEntry* found = entries_.find(m.tag);
  if (!found) return begin(request, m);
  ForwardEntry& entry = *found;
  if (!may_be_one(entry.message, m)) return refuse_tag(request, m);
  mark<"forward.came_again">();
  if (entry.op) {
    if (m.opcode != entry.message.opcode) return answer(request, m, Errc::stale);
    if (entry.half_done && standing_.in_sync()) {
      return ForwardEntries::respond_half_done(request, m, standing_.epoch().id);
    }
    if (entry.again) answer(*entry.again, entry.message, Errc::stale);
    entry.again = &request;
    return;
  }
  // Whether the unit's state refuses an operation is no result of the operation.
  if (fetches(m.opcode) || entry.message.opcode == DiskOpcode::check_access) {
    entries_.erase(m.tag);
    return begin(request, m);
  }
  ForwardEntries::respond(request, m, entry);
}

void ForwardServer::begin(InboundRequest& request, const Message& m) {
  if (m.epoch != standing_.epoch().id || standing_.gated || !standing_.orders()) return answer(request, m, Errc::stale);
  const std::uint64_t stamp = changes_nothing(m.opcode) ? m.stamp : partner_.stamp_less(m.stamp, m.number);
  if (!partner_.is_fresh(stamp)) {
    mark<"forward.too_old">();
    return answer(request, m, Errc::stale);
  }
  if (entries_.size() >= ForwardEntries::kMaxEntries) return answer(request, m, Errc::stale);
  if (!lu_.takes(m)) return answer(request, m, Errc::aborted);
  auto owned = std::make_unique<ForwardEntry>();
  ForwardEntry& entry = *owned;
  entry.tag = m.tag;
  entry.stamp = stamp;
  entry.message = m;
  entry.carrier = &request;
  Op& op = operations_.pool.make();
  if (fetches(m.opcode)) {
    entry.buffer = buffers_.allocate(bytes_fetched(m));
    if (!entry.buffer) {
      operations_.pool.destroy(op);
      return answer(request, m, Errc::stale);
    }
  }
  entry.op = &op;
  op.entry = &entry;
  op.opcode = m.opcode;
  op.fua = m.flags & kFlagFua;
  op.may_unmap = m.flags & kFlagMayUnmap;
  op.extent = m.extent;
  op.data = fetches(m.opcode) ? entry.buffer.span() : request.payload();
  op.nexus = m.nexus;
  entries_.add(std::move(owned));
  front_.route(op);
}

void ForwardServer::take_cancel(InboundRequest& request, const Message& m) {
  const ForwardEntry* found = entries_.find(m.tag);
  if (found && found->op) {
    mark<"forward.cancelled_here">();
    front_.end_unstarted(Selection::of(*found));
  }
  const ForwardEntry* left = entries_.find(m.tag);
  answer(request, m, left && left->op ? Errc::unknown_outcome : Errc::ok);
}

}  // namespace lockstep::replication
