// Regions that this node's store can't read: made equal with the partner's bytes in sync, set aside otherwise.
#include <algorithm>
#include <utility>

#include "replication/core/marks.hpp"
#include "replication/core/resync_copy.hpp"

namespace lockstep::replication {

using engine::Errc;
using engine::Extent;
using engine::IoResult;

/// Alone, only this store has these bytes: its blocks are looked at one by one, so that the bad ones can be named.
void Resync::on_unreadable(Copy& copy) {
  mark<"resync.source_unreadable">();
  ++store_.read_errors.met;
  solo_ ? next_part(copy) : fetch_part(copy);
}

void Resync::fetch_part(Copy& copy) {
  if (!outbound_.ready) return end(copy, false);
  mark<"resync.fetched_from_partner">();
  put_on_link(copy);
  Message m = outbound_.message(MessageType::fetch);
  m.extent = copy.part;
  outbound_.send(m, {}, copy.bytes(),
                 [this, &copy](const IoResult<Message>& result) { on_part_fetched(copy, result); });
}

/// Still marked busy: what is told of a refusal may stop the resync, which leaves a busy copy to end here.
void Resync::on_part_fetched(Copy& copy, const IoResult<Message>& result) {
  copy.on_link = false;
  if (copy.run != run_) return end(copy, false);
  if (!result) {
    pause_until_ = clock_.now() + std::chrono::milliseconds(50);
    return end(copy, false);
  }
  const bool whole = !copy.by_block;
  if (result->status == Errc::ok && result->payload == copy.part.length) {
    copy.busy = false;
    copy.is_partners = whole;
    return whole ? mark_and_write_back(copy) : next_part(copy);
  }
  if (result->status == Errc::io_error) {
    copy.busy = false;
    if (!whole) lose_part(copy, copy.part);
    return next_part(copy);
  }
  user_.on_partner_refused();
  if (copy.run != run_) return end(copy, false);
  set_aside(copy, false);
}

void Resync::read_part(Copy& copy) {
  copy.busy = copy.reading = true;
  copy.since = clock_.now();
  store_.data.read(copy.part.offset, copy.bytes(), [this, &copy](std::error_code error) {
    copy.busy = copy.reading = false;
    store_.note_returned();
    if (copy.run != run_) return end(copy, false);
    if (!error) return next_part(copy);
    if (!solo_) return fetch_part(copy);
    lose_part(copy, copy.part);
    next_part(copy);
  });
}

/// The last one, or more of it.
void Resync::lose_part(Copy& copy, Extent part) {
  if (!copy.lost.empty() && copy.lost.back().end() >= part.offset) {
    copy.lost.back().length = part.end() - copy.lost.back().offset;
  } else {
    copy.lost.push_back(part);
  }
}

/// A disk that is to write a part of a physical block reads the rest first: where that is lost here or at the partner,
/// what is known of the block can't be written there either.
void Resync::lose_whole_blocks(Copy& copy) {
  for (const Extent lost : std::exchange(copy.lost, {}))
    lose_part(copy, store_.blocks_around(lost, copy.lock.extent()));
}

/// The next block; the first one after all of it could not be read.
void Resync::next_part(Copy& copy) {
  const Extent all = copy.lock.extent();
  const bool next = std::exchange(copy.by_block, true);
  copy.part = {next ? copy.part.end() : all.offset, store_.info.block_size};
  copy.part.offset < all.end() ? read_part(copy) : on_all_parts(copy);
}

/// In sync, what is known is written here and sent, run by run; alone, a region with a hole is nothing to send.
void Resync::on_all_parts(Copy& copy) {
  copy.part = copy.lock.extent();
  if (copy.lost.empty()) return solo_ && !must_write_back(copy) ? send(copy) : mark_and_write_back(copy);
  if (solo_) return set_aside(copy, false);
  lose_whole_blocks(copy);
  std::uint64_t from = copy.part.offset;
  for (const Extent lost : copy.lost) {
    if (lost.offset > from) copy.runs.push_back({from, lost.offset - from});
    from = lost.end();
  }
  if (copy.part.end() > from) copy.runs.push_back({from, copy.part.end() - from});
  next_run(copy);
}

/// What was written here and sent is equal; with what is lost the region is not, and its bits stay.
void Resync::next_run(Copy& copy) {
  if (copy.runs.empty()) {
    if (copy.mends && copy.lost.empty()) ++store_.read_errors.rewritten;
    return copy.lost.empty() ? end(copy, true) : set_aside(copy, true);
  }
  copy.part = copy.runs.back();
  copy.runs.pop_back();
  mark_and_write_back(copy);
}

/// The union of the maps may not be durable here yet.
void Resync::mark_and_write_back(Copy& copy) {
  copy.busy = copy.mends = true;
  store_.meta->set_dirty(copy.lock.extent(), [this, &copy](std::error_code error) {
    copy.busy = false;
    if (error) store_.fail_metadata("The dirty map can't be written.");
    if (error || copy.run != run_) return end(copy, false);
    write_back(copy);
  });
}

/// Too many are no medium's defects: the store is broken, and in sync the partner goes on with its own.
void Resync::set_aside(Copy& copy, bool examined) {
  if (unreadable_.size() >= kMostUnreadable && !unreadable_.contains(copy.region)) {
    mark<"resync.too_many_unreadable">();
    if (examined) store_.fail("The store can't read too many places.");
    pause_until_ = clock_.now() + std::chrono::seconds(1);
    return end(copy, false);
  }
  Unreadable& entry = unreadable_[copy.region];
  // A refusal tells nothing of the medium.
  entry.wait = examined || solo_ ? std::min(std::max(2 * entry.wait, kReadAgain), kReadAgainAtLast) : kAskAgain;
  entry.again = clock_.now() + entry.wait;
  entry.examined |= examined;
  if (examined || solo_) entry.lost = std::move(copy.lost);
  entry.unwritable = copy.unwritable;
  if (examined) mark<"resync.lost_on_both">();
  end(copy, false);
}

/// It waits to be tried again.
bool Resync::waits(std::uint64_t region) const {
  if (unreadable_.empty()) return false;
  const auto found = unreadable_.find(region);
  return found != unreadable_.end() && clock_.now() < found->second.again;
}

bool Resync::is_examined(std::uint64_t region) const {
  const auto found = unreadable_.find(region);
  return found != unreadable_.end() && found->second.examined;
}

bool Resync::is_lost(Extent extent) const {
  if (unreadable_.empty() || solo_) return false;
  const auto end = unreadable_.lower_bound((extent.end() + store_.region_size() - 1) / store_.region_size());
  for (auto at = unreadable_.lower_bound(extent.offset / store_.region_size()); at != end; ++at) {
    if (std::ranges::any_of(at->second.lost, [extent](const Extent& lost) { return lost.overlaps(extent); }))
      return true;
  }
  return false;
}

namespace {
std::vector<Extent> without(const std::vector<Extent>& extents, Extent taken) {
  std::vector<Extent> rest;
  for (const Extent e : extents) {
    if (!e.overlaps(taken)) {
      rest.push_back(e);
      continue;
    }
    if (e.offset < taken.offset) rest.push_back({e.offset, taken.offset - e.offset});
    if (e.end() > taken.end()) rest.push_back({taken.end(), e.end() - taken.end()});
  }
  return rest;
}
}  // namespace

/// Looked at again soon, not from here: an operation is just ending.
void Resync::mend_written(Extent extent) {
  const auto end = unreadable_.lower_bound((extent.end() + store_.region_size() - 1) / store_.region_size());
  for (auto at = unreadable_.lower_bound(extent.offset / store_.region_size()); at != end;) {
    Unreadable& entry = at->second;
    const bool was_bad = !entry.lost.empty();
    entry.lost = without(entry.lost, extent);
    if (!was_bad || !entry.lost.empty()) {
      ++at;
      continue;
    }
    mark<"resync.lost_was_written">();
    entry.again = clock_.now();
    if (entry.examined) set(at->first, false);
    entry.examined ? void(at = unreadable_.erase(at)) : void(++at);
    look_again_in(engine::Duration{0});
  }
}

/// What there is to say of it, or no more, is told outside of any operation.
void Resync::tell_unreadable() {
  const bool bad = !why_unreadable().empty();
  if (std::exchange(told_unreadable_, bad) != bad) changed_();
}

bool Resync::writes_here() const {
  return std::ranges::any_of(copies_, [](const Copy* c) { return c->writing; });
}

std::string Resync::why_unreadable() const {
  const auto is_bad = [](const auto& each) { return !each.second.lost.empty(); };
  const auto bad = std::ranges::find_if(unreadable_, is_bad);
  if (bad == unreadable_.end()) return {};
  const auto others = std::ranges::count_if(unreadable_, is_bad) - 1;
  const std::string block = std::to_string(bad->second.lost.front().offset / store_.info.block_size);
  const std::string more = others == 0 ? "" : " (and others in " + std::to_string(others) + " more regions)";
  if (!solo_) {
    return "Block " + block + more + " can be read on neither node: hosts are told a medium error there. Have it " +
           "written anew, from a backup of what it belongs to; until then the volume does not grow, nor get another "
           "arbiter.";
  }
  const std::string what = bad->second.unwritable ? "can't be written (" : "can't be read (";
  return "Block " + block + more + " of this copy, the only one, " + what + store_.data.info().name +
         "): until it is written the partner can't be brought up to date. Have it written anew, from a backup of what "
         "it belongs to; then look at that disk.";
}

}  // namespace lockstep::replication
