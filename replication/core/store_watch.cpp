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

bool StoreWatch::is_proven() const {
  return proven_at_ && (!standing_.suspended() || *proven_at_ >= standing_.suspended()->since);
}

/// A node that can't write its record would win as well, and nobody would serve.
void StoreWatch::prove(engine::Callback<> proven) {
  if (proving_ > 0) return;
  proving_ = 2;
  proof_good_ = true;
  proof_began_ = clock_.now();
  proven_ = std::move(proven);
  flush([this](std::error_code error) {
    store_.note_returned();
    if (error && !standing_.closed()) store_.fail_flush(error);
    end_proof(!error);
  });
  rewriting_ = true;
  store_.meta->rewrite_record([this](std::error_code error) {
    rewriting_ = false;
    if (error && !standing_.closed())
      store_.fail_metadata("The epoch record can't be written: " + error.message() + ".");
    end_proof(!error);
  });
}

void StoreWatch::end_proof(bool good) {
  proof_good_ &= good;
  if (--proving_ > 0 || standing_.closed() || !proof_good_) return;
  proven_at_ = proof_began_;
  std::exchange(proven_, nullptr)();
}

bool StoreWatch::record_hangs() const { return rewriting_ && proof_began_ < ago(settings_.store_silence) && !unread(); }

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
bool StoreWatch::owes_own_work() const {
  return resync_.writes_here() || sequencer_.has_older_than({clock_.now().since_origin + kAges});
}

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
