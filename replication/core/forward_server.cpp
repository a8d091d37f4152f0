#include "replication/core/forward_server.hpp"

#include "replication/core/front.hpp"
#include "replication/core/lu_state_keeper.hpp"

namespace lockstep::replication {

using engine::DiskOpcode;
using engine::Errc;

namespace {
/// Answered with bytes that are read anew when it comes again.
bool fetches(DiskOpcode opcode) {
  return opcode == DiskOpcode::read || opcode == DiskOpcode::read_state || opcode == DiskOpcode::find_run;
}

std::size_t bytes_fetched(const Message& m) {
  return m.opcode == DiskOpcode::read       ? m.extent.length
         : m.opcode == DiskOpcode::find_run ? engine::kRunSize
                                            : scsi::kMaxLuState;
}
}  // namespace

ForwardServer::~ForwardServer() = default;

bool ForwardServer::is_well_formed(const InboundRequest& request, const Message& m) const {
  const std::size_t sent = request.payload().size(), room = request.max_answer_payload();
  if (m.opcode == DiskOpcode::flush) return true;
  if (m.opcode == DiskOpcode::check_access) return sent == 0;
  if (m.opcode == DiskOpcode::read_state) return sent == 0 && room >= scsi::kMaxLuState;
  if (m.opcode == DiskOpcode::change_state) {
    return sent > 0 && sent <= scsi::kMaxLuRequest && room >= scsi::kLuAnswerSize;
  }
  const std::uint64_t block = core_.info.block_size;
  if (m.extent.empty() || !m.extent.fits(core_.volume_size())) return false;
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
      return payload == 0 && core_.info.encrypted;
    default:
      return payload == 0;
  }
}

void ForwardServer::take(InboundRequest& request, const Message& m) {
  if (!is_well_formed(request, m)) {
    // One that was set back, or has not heard yet that the volume grew, knows of no extent that it is out of range.
    const bool knows = m.epoch == core_.epoch().id && core_.orders();
    return answer(request, m, knows ? Errc::out_of_range : Errc::stale);
  }
  forget_below(m.lowest_tag);
  forget(m.watermark);
  if (m.tag < lowest_) return answer(request, m, Errc::stale);
  const auto found = entries_.find(m.tag);
  if (found == entries_.end()) return begin(request, m);
  ForwardEntry& entry = *found->second;
  mark<"forward.came_again">();
  if (entry.op) {
    if (entry.again) answer(*entry.again, entry.message, Errc::stale);
    entry.again = &request;
    return;
  }
  if (fetches(m.opcode)) {
    entries_.erase(found);
    return begin(request, m);
  }
  respond(request, m, entry);
}

void ForwardServer::begin(InboundRequest& request, const Message& m) {
  if (m.epoch != core_.epoch().id || core_.gated || !core_.orders()) return answer(request, m, Errc::stale);
  const std::uint64_t stamp = changes_nothing(m.opcode) ? m.stamp : core_.partner.stamp_less(m.stamp, m.number);
  if (!core_.partner.is_fresh(stamp)) {
    mark<"forward.too_old">();
    return answer(request, m, Errc::stale);
  }
  if (entries_.size() >= kMaxEntries) return answer(request, m, Errc::stale);
  if (!core_.lu->takes(m)) return answer(request, m, Errc::aborted);
  auto owned = std::make_unique<ForwardEntry>();
  ForwardEntry& entry = *owned;
  entry.tag = m.tag;
  entry.stamp = stamp;
  entry.message = m;
  entry.carrier = &request;
  Op& op = core_.ops.make(core_);
  if (fetches(m.opcode)) {
    entry.buffer = core_.seams.buffers.allocate(bytes_fetched(m));
    if (!entry.buffer) {
      core_.ops.destroy(op);
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
  entries_[m.tag] = std::move(owned);
  core_.front->route(op);
}

void ForwardServer::take_cancel(InboundRequest& request, const Message& m) {
  const auto found = entries_.find(m.tag);
  if (found != entries_.end() && found->second->op) {
    mark<"forward.cancelled_here">();
    core_.end_unstarted(Selection::of(*found->second));
  }
  const auto left = entries_.find(m.tag);
  answer(request, m, left != entries_.end() && left->second->op ? Errc::unknown_outcome : Errc::ok);
}

void ForwardServer::finished(Op& op) {
  ForwardEntry& entry = *op.entry;
  entry.status = to_errc(op.status);
  entry.miscompare_offset = op.miscompare_offset;
  entry.bytes = op.opcode == DiskOpcode::read ? entry.buffer.span().size() : op.transferred;
  entry.lu_answer = op.lu_answer;
  entry.op = nullptr;
  core_.ops.destroy(op);
  InboundRequest* carrier = std::exchange(entry.carrier, nullptr);
  InboundRequest* again = std::exchange(entry.again, nullptr);
  const Message question = entry.message;
  const bool orphan = std::erase_if(orphans_, [&](auto& o) { return o.get() == &entry; }) > 0;
  if (orphan) {
    if (again) answer(*again, question, Errc::stale);
    return answer(*carrier, question, Errc::stale);
  }
  // What was not carried out is not remembered: it may come again and then be carried out.
  // Nor what was given up while it was carried out: nobody asks for it, and nothing would ever forget it.
  // A store's error is no refusal: its effect may be there, and what compares would find it.
  const bool begun = entry.status == Errc::ok || entry.status == Errc::miscompare || entry.status == Errc::io_error;
  const bool keep = begun && question.tag >= lowest_;
  if (again) {
    answer(*carrier, question, Errc::stale);
    respond(*again, question, entry);
  } else {
    respond(*carrier, question, entry);
  }
  if (!keep || fetches(question.opcode)) entries_.erase(question.tag);
}

void ForwardServer::respond(InboundRequest& request, const Message& question, const ForwardEntry& entry) {
  Message header;
  header.type = MessageType::forward;
  header.volume = question.volume;
  header.status = entry.status;
  header.tag = entry.miscompare_offset;
  if (question.opcode == DiskOpcode::change_state && entry.status == Errc::ok) {
    auto keep = std::make_unique<decltype(entry.lu_answer)>(entry.lu_answer);
    const std::span<const std::byte> bytes = *keep;
    return answer(request, header, bytes, [keep = std::move(keep)] {});
  }
  if (!fetches(question.opcode) || entry.status != Errc::ok) return answer(request, header);
  auto keep = std::make_unique<engine::Buffer>(std::move(const_cast<ForwardEntry&>(entry).buffer));
  const std::span<const std::byte> bytes = keep->span().first(entry.bytes);
  answer(request, header, bytes, [keep = std::move(keep)] {});
}

/// The partner had the answer to it.
void ForwardServer::forget(std::uint64_t tag) {
  const auto found = tag ? entries_.find(tag) : entries_.end();
  if (found != entries_.end() && !found->second->op) entries_.erase(found);
}

void ForwardServer::forget_below(std::uint64_t tag) {
  if (tag <= lowest_) return;
  for (; lowest_ < tag && tag - lowest_ <= kMaxEntries; ++lowest_) {
    const auto found = entries_.find(lowest_);
    if (found != entries_.end() && !found->second->op) entries_.erase(found);
  }
  if (lowest_ < tag) {
    std::erase_if(entries_, [&](const auto& e) { return e.first < tag && !e.second->op; });
    lowest_ = tag;
  }
}

void ForwardServer::on_partner_restarted() {
  for (auto& [tag, entry] : entries_) {
    if (entry->op) orphans_.push_back(std::move(entry));
  }
  entries_.clear();
  lowest_ = 0;
}

}  // namespace lockstep::replication
