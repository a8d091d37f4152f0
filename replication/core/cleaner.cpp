#include "replication/core/cleaner.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include "engine/base/byte_order.hpp"
#include "replication/core/marks.hpp"

namespace lockstep::replication {

using engine::Errc;
using engine::IoResult;

bool Cleaner::may_clear() const { return outbound_.ready && !store_.failed; }

void Cleaner::tick() {
  const engine::TimePoint now = clock_.now();
  // What is not equal yet is dirty however fast this node cleans.
  const std::uint64_t dirty = store_.meta->dirty_count(), unequal = resync_.unequal();
  pace_.look(now, dirty - std::min(dirty, unequal));
  if (!pace_.is_due(now)) return;
  const bool kept_equal =
      (standing_.in_sync() && standing_.is_sequencer()) || (standing_.is_alone() && resync_.mirroring());
  if (busy() || !kept_equal || !may_clear() || standing_.gated || !resync_.knows_unequal()) return;
  pace_.begin(now);
  gather();
  if (batch_.empty()) return;
  flushes_ = 3;
  flushed_well_ = true;
  began_ = now;
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

bool Cleaner::may_be_cleaned(std::uint64_t region, engine::TimePoint quiet_since) const {
  return !resync_.is_unequal(region) && !store_.may_be_noise(region) && regions_.quiet_since(region, quiet_since);
}

/// Dirty regions that are cold, and where too many are dirty, as many as that that rest. What is noise counts as dirty,
/// and none of it can be had: a larger batch would be looked for in vain.
void Cleaner::gather() {
  batch_.clear();
  const std::size_t largest = store_.noise_from ? kBatch : CleaningWalk::kMostSeen;
  const std::size_t too_many = std::min<std::uint64_t>(pace_.too_many(), largest);
  const engine::TimePoint now = clock_.now();
  const auto cold = std::min(now.since_origin, settings_.clean_after);
  const engine::TimePoint long_ago{now.since_origin - cold};
  walk_.look(
      std::max(kBatch, too_many), [this](std::uint64_t from) { return store_.meta->next_dirty(from); },
      [&](std::uint64_t region) {
        if (!may_be_cleaned(region, batch_.size() < too_many ? now : long_ago)) return false;
        batch_.push_back(region);
        return true;
      });
}

void Cleaner::on_flushed(std::uint64_t run, bool ok) {
  if (run != resync_.run()) return;
  flushed_well_ &= ok;
  if (--flushes_) return;
  busy_in_.reset();
  const std::uint64_t before = store_.meta->dirty_count();
  if (flushed_well_ && may_clear()) clear();
  pace_.end(began_, clock_.now(), before - store_.meta->dirty_count());
  batch_.clear();
}

void Cleaner::clear() {
  std::erase_if(batch_, [this](std::uint64_t region) {
    return resync_.is_unequal(region) || !regions_.quiet_since(region, began_);
  });
  if (batch_.empty()) return;
  mark<"cleaner.cleared">();
  for (const std::uint64_t region : batch_) regions_.forget(region);
  for (std::span<const std::uint64_t> rest = batch_; !rest.empty();) {
    const std::size_t count = std::min(rest.size(), kMostInAMessage);
    send_clear(rest.first(count));
    rest = rest.subspan(count);
  }
  store_.meta->clear_dirty(std::move(batch_), [](std::error_code) {});
}

void Cleaner::send_clear(std::span<const std::uint64_t> regions) {
  auto bytes = std::make_unique<std::vector<std::byte>>(regions.size() * 8);
  for (std::size_t i = 0; i < regions.size(); ++i) {
    engine::store_be<std::uint64_t>(bytes->data() + i * 8, regions[i]);
  }
  const std::span<const std::byte> payload = *bytes;
  outbound_.send(outbound_.message(MessageType::clear), payload, {},
                 [keep = std::move(bytes)](const IoResult<Message>&) {});
}

}  // namespace lockstep::replication
