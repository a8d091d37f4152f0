#include "tests/simulation/history.hpp"

#include <algorithm>
#include <map>

#include "tests/simulation/block_judge.hpp"

namespace lockstep::simulation {

History::History() { writes_.emplace_back(); }

Value History::begin_write(unsigned volume, std::uint64_t first, std::uint32_t count, WriteKind kind, Nanos now,
                           std::vector<Value> expected, bool fua) {
  WriteRecord& w = writes_.emplace_back();
  w.volume = volume;
  w.first = first;
  w.count = count;
  w.kind = kind;
  w.start = ++moment_;
  w.start_time = now;
  w.expected = std::move(expected);
  w.fua = fua;
  return static_cast<Value>(writes_.size() - 1);
}

void History::write_acknowledged(Value value, Nanos now) {
  writes_[value].finish = ++moment_;
  writes_[value].finish_time = now;
}

/// One that came back from a cut has nothing to say of what the cut took before it began.
void History::flushed(unsigned volume, Moment began) {
  for (WriteRecord& w : writes_) {
    if (w.volume != volume || w.finish >= began || w.lost < began) continue;
    w.flushed = true;
    w.lost = kNever;
  }
}

void History::lost_power(unsigned volume, const std::function<bool(const WriteRecord&)>& cached) {
  const Moment now = ++moment_;
  for (WriteRecord& w : writes_) {
    if (w.volume == volume && w.start != 0 && !w.flushed && w.lost == kNever && cached(w)) w.lost = now;
  }
}

void History::leave_out(unsigned volume, Moment since, Moment until) {
  left_out_.push_back({volume, since, until});
  for (WriteRecord& w : writes_) {
    if (w.volume == volume) w.flushed = false;
  }
}

void History::set_back(unsigned volume) {
  for (WriteRecord& w : writes_) {
    if (w.volume == volume) w.flushed = false;
  }
  lost_power(volume, [](const WriteRecord&) { return true; });
}

void History::read_returned(unsigned volume, std::uint64_t first, std::span<const Value> values, Moment start,
                            Nanos now) {
  const Moment finish = ++moment_;
  ++reads_;
  for (std::size_t i = 0; i < values.size(); ++i) {
    observations_.push_back({volume, first + i, values[i], false, start, finish, now});
  }
}

void History::found_other(unsigned volume, std::uint64_t block, Value value, Moment start, Nanos now) {
  observations_.push_back({volume, block, value, true, start, ++moment_, now});
}

bool History::not_older(unsigned volume, std::uint64_t block, Value found, Value acked) const {
  const WriteRecord& w = writes_[acked];
  const auto newer = [&](const WriteRecord& x) { return x.covers(volume, block) && x.latest() > w.start; };
  if (found == kGarbage || found >= writes_.size()) return false;
  if (found != 0) return found == acked || newer(writes_[found]);
  if (w.zero()) return true;
  return std::any_of(writes_.rbegin(), writes_.rend(), [&](const WriteRecord& x) { return x.zero() && newer(x); });
}

std::vector<bool> History::written_blocks(unsigned volume, std::uint64_t blocks) const {
  std::vector<bool> written(blocks);
  for (const WriteRecord& w : writes_) {
    if (w.volume != volume) continue;
    for (std::uint32_t i = 0; i < w.count; ++i) written[w.first + i] = true;
  }
  return written;
}

std::optional<std::string> History::check() const {
  std::map<std::pair<unsigned, std::uint64_t>, BlockJudge> blocks;
  const auto judge = [&](unsigned volume, std::uint64_t block) -> BlockJudge& {
    return blocks.try_emplace({volume, block}, *this, volume, block).first->second;
  };
  for (Value value = 1; value < writes_.size(); ++value) {
    const WriteRecord& w = writes_[value];
    for (std::uint32_t i = 0; i < w.count; ++i) judge(w.volume, w.first + i).add_write(value);
  }
  for (const Observation& o : observations_)
    judge(o.volume, o.block).add_observation(o.value, o.other, o.start, o.finish, o.time);
  for (auto& [where, block] : blocks) {
    if (auto wrong = block.judge()) return wrong;
  }
  return std::nullopt;
}

}  // namespace lockstep::simulation
