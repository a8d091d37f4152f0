#include <algorithm>
#include <bit>
#include <cstring>

#include "engine/base/byte_order.hpp"
#include "replication/core/marks.hpp"
#include "replication/core/resync_copy.hpp"

namespace lockstep::replication {

using engine::Errc;
using engine::IoResult;
using engine::LockMode;

Resync::~Resync() {
  set_active(false);
  for (Copy* copy : copies_) copy->lock.granted = [](engine::RangeLock::Node&) {};
  for (Copy* copy : copies_) {
    store_.locks.cancel(copy->lock);
    delete copy;
  }
}

bool Resync::is_unequal(std::uint64_t region) const {
  if (!active_ || region / 64 >= words_.size()) return false;  // grew since: zeros on both
  return !known_ || (words_[region / 64] >> (region % 64) & 1);
}

void Resync::set(std::uint64_t region, bool unequal) {
  if (region / 64 >= words_.size()) return;
  std::uint64_t& word = words_[region / 64];
  const std::uint64_t bit = std::uint64_t{1} << (region % 64);
  if (bool(word & bit) == unequal) return;
  word ^= bit;
  unequal ? ++unequal_ : --unequal_;
}

void Resync::start(bool solo) {
  stop();
  set_active(true);
  solo_ = solo;
  words_.assign((store_.region_count() + 63) / 64, 0);
  began_ = clock_.now();
  store_.noise_from.reset();  // all of it is marked, and copied
  regions_.remember(true);
  ask_map();
}

void Resync::cover_volume() {
  if (active_) words_.resize((store_.region_count() + 63) / 64);
}

void Resync::stop() {
  ++run_;
  set_active(false);
  known_ = told_ = told_unreadable_ = map_asked_ = false;
  unequal_ = total_ = cursor_ = map_at_ = 0;
  words_.clear();
  unreadable_.clear();
  regions_.remember(standing_.in_sync());  // nobody else is kept equal
  const std::vector<Copy*> copies = copies_;
  for (Copy* copy : copies) {
    if (std::ranges::find(copies_, copy) != copies_.end() && !copy->busy) end(*copy, false);
  }
  wake();
}

/// While it is, operations that end tell how long they took.
void Resync::set_active(bool active) {
  if (std::exchange(active_, active) == active) return;
  active ? pace_.begin() : pace_.end();
  completions_.measure(active ? &governor_ : nullptr);
  if (active) return governor_.begin(clock_.now());
  clock_.cancel(std::exchange(timer_, engine::TimerId::none));
}

void Resync::go_on() {
  if (!active_) return;
  known_ ? pump() : ask_map();
}

// ---- the union of the maps ---------------------------------------------------------------------------------------

void Resync::ask_map() {
  if (map_asked_ || known_ || !outbound_.ready) return;
  const std::uint64_t count = std::min(kMapWords, words_.size() - map_at_);
  if (count == 0) return unite();
  if (!map_) map_ = buffers_.allocate(kMapWords * 8);
  if (!map_ || !share_.ready()) return;  // asked again with the next tick, or when there is room on the link
  map_asked_ = true;
  share_.take(count * 8);
  Message m = outbound_.message(MessageType::map);
  m.extent = {map_at_, count};
  const std::uint64_t run = run_;
  outbound_.send(m, {}, map_.span().first(count * 8),
                 counted(outbound_.owed, [this, run, bytes = count * 8](const IoResult<Message>& result) {
                   share_.give_back(bytes);
                   on_map(run, result);
                 }));
}

void Resync::on_map(std::uint64_t run, const IoResult<Message>& result) {
  if (run != run_) return;
  map_asked_ = false;
  const std::uint64_t count = std::min(kMapWords, words_.size() - map_at_);
  if (!result || result->status != Errc::ok || result->payload != count * 8) return;  // asked again with the next tick
  for (std::uint64_t i = 0; i < count; ++i) {
    words_[map_at_ + i] = engine::load_be<std::uint64_t>(map_.data() + i * 8);
  }
  map_at_ += count;
  ask_map();
}

/// This node's bits come last: whatever was written here without the partner was marked before that.
void Resync::unite() {
  const auto& mine = store_.meta->words();
  for (std::size_t i = 0; i < words_.size(); ++i) words_[i] |= mine[i];
  const std::uint64_t odd = store_.region_count() % 64;
  if (odd && !words_.empty()) words_.back() &= (std::uint64_t{1} << odd) - 1;
  unequal_ = 0;
  for (const std::uint64_t word : words_) unequal_ += static_cast<std::uint64_t>(std::popcount(word));
  total_ = unequal_;
  known_ = true;
  map_.reset();
  mark_union();
  changed_();
  wake();
  pump();
}

/// What only the partner has marked, too: bits are cleared on both by the node that orders, and it clears its own.
void Resync::mark_union() {
  ++marking_;
  store_.meta->set_dirty(words_, [this](std::error_code error) {
    --marking_;
    if (error) store_.fail_metadata("The dirty map can't be written: " + error.message() + ".");
  });
}

// ---- copying -----------------------------------------------------------------------------------------------------

bool Resync::is_being_copied(std::uint64_t region) {
  return std::ranges::any_of(copies_, [&](const Copy* c) { return c->region == region; });
}

/// The first unequal region from `region` on and before `end`; ranges of gigabytes are asked about again and again.
std::optional<std::uint64_t> Resync::next_unequal(std::uint64_t region, std::uint64_t end) const {
  if (!known_) return region < end ? std::optional(region) : std::nullopt;
  end = std::min<std::uint64_t>(end, words_.size() * 64);
  while (region < end) {
    const std::uint64_t rest = words_[region / 64] >> (region % 64);
    if (rest == 0) {
      region = (region / 64 + 1) * 64;
      continue;
    }
    region += static_cast<unsigned>(std::countr_zero(rest));
    return region < end ? std::optional(region) : std::nullopt;
  }
  return {};
}

/// What an operation waits for comes first.
std::optional<std::uint64_t> Resync::wanted_region() {
  for (const Op* op : waiting_) {
    const std::uint64_t end = (op->extent.end() + store_.region_size() - 1) / store_.region_size();
    auto r = next_unequal(op->extent.offset / store_.region_size(), end);
    while (r && (is_being_copied(*r) || waits(*r))) r = next_unequal(*r + 1, end);
    if (r) return r;
  }
  return {};
}

/// To find that out in the map of a large volume takes milliseconds.
bool Resync::nothing_to_begin() {
  if (unequal_ > copies_.size() + unreadable_.size()) return false;
  const auto is_copied = [this](const Copy* c) { return is_unequal(c->region); };
  auto rest = unequal_ - static_cast<std::uint64_t>(std::ranges::count_if(copies_, is_copied));
  for (const auto& [region, entry] : unreadable_) {
    if (waits(region) && is_unequal(region) && !is_being_copied(region)) --rest;
  }
  return rest == 0;
}

std::optional<std::uint64_t> Resync::next_in_walk() {
  if (nothing_to_begin()) return {};
  mark<"resync.walked">();
  for (std::uint64_t seen = 0; seen <= words_.size(); ++seen) {
    const std::uint64_t at = (cursor_ / 64) % words_.size();
    std::uint64_t word = words_[at];
    if (seen == 0) word &= ~std::uint64_t{0} << (cursor_ % 64);
    for (; word; word &= word - 1) {
      const std::uint64_t region = at * 64 + static_cast<unsigned>(std::countr_zero(word));
      if (is_being_copied(region) || waits(region)) continue;
      cursor_ = region + 1;
      return region;
    }
    cursor_ = (at + 1) % words_.size() * 64;
  }
  return {};
}

/// What an operation waits for (`wanted`) is not held back, and counts.
bool Resync::may_spend(std::uint64_t bytes, bool wanted) {
  const engine::TimePoint now = clock_.now();
  const ResyncLimits limits = pace_.share(settings_.resync_floor, settings_.resync_ceiling);
  const std::uint64_t rate = governor_.rate(now, limits);
  const std::uint64_t most = limits.ceiling == 0 ? ResyncGovernor::kFastest : limits.ceiling;
  const bool now_here = limit_.may_begin(now, rate), now_in_all = pace_.ceiling().may_begin(now, most);
  if (!wanted && !(now_here && now_in_all)) {
    look_again_in(std::max(limit_.wait(rate), pace_.ceiling().wait(most)));
    return false;
  }
  limit_.take(bytes);
  pace_.ceiling().take(bytes);
  governor_.spend(bytes);
  return true;
}

void Resync::look_again_in(engine::Duration delay) {
  if (timer_ != engine::TimerId::none) return;
  timer_ = clock_.call_after(delay, [this] {
    timer_ = engine::TimerId::none;
    go_on();
  });
}

void Resync::pump() {
  if (!active_ || !known_ || standing_.gated || !outbound_.ready) return;
  if (clock_.now() < pause_until_) return;
  while (unequal_ > 0 && copies_.size() < kMaxCopies) {
    if (!share_.ready()) return;
    const auto cursor = cursor_;
    auto region = wanted_region();
    const bool wanted = region.has_value();
    if (!wanted) region = next_in_walk();
    if (!region) return;
    if (!may_spend(store_.region_size(), wanted)) return void(cursor_ = cursor);
    const std::uint64_t run = run_;
    begin(*region);
    if (run != run_ || clock_.now() < pause_until_) return;
  }
  finish_if_equal();
}

void Resync::begin(std::uint64_t region) {
  auto buffer = buffers_.allocate(store_.region_extent(region).length);
  if (!buffer) {
    pause_until_ = clock_.now() + std::chrono::milliseconds(5);
    return;
  }
  Copy* copy = new Copy{.resync = *this, .run = run_, .region = region};
  copy->buffer = std::move(buffer);
  share_.take(copy->buffer.size());
  copies_.push_back(copy);
  copy->lock.owner = copy;
  copy->lock.granted = &Resync::on_granted;
  if (store_.locks.acquire(copy->lock, store_.region_extent(region), LockMode::shared)) read(*copy);
}

void Resync::on_granted(engine::RangeLock::Node& node) {
  Copy& copy = *static_cast<Copy*>(node.owner);
  copy.resync.read(copy);
}

void Resync::read(Copy& copy) {
  if (copy.run != run_) return end(copy, false);
  if (!is_unequal(copy.region)) return end(copy, true);  // it was written meanwhile
  copy.part = copy.lock.extent();
  copy.busy = true;
  copy.reading = true;
  copy.since = clock_.now();
  store_.data.read(copy.part.offset, copy.bytes(), [this, &copy](std::error_code error) {
    copy.busy = copy.reading = false;
    store_.note_returned();
    if (copy.run != run_) return end(copy, false);
    if (!error) return must_write_back(copy) ? write_back(copy) : send(copy);
    on_unreadable(copy);
  });
}

/// A store that refuses writes leaves as soon as the partner is equal: what that has counts from then on.
bool Resync::must_write_back(const Copy& copy) const {
  return store_.indeterminate.overlap(copy.part) && !(solo_ && store_.data.refuses_writes());
}

/// What a failed write left is not shown to the partner before it is durable here: it could be gone after a power cut,
/// and the partner's would be another truth. Nor is what this store could not read.
void Resync::write_back(Copy& copy) {
  if (store_.indeterminate.overlap(copy.part)) mark<"resync.settled_a_failed_write">();
  copy.busy = copy.reading = copy.writing = true;
  copy.since = clock_.now();
  auto written = [this, &copy](std::error_code error) {
    copy.busy = copy.reading = copy.writing = false;
    if (!error) store_.indeterminate.settle(copy.part);
    if (error && error != engine::Errc::no_space)
      store_.fail("The store could not rewrite what it could not read.", error);
    if (copy.run != run_) return end(copy, false);
    if (!error) return copy.is_partners ? next_run(copy) : send(copy);
    on_not_rewritten(copy, error);
  };
  space_.ensure(copy.part, [this, &copy, written](std::error_code error) {
    if (error) return written(error);
    if (copy.run != run_) return end(copy, false);
    store_.data.write(copy.part.offset, copy.bytes(), engine::Durability::durable,
                      [this, &copy, written, alone = solo_](std::error_code failed) {
                        // Alone it writes what it has read there, so that no more than before is doubted.
                        if (failed && !alone) store_.indeterminate.add(copy.part);
                        written(failed);
                      });
  });
}

/// Alone, its store stays in use: the region waits for a write, as one that can't be read does.
void Resync::on_not_rewritten(Copy& copy, std::error_code error) {
  copy.lost = store_.indeterminate.within(copy.part);
  copy.unwritable = solo_ && error != Errc::no_space && !copy.lost.empty();
  if (copy.unwritable) return set_aside(copy, false);
  pause_until_ = clock_.now() + std::chrono::seconds(1);
  end(copy, false);
}

namespace {
bool is_zero(std::span<const std::byte> bytes) {
  return bytes[0] == std::byte{0} && std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0;
}
}  // namespace

void Resync::put_on_link(Copy& copy) {
  copy.busy = copy.on_link = true;
  copy.since = clock_.now();
}

/// Zeros cross the link as a word, and stay a hole on a thin volume.
void Resync::send(Copy& copy) {
  if (!outbound_.ready) return end(copy, false);
  put_on_link(copy);
  Message m = outbound_.message(MessageType::copy);
  m.opcode = engine::DiskOpcode::write;
  m.extent = copy.part;
  std::span<const std::byte> bytes = copy.bytes();
  if (is_zero(bytes)) {
    mark<"resync.copied_a_hole">();
    m.opcode = store_.info.thin ? engine::DiskOpcode::unmap : engine::DiskOpcode::write_zeroes;
    bytes = {};
    copy.frees = store_.info.thin;
    if (copy.frees) space_.begin_freeing(m.extent);
  }
  outbound_.send(m, bytes, {}, [this, &copy](const IoResult<Message>& result) { on_copied(copy, result); });
}

/// Still marked busy: what is told of a refusal may stop the resync, which leaves a busy copy to end here.
void Resync::on_copied(Copy& copy, const IoResult<Message>& result) {
  copy.on_link = false;
  if (std::exchange(copy.frees, false)) space_.end_freeing();
  if (copy.run != run_) return end(copy, false);
  const bool equal = result && result->status == Errc::ok;
  if (!equal) {
    pause_until_ = clock_.now() + std::chrono::milliseconds(50);
    if (result) user_.on_partner_refused();
    if (copy.run != run_) return end(copy, false);
  }
  equal ? next_run(copy) : end(copy, false);
}

void Resync::end(Copy& copy, bool equal) {
  const bool current = copy.run == run_;
  if (current && equal) set(copy.region, false);
  if (current && equal) unreadable_.erase(copy.region);
  std::erase(copies_, &copy);
  share_.give_back(copy.buffer.size());
  if (!copy.lock.idle()) store_.locks.cancel(copy.lock);
  delete &copy;
  wake();
  if (current) pump();
}

/// Nothing differs any more: a target joins; a member may read its own store.
void Resync::finish_if_equal() {
  if (!all_equal()) return;
  if (solo_) return user_.on_target_equal();
  if (told_ || !outbound_.ready) return;
  told_ = true;
  const std::uint64_t run = run_;
  auto answered = [this, run](const IoResult<Message>& result) {
    if (run != run_) return;
    if (!result || result->status != Errc::ok) return void(told_ = false);
    set_active(false);
    changed_();
  };
  outbound_.send(outbound_.message(MessageType::equal), {}, {}, counted(outbound_.owed, std::move(answered)));
}

// ---- on demand ---------------------------------------------------------------------------------------------------

/// Nor is anything used that the store still writes for a resync which was called off: a read could show what is there
/// before, and the next one what is there then.
bool Resync::must_equalize(engine::Extent extent) const {
  const auto lands = [&](const Copy* c) { return c->run != run_ && c->writing && c->lock.extent().overlaps(extent); };
  if (!copies_.empty() && std::ranges::any_of(copies_, lands)) return true;
  if (!active_ || solo_) return false;
  if (!known_) return true;
  if (unequal_ == 0) return false;
  const std::uint64_t end = (extent.end() + store_.region_size() - 1) / store_.region_size();
  auto region = next_unequal(extent.offset / store_.region_size(), end);
  while (region && is_examined(*region)) region = next_unequal(*region + 1, end);
  return region.has_value();
}

void Resync::equalize(Op& op) {
  mark<"resync.on_demand">();
  waiting_.push_back(&op);
  pump();
}

void Resync::forget(Op& op) { std::erase(waiting_, &op); }

void Resync::wake() {
  for (std::size_t i = 0; i < waiting_.size();) {
    Op* op = waiting_[i];
    if (must_equalize(op->extent)) {
      ++i;
      continue;
    }
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
    user_.on_equal(*op);
    i = 0;
  }
}

void Resync::note_unequal(engine::Extent extent) {
  if (!active_ || !known_) return;
  for (std::uint64_t r = extent.offset / store_.region_size(); r * store_.region_size() < extent.end(); ++r) {
    if (!is_unequal(r)) ++total_;
    set(r, true);
  }
}

void Resync::tick() {
  if (!active_) return;
  go_on();
  tell_unreadable();
}

bool Resync::has_older_than(engine::TimePoint limit) const {
  return std::ranges::any_of(copies_, [&](const Copy* c) { return c->reading && c->since < limit; });
}

bool Resync::stuck_on_link(engine::TimePoint limit) const {
  return std::ranges::any_of(copies_, [&](const Copy* c) { return c->on_link && c->run != run_ && c->since < limit; });
}

ResyncProgress Resync::progress() const {
  if (!active_) return {};
  ResyncProgress p;
  p.running = true;
  p.bytes_total = total_ * store_.region_size();
  p.bytes_done = known_ ? (total_ - std::min(total_, unequal_)) * store_.region_size() : 0;
  const auto spent = std::chrono::duration_cast<std::chrono::milliseconds>(clock_.now() - began_).count();
  if (spent > 0) p.bytes_per_second = p.bytes_done * 1000 / static_cast<std::uint64_t>(spent);
  return p;
}

}  // namespace lockstep::replication
