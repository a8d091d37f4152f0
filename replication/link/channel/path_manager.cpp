#include "replication/link/channel/path_manager.hpp"

#include <algorithm>
#include <type_traits>

namespace lockstep::replication {

using engine::Duration;
using engine::TimePoint;

PathManager::PathManager(PathTimes times, std::span<const PathRank> ranks) : times_(times) {
  assert(!ranks.empty() && ranks.size() <= kMaxPaths);
  for (const PathRank& rank : ranks) paths_.push_back({rank, Down{}, times_.first_proof, false, {}, 0});
}

PathManager::Silence* PathManager::silence_of(Path& path) {
  return std::visit(
      [](auto& state) -> Silence* {
        if constexpr (requires { state.silence; }) {
          return &state.silence;
        } else {
          return nullptr;
        }
      },
      path.state);
}

bool PathManager::has_joined(const Path& path) {
  return std::holds_alternative<Proving>(path.state) || std::holds_alternative<Proven>(path.state);
}

void PathManager::connected(PathSlot path, TimePoint now) {
  assert(is<Down>(path));
  at(path).state = Joining{{now}};
}

void PathManager::joined(PathSlot path, TimePoint now) {
  assert(is<Joining>(path));
  at(path).state = Proving{{now}, now, at(path).renewed ? Duration{0} : at(path).proof, false};
  without_since_.reset();
}

void PathManager::heard(PathSlot path, TimePoint now) {
  if (Silence* silence = silence_of(at(path))) *silence = {now};
}

void PathManager::carried(PathSlot path) {
  if (auto* proving = std::get_if<Proving>(&at(path).state)) proving->carried = true;
}

bool PathManager::is_to_carry(const Path& path) {
  const auto* proving = std::get_if<Proving>(&path.state);
  return proving != nullptr && !proving->carried;
}

bool PathManager::is_to_carry(PathSlot path) const { return is_to_carry(paths_[index_of(path)]); }

/// After a third of what a path has to prove itself: what waited for it goes first, and small news; and where what is
/// large holds up its heartbeats, and so is its end, that is seldom. Where no path carries, requests need to know soon:
/// they go by the best one, which is asked before the others, since they would go to another one that has carried first
/// and come back when the best one has, too.
PathSet PathManager::due_to_carry(TimePoint now) const {
  const bool one_carries =
      std::ranges::any_of(paths_, [](const Path& path) { return has_joined(path) && !is_to_carry(path); });
  const auto proof_of = [&](const Path& path) {
    const Duration proof = std::get<Proving>(path.state).proof;
    return one_carries ? proof : std::min(proof, times_.first_proof);
  };
  const auto joined_since = [](const Path& path) { return std::get<Proving>(path.state).since; };
  const auto waits_for_a_better_one = [&](const Path& path) {
    return !one_carries && std::ranges::any_of(paths_, [&](const Path& better) {
      return is_to_carry(better) && better.rank < path.rank &&
             now - joined_since(better) < proof_of(better) / 3 + times_.over_after;
    });
  };
  PathSet due;
  for (std::size_t i = 0; i < paths_.size(); ++i) {
    const Path& path = paths_[i];
    if (!is_to_carry(path) || now - joined_since(path) < proof_of(path) / 3 || waits_for_a_better_one(path)) continue;
    due.add(static_cast<PathSlot>(i));
  }
  return due;
}

void PathManager::note_fault(Path& path, TimePoint now) const {
  const bool relapsed = path.last_fault && now - *path.last_fault < times_.relapse_within;
  path.proof = relapsed ? std::min(2 * path.proof, times_.longest_proof) : times_.first_proof;
  path.renewed = false;
  path.last_fault = now;
}

void PathManager::failed(PathSlot path, TimePoint now) {
  if (silence_of(at(path)) == nullptr) return;  // known already
  at(path).losses += has_joined(at(path)) ? 1 : 0;
  note_fault(at(path), now);
  at(path).state = Dying{};
}

void PathManager::closing(PathSlot path) {
  if (silence_of(at(path)) != nullptr) at(path).state = Dying{};
}

void PathManager::renewing(PathSlot path) {
  if (!has_joined(at(path))) return;
  at(path).renewed = true;
  closing(path);
}

bool PathManager::renews() const { return std::ranges::any_of(paths_, &Path::renewed); }

void PathManager::destroyed(PathSlot path, TimePoint now) {
  failed(path, now);  // unless it was Dying before, this is how its fault became known
  at(path).state = Down{};
}

/// What has come waits in this machine's sockets, unread: the silence of that time is this program's own.
void PathManager::forgive_own_gap(TimePoint now) {
  const auto gap = last_tick_ ? now - *last_tick_ : engine::Duration{0};
  last_tick_ = now;
  if (gap <= times_.own_gap) return;
  for (Path& path : paths_) {
    if (Silence* silence = silence_of(path)) silence->heard = std::min(silence->heard + gap, now);
  }
  if (without_since_) without_since_ = std::min(*without_since_ + gap, now);
}

bool PathManager::is_proven(const Path& path, TimePoint now) {
  const auto* proving = std::get_if<Proving>(&path.state);
  return proving == nullptr || (proving->carried && now - proving->since >= proving->proof);
}

bool PathManager::another_speaks(const Path& path, TimePoint now) {
  return std::ranges::any_of(paths_, [&](Path& other) {
    return &other != &path && has_joined(other) && now - silence_of(other)->heard < times_.over_after;
  });
}

PathOrders PathManager::tick(TimePoint now) {
  forgive_own_gap(now);
  PathOrders orders;
  bool any = false, joining = false;
  for (std::size_t i = 0; i < paths_.size(); ++i) {
    Path& path = paths_[i];
    const auto slot = static_cast<PathSlot>(i);
    Silence* const silence = silence_of(path);
    if (silence == nullptr) continue;
    if (now - silence->heard >= times_.over_after && (!has_joined(path) || another_speaks(path, now))) {
      failed(slot, now);
      orders.end.add(slot);
      continue;
    }
    if (now - silence->heard >= times_.probe_after && !silence->probed && has_joined(path)) {
      silence->probed = true;
      orders.probe.add(slot);
    }
    const auto* proving = std::get_if<Proving>(&path.state);
    if (proving != nullptr && is_proven(path, now)) {
      path.state = Proven{proving->silence};
      path.renewed = false;
    }
    any |= has_joined(path);
    joining |= is<Joining>(slot);
  }
  orders.prove = due_to_carry(now);
  if (any) {
    without_since_.reset();
  } else if (!without_since_) {
    without_since_ = now;
  } else {
    orders.session_over = !joining && now - *without_since_ >= times_.without_path;
  }
  return orders;
}

std::optional<PathSlot> PathManager::best(std::span<const std::uint64_t> load, TimePoint now) const {
  assert(load.size() >= paths_.size());
  std::optional<PathSlot> best;
  const auto better = [&](std::size_t one, std::size_t other) {
    const Path &x = paths_[one], &y = paths_[other];
    const bool x_is_proven = is_proven(x, now), y_is_proven = is_proven(y, now);
    if (x_is_proven != y_is_proven) return x_is_proven;
    if (is_to_carry(x) != is_to_carry(y)) return is_to_carry(y);
    return x.rank != y.rank ? x.rank < y.rank : load[one] < load[other];
  };
  for (std::size_t i = 0; i < paths_.size(); ++i) {
    if (has_joined(paths_[i]) && (!best || better(i, index_of(*best)))) best = static_cast<PathSlot>(i);
  }
  return best;
}

PathSet PathManager::joined() const {
  PathSet all;
  for (std::size_t i = 0; i < paths_.size(); ++i) {
    if (has_joined(paths_[i])) all.add(static_cast<PathSlot>(i));
  }
  return all;
}

}  // namespace lockstep::replication
