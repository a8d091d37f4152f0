#include "engine/rdma/real/flow.hpp"

#include <algorithm>

namespace lockstep::rdma {

SendFlow::Posted SendFlow::post(Work work, std::uint64_t id) {
  assert(may_post(work) && work != Work::receive);
  const std::uint32_t sequence = (first_ + count_) & WorkTag::kSequences;
  // The one that fills the queue is signalled, too: nothing could follow it, and room is learnt of by completions only.
  const bool signalled = id != 0 || work == Work::read || unsignalled_ + 1 >= kSignalEvery || count_ + 1 == depth_;
  unsignalled_ = signalled ? 0 : unsignalled_ + 1;
  awaited_ += signalled ? 1 : 0;
  reading_ += work == Work::read ? 1 : 0;
  hiding_ += work == Work::hide && id != 0 ? 1 : 0;
  at(sequence) = {id, work, signalled};
  ++count_;
  return {sequence, signalled};
}

std::optional<SendFlow::Entry> SendFlow::complete(std::uint32_t sequence) {
  const std::uint32_t ahead = (sequence - first_) & WorkTag::kSequences;
  if (ahead >= count_) return {};
  Entry entry;
  for (std::uint32_t i = 0; i <= ahead; ++i) {
    entry = at(first_);
    first_ = (first_ + 1) & WorkTag::kSequences;
    --count_;
    if (entry.signalled) --awaited_;
    if (entry.work == Work::read) --reading_;
    if (entry.work == Work::hide && entry.id != 0) --hiding_;
  }
  awaited_by_user_ -= std::min(awaited_by_user_, ahead + 1);
  return entry;
}

bool SendFlow::reads_silently() const {
  for (std::uint32_t i = 0; i < count_; ++i) {
    const Entry& entry = entries_[(first_ + i) & (entries_.size() - 1)];
    if (!entry.signalled && entry.work == Work::write) return true;
  }
  return false;
}

}  // namespace lockstep::rdma
