#include "replication/core/cleaner.hpp"

#include <algorithm>
#include <memory>

#include "engine/base/byte_order.hpp"
#include "replication/core/marks.hpp"

namespace lockstep::replication {

using engine::Errc;
using engine::IoResult;

/// A store tells of what it lost once: another flush may go well behind one that failed.
bool Cleaner::may_clear() const { return outbound_.ready && !store_.failed && !store_.flush_failed; }

void Cleaner::tick() {
  const bool kept_equal =
      (standing_.in_sync() && standing_.is_sequencer()) || (standing_.is_alone() && resync_.mirroring());
  if (busy() || !kept_equal || !may_clear() || standing_.gated || !resync_.knows_unequal()) return;
  gather();
  if (batch_.empty()) return;
  flushes_ = 3;
  flushed_well_ = true;
  began_ = clock_.now();
  const std::uint64_t run = resync_.run();
  busy_in_ = run;
  store_.data.flush(counted(store_.owed, [this, run](std::error_code error) {
    if (error) store_.fail_flush(error);
    on_flushed(run, !error);
  }));
  outbound_.send(outbound_.message(MessageType::flush), {}, {},
                 counted(outbound_.owed, [this, run](const IoResult<Message>& result) {
                   on_flushed(run, result && result->status == Errc::ok);
                 }));
  // Where a bit was cleared, only this tells a copy of before that it lacks what was written.
  generations_.raise([this, run](bool raised) { on_flushed(run, raised); });
}

/// Dirty regions that are cold, or any that rest when too many are dirty.
void Cleaner::gather() {
  batch_.clear();
  const bool too_many = store_.meta->dirty_count() * store_.region_size() > settings_.dirty_bound;
  const auto cold = too_many ? engine::Duration{0} : settings_.clean_after;
  const engine::TimePoint now = clock_.now();
  const engine::TimePoint limit{now.since_origin > cold ? now.since_origin - cold : engine::Duration{0}};
  for (std::size_t seen = 0; seen < 4 * kBatch && batch_.size() < kBatch; ++seen) {
    const auto next = store_.meta->next_dirty(cursor_);
    if (!next) {
      cursor_ = 0;
      break;
    }
    cursor_ = *next + 1;
    const bool quiet = regions_.quiet_since(*next, limit);
    if (quiet && !resync_.is_unequal(*next) && !store_.may_be_noise(*next)) batch_.push_back(*next);
  }
}

void Cleaner::on_flushed(std::uint64_t run, bool ok) {
  if (run != resync_.run()) return;
  flushed_well_ &= ok;
  if (--flushes_) return;
  busy_in_.reset();
  if (flushed_well_ && may_clear()) clear();
  batch_.clear();
}

void Cleaner::clear() {
  std::erase_if(batch_, [this](std::uint64_t region) {
    return resync_.is_unequal(region) || !regions_.quiet_since(region, began_);
  });
  if (batch_.empty()) return;
  mark<"cleaner.cleared">();
  auto bytes = std::make_unique<std::vector<std::byte>>(batch_.size() * 8);
  for (std::size_t i = 0; i < batch_.size(); ++i) {
    engine::store_be<std::uint64_t>(bytes->data() + i * 8, batch_[i]);
    regions_.forget(batch_[i]);
  }
  const std::span<const std::byte> payload = *bytes;
  outbound_.send(outbound_.message(MessageType::clear), payload, {},
                 [keep = std::move(bytes)](const IoResult<Message>&) {});
  store_.meta->clear_dirty(batch_, [](std::error_code) {});
}

}  // namespace lockstep::replication
