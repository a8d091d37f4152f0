#include "tests/simulation/block_judge.hpp"

#include <algorithm>
#include <cstdio>

namespace lockstep::simulation {

namespace {

std::string name_of(Value value) {
  if (value == kGarbage) return "garbage";
  return value == 0 ? "zeroes" : "#" + std::to_string(value);
}

std::string seconds(Nanos t) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6f", static_cast<double>(t) / 1e9);
  return text;
}

const char* kind_of(WriteKind kind) {
  switch (kind) {
    case WriteKind::write:
      return "write";
    case WriteKind::write_same:
      return "write_same";
    case WriteKind::zero:
      return "zero";
    case WriteKind::compare_and_write:
      return "compare_and_write";
  }
  return "?";
}

}  // namespace

std::optional<std::string> BlockJudge::judge() {
  for (const Part& part : parts()) {
    part_ = part;
    if (part.left_out) continue;
    if (auto wrong = judge_part()) return wrong;
  }
  return std::nullopt;
}

std::vector<BlockJudge::Part> BlockJudge::parts() const {
  std::vector<Moment> cuts;
  for (const Value value : writes_) {
    const Moment lost = history_.write(value).lost;
    if (lost != kNever) cuts.push_back(lost);
  }
  for (const auto& out : history_.left_out_) {
    if (out.volume != volume_) continue;
    cuts.push_back(out.from);
    if (out.to != kNever) cuts.push_back(out.to);
  }
  std::ranges::sort(cuts);
  cuts.erase(std::ranges::unique(cuts).begin(), cuts.end());
  std::vector<Part> parts{{}};
  for (const Moment cut : cuts) {
    parts.back().to = cut;
    parts.push_back({cut, kNever});
    for (const auto& out : history_.left_out_) {
      if (out.volume != volume_) continue;
      parts.back().left_out |= out.from <= cut && cut < out.to;
      if (out.to <= cut) parts.back().anew = std::max(parts.back().anew, out.to);
    }
  }
  return parts;
}

std::optional<std::string> BlockJudge::judge_part() {
  clusters_.clear();
  spans_.clear();
  zero_reads_.clear();
  if (auto wrong = gather()) return wrong;
  if (auto wrong = tie()) return wrong;
  if (auto wrong = order()) return wrong;
  if (auto wrong = judge_zeroes()) return wrong;
  return judge_others();
}

std::size_t BlockJudge::find(Value value) const {
  const auto at = std::lower_bound(clusters_.begin(), clusters_.end(), value,
                                   [](const Cluster& c, Value v) { return c.value < v; });
  return at != clusters_.end() && at->value == value ? static_cast<std::size_t>(at - clusters_.begin()) : kNone;
}

Value BlockJudge::expected_by(Value swap) const {
  const WriteRecord& w = history_.write(swap);
  return w.expected[block_ - w.first];
}

/// What was seen in an earlier part was there to stay, unless a cut could take it since. What a cut came in the midst
/// of is from before it or behind.
bool BlockJudge::counts(const Seen& seen) const {
  if (part_.has(seen.start, seen.finish)) return true;
  if (seen.start < part_.anew) return false;
  if (seen.other || seen.value == 0 || seen.value == kGarbage || seen.finish >= part_.from) return false;
  const WriteRecord& w = history_.write(seen.value);
  return !is_lost(w) || w.lost <= seen.start;
}

std::optional<std::string> BlockJudge::gather() {
  for (const Value value : writes_) {
    const WriteRecord& w = history_.write(value);
    if (w.zero() || w.start > part_.to) continue;
    Cluster c;
    c.value = value;
    c.first_finish = w.latest();
    c.last_start = w.start;
    c.real = w.finish < part_.to && !is_lost(w);
    clusters_.push_back(c);
  }
  for (const Seen& seen : seen_) {
    if (seen.other || !counts(seen)) continue;
    if (seen.value == 0) {
      zero_reads_.push_back(seen);
      continue;
    }
    const std::size_t at = seen.value == kGarbage ? kNone : find(seen.value);
    if (at == kNone) return report("a read at " + seconds(seen.time) + " returned bytes that nobody ever wrote there");
    if (history_.write(seen.value).had_no_effect) {
      return report("a read at " + seconds(seen.time) + " returned " + name_of(seen.value) +
                    ", which the disk had said was dropped without effect");
    }
    if (seen.finish < history_.write(seen.value).start) {
      return report("a read at " + seconds(seen.time) + " returned " + name_of(seen.value) + " before it was written");
    }
    Cluster& c = clusters_[at];
    c.real = true;
    c.first_finish = std::min(c.first_finish, seen.finish);
    c.last_start = std::max(c.last_start, seen.start);
  }
  return std::nullopt;
}

std::optional<std::string> BlockJudge::tie() {
  // From the latest value down, since what was found is older than what replaced it and becomes real by that.
  for (std::size_t i = clusters_.size(); i-- > 0;) {
    const WriteRecord& w = history_.write(clusters_[i].value);
    if (w.kind != WriteKind::compare_and_write || !clusters_[i].real) continue;
    const Value found = expected_by(clusters_[i].value);
    if (found == 0) {
      // It saw zeroes when it took effect. Without an acknowledgement only its start is known.
      if (part_.has(w.start, w.finish)) zero_reads_.push_back({0, false, w.start, w.finish, w.finish_time});
      continue;
    }
    const std::size_t before = find(found);
    if (before == kNone) return report("compare_and_write " + name_of(clusters_[i].value) + " found what nobody wrote");
    if (clusters_[before].next != kNone) {
      return report("compare_and_write " + name_of(clusters_[i].value) + " and " +
                    name_of(clusters_[clusters_[before].next].value) + " both replaced " + name_of(found));
    }
    clusters_[before].next = i;
    clusters_[before].real = true;
    clusters_[i].made_by_swap = true;
  }
  for (std::size_t i = 0; i < clusters_.size(); ++i) {
    if (clusters_[i].made_by_swap || !clusters_[i].real) continue;
    Span span{clusters_[i].first_finish, clusters_[i].last_start, clusters_[i].value};
    for (std::size_t next = clusters_[i].next; next != kNone; next = clusters_[next].next) {
      if (clusters_[next].first_finish < span.last_start) {
        return report(name_of(clusters_[next].value) + " replaced an earlier value, which was seen again later");
      }
      span.first_finish = std::min(span.first_finish, clusters_[next].first_finish);
      span.last_start = std::max(span.last_start, clusters_[next].last_start);
    }
    spans_.push_back(span);
  }
  return std::nullopt;
}

std::optional<std::string> BlockJudge::order() const {
  for (std::size_t i = 0; i < spans_.size(); ++i) {
    for (std::size_t j = i + 1; j < spans_.size(); ++j) {
      const Span& x = spans_[i];
      const Span& y = spans_[j];
      if (x.first_finish < y.last_start && y.first_finish < x.last_start) {
        return report(name_of(x.value) + " and " + name_of(y.value) + " must each come before the other");
      }
    }
  }
  return std::nullopt;
}

std::optional<std::string> BlockJudge::judge_zeroes() const {
  const auto between = [this](Moment start, Moment finish) -> const Span* {
    for (const Span& x : spans_) {
      if (x.first_finish < start && finish < x.last_start) return &x;
    }
    return nullptr;
  };
  for (const Value value : writes_) {
    const WriteRecord& w = history_.write(value);
    if (!w.zero() || w.finish >= part_.to || is_lost(w)) continue;
    if (const Span* x = between(w.start, w.finish)) {
      return report(name_of(x->value) + " was seen before and again after zeroing " + name_of(value));
    }
  }
  for (const Seen& read : zero_reads_) {
    if (const Span* x = between(read.start, read.finish)) {
      return report(name_of(x->value) + " was seen before and again after the zeroes read at " + seconds(read.time));
    }
    if (!explained(read))
      return report("zeroes were read at " + seconds(read.time) +
                    " though an acknowledged or seen write had replaced them");
  }
  return std::nullopt;
}

bool BlockJudge::explained(const Seen& read) const {
  const auto survives = [&](Moment zero_finish) {
    return std::none_of(clusters_.begin(), clusters_.end(), [&](const Cluster& c) {
      return c.real && c.first_finish < read.start && zero_finish < history_.write(c.value).start;
    });
  };
  if (survives(0)) return true;  // the zeroes that the volume began with
  return std::any_of(writes_.begin(), writes_.end(), [&](Value value) {
    const WriteRecord& w = history_.write(value);
    return w.zero() && !w.had_no_effect && w.start < read.finish && survives(w.latest());
  });
}

std::optional<std::string> BlockJudge::judge_others() const {
  for (const Seen& seen : seen_) {
    if (!seen.other || !counts(seen) || seen.value == 0 || seen.value == kGarbage) continue;
    const std::size_t at = find(seen.value);
    if (at == kNone) continue;
    const Cluster& c = clusters_[at];
    if (c.first_finish < seen.start && seen.finish < c.last_start) {
      return report("a comparison at " + seconds(seen.time) + " did not find " + name_of(seen.value) +
                    ", which was there before and after");
    }
  }
  return std::nullopt;
}

std::string BlockJudge::report(const std::string& what) const {
  std::vector<std::pair<Moment, std::string>> lines;
  for (const Value value : writes_) {
    const WriteRecord& w = history_.write(value);
    std::string line = std::string(kind_of(w.kind)) + " " + name_of(value) + " from " + seconds(w.start_time);
    if (w.kind == WriteKind::compare_and_write) line += " expecting " + name_of(expected_by(value));
    line += w.finish == kNever
                ? (w.had_no_effect        ? ", said to be without effect"
                   : w.deadline != kNever ? ", outcome unknown, over at moment " + std::to_string(w.deadline)
                                          : ", outcome unknown")
                : " acknowledged at " + seconds(w.finish_time);
    lines.emplace_back(w.finish == kNever ? w.start : w.finish, std::move(line));
  }
  for (const Seen& seen : seen_) {
    lines.emplace_back(seen.finish, std::string(seen.other ? "found other than " : "read ") + name_of(seen.value) +
                                        ", ended at " + seconds(seen.time) + ", began at moment " +
                                        std::to_string(seen.start));
  }
  std::sort(lines.begin(), lines.end());
  std::string text = "promise 3: volume " + std::to_string(volume_) + " block " + std::to_string(block_) + ": " + what +
                     "; its history, by the moment of each end:\n";
  for (const auto& [moment, line] : lines) text += "    " + std::to_string(moment) + "  " + line + "\n";
  return text;
}

}  // namespace lockstep::simulation
