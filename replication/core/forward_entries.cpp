#include "replication/core/forward_entries.hpp"

namespace lockstep::replication {

using engine::DiskOpcode;
using engine::Errc;

bool fetches(DiskOpcode opcode) {
  return opcode == DiskOpcode::read || opcode == DiskOpcode::read_state || opcode == DiskOpcode::find_run;
}

ForwardEntries::~ForwardEntries() = default;

ForwardEntry* ForwardEntries::find(std::uint64_t tag) {
  const auto found = entries_.find(tag);
  return found == entries_.end() ? nullptr : found->second.get();
}

void ForwardEntries::add(std::unique_ptr<ForwardEntry> entry) {
  const std::uint64_t tag = entry->tag;
  entries_[tag] = std::move(entry);
}

void ForwardEntries::finished(Op& op) {
  ForwardEntry& entry = *op.entry;
  entry.status = to_errc(op.status);
  entry.miscompare_offset = op.miscompare_offset;
  entry.bytes = op.opcode == DiskOpcode::read ? entry.buffer.span().size() : op.transferred;
  entry.lu_answer = op.lu_answer;
  entry.op = nullptr;
  operations_.pool.destroy(op);
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
  const bool keep = begun && !entry.acknowledged && question.tag >= lowest_;
  if (again) {
    answer(*carrier, question, Errc::stale);
    respond(*again, question, entry);
  } else {
    respond(*carrier, question, entry);
  }
  if (!keep || fetches(question.opcode)) entries_.erase(question.tag);
}

namespace {
Message half_done_answer(const Message& question, const engine::Uuid& epoch) {
  Message header;
  header.type = MessageType::forward;
  header.answer = true;
  header.flags = kFlagHalfDone;
  header.volume = question.volume;
  header.epoch = epoch;
  return header;
}
}  // namespace

/// What brought it keeps its data for the order, which the partner may be unable to carry out without them.
void ForwardEntries::half_done(ForwardEntry& entry, const engine::Uuid& epoch) {
  if (!(entry.message.flags & kFlagByReference) || std::exchange(entry.half_done, true)) return;
  InboundRequest* again = std::exchange(entry.again, nullptr);
  if (again) return respond_half_done(*again, entry.message, epoch);
  entry.carrier->answer_early(encode(half_done_answer(entry.message, epoch)));
}

void ForwardEntries::respond_half_done(InboundRequest& request, const Message& question, const engine::Uuid& epoch) {
  answer(request, half_done_answer(question, epoch));
}

void ForwardEntries::respond(InboundRequest& request, const Message& question, ForwardEntry& entry) {
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
  auto keep = std::make_unique<engine::Buffer>(std::move(entry.buffer));
  const std::span<const std::byte> bytes = keep->span().first(entry.bytes);
  answer(request, header, bytes, [keep = std::move(keep)] {});
}

void ForwardEntries::forget(std::uint64_t tag) {
  const auto found = tag ? entries_.find(tag) : entries_.end();
  if (found == entries_.end()) return;
  found->second->acknowledged = true;
  if (!found->second->op) entries_.erase(found);
}

void ForwardEntries::forget_below(std::uint64_t tag) {
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

void ForwardEntries::on_partner_restarted() {
  for (auto& [tag, entry] : entries_) {
    if (entry->op) orphans_.push_back(std::move(entry));
  }
  entries_.clear();
  lowest_ = 0;
}

}  // namespace lockstep::replication
