#include "replication/core/write_cache_switch.hpp"

#include <utility>

#include "replication/core/marks.hpp"

namespace lockstep::replication {

void WriteCacheSwitch::set(bool on, engine::Callback<> told) {
  const bool was = std::exchange(store_.info.write_cache, on);
  store_.was_cached |= on;
  if (on) {
    told_ = nullptr;
    again_ = stage_ == Stage::flushing;
    if (!again_) stage_ = Stage::settled;
    return told();
  }
  if (!was && stage_ == Stage::settled) return told();
  told_ = std::move(told);
  if (stage_ == Stage::settled) stage_ = Stage::waits_for_turn;
  tick();
}

void WriteCacheSwitch::tick() {
  if (stage_ == Stage::waits_for_turn && completions_.earlier_are_over()) {
    completions_.begin_turn();
    stage_ = Stage::waits_for_earlier;
  }
  if (stage_ == Stage::waits_for_earlier && completions_.earlier_are_over()) return flush();
  // Where nothing is served one of both is not to be had, and each try would be a flush of this store for nothing. So
  // it is for a while where a store failed its own: it refuses all others, too.
  if (stage_ == Stage::waits_for_service && membership_.serving() && clock_.now() >= again_at_) flush();
}

/// This store by itself, too: the node that orders may be another process by now, and know of nothing that was cached.
void WriteCacheSwitch::flush() {
  stage_ = Stage::flushing;
  membership_.make_durable([this](std::error_code error) { error ? end_flush(error) : flush_both(); });
}

void WriteCacheSwitch::flush_both() {
  request_ = {};
  request_.opcode = engine::DiskOpcode::flush;
  request_.owner = this;
  request_.done = &WriteCacheSwitch::on_flushed;
  front_.submit(request_);
}

void WriteCacheSwitch::on_flushed(engine::DiskRequest& request) {
  auto& self = *static_cast<WriteCacheSwitch*>(request.owner);
  self.end_flush(request.status);
}

void WriteCacheSwitch::end_flush(std::error_code error) {
  if (error == engine::Errc::io_error || error == engine::Errc::no_space) again_at_ = clock_.now() + kFlushAgain;
  if (std::exchange(again_, false)) {
    stage_ = store_.info.write_cache ? Stage::settled : Stage::waits_for_turn;
    return;
  }
  stage_ = error ? Stage::waits_for_service : Stage::settled;
  if (error) return;
  mark<"write_cache.off_and_flushed">();
  std::exchange(told_, nullptr)();
}

}  // namespace lockstep::replication
