#include "replication/core/store_watch.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "replication/core/marks.hpp"

namespace lockstep::replication {

namespace {
/// Alone there is nobody to hand over to: a host that waits is better off than one that is told an error.
constexpr int kPatienceAlone = 4;
/// More than any operation is allowed: whatever the store has is older than this from now.
constexpr engine::Duration kAges = std::chrono::hours(24 * 365);
/// Within which a process that goes on has read what its store completed while it stood still.
constexpr engine::Duration kReadsWithin = std::chrono::milliseconds(200);
}  // namespace

engine::TimePoint StoreWatch::ago(engine::Duration time) const {
  const auto now = clock_.now().since_origin;
  return {now - std::min(now, time)};
}

void StoreWatch::watch_own_ticks(engine::TimePoint now) {
  if (now - std::exchange(last_tick_, now) < settings_.store_silence / 2) return;
  mark<"store.unread">();
  unread_until_ = now + kReadsWithin;
}

void StoreWatch::flush(engine::IoCallback done) {
  if (flushing_++ == 0) flush_began_ = clock_.now();
  store_.data.flush([this, done = std::move(done)](std::error_code error) mutable {
    --flushing_;
    done(error);
  });
}

bool StoreWatch::is_proven() const { return !standing_.suspended() || proven_at_ >= standing_.suspended()->since; }

void StoreWatch::prove(engine::Callback<> proven) {
  if (proving_) return;
  proving_ = true;
  flush([this, began = clock_.now(), proven = std::move(proven)](std::error_code error) mutable {
    proving_ = false;
    store_.note_returned();
    if (standing_.closed()) return;
    if (error) return store_.fail_flush(error);
    proven_at_ = began;
    proven();
  });
}

bool StoreWatch::hangs() const {
  const bool alone = standing_.is_alone();
  const auto deadline = settings_.store_deadline * (alone ? kPatienceAlone : 1);
  if (unread()) return false;
  if (owes_since(ago(deadline))) return true;
  const engine::TimePoint silent = ago(settings_.store_silence);
  return !alone && store_.returned_at < silent && owes_since(silent);
}

bool StoreWatch::is_suspect() const {
  const engine::TimePoint silent = ago(settings_.lease);
  return standing_.suspended() && !unread() && store_.returned_at < silent && owes_since(silent);
}

/// Of what this replica carried out itself.
bool StoreWatch::owes_own_work() const { return sequencer_.has_older_than({clock_.now().since_origin + kAges}); }

bool StoreWatch::owes() const { return owes_since({clock_.now().since_origin + kAges}); }

bool StoreWatch::owes_since(engine::TimePoint limit) const {
  return (flushing_ > 0 && flush_began_ < limit) || sequencer_.has_older_than(limit) ||
         applier_.has_older_than(limit) || resync_.has_older_than(limit);
}

bool StoreWatch::owes_old_work() const {
  return !standing_.epoch().members.contains(standing_.side()) && owes_own_work();
}

bool StoreWatch::old_work_ended() { return std::exchange(owed_old_work_, owes_old_work()) && !owed_old_work_; }

}  // namespace lockstep::replication
