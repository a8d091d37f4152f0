#pragma once
// Which of the paths of one way of the link is used. Pure: events and the time come in, what is to be done goes out.
//
//   Down ──connected──▶ Joining ──joined──▶ Proving ──a while without a fault, and data came through──▶ Proven
//    ▲                     │                   │                                                          │
//    └─────destroyed───── Dying ◀──────────── fault, or silence ──────────────────────────────────────────┘
//
// A path that is Down dials by itself. Requests go by the proven path of the best rank; by one that is only proving
// while none is proven, where something large came through if there is one. That heartbeats pass proves little: a
// network may pass what is small and lose what is large.
// Paths of the same rank share: the next request goes to the one with the fewest bytes under way. So a path that comes
// back is used again when it has proven itself, and one that comes and goes proves longer each time. Requests that are
// under way stay where they are until they are answered or their path is destroyed.
//
// Silence is what ends a path early; transports notice later. A path that has said nothing for 75 ms is asked for a
// sign of life, and is over when it has said nothing for 300 ms while another one speaks. Where none speaks the partner
// stands still, or all networks do: another path would be no better, so they are left to their transports and to the
// lease.
#include <array>
#include <compare>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "engine/seams/clock.hpp"
#include "replication/link/channel/numbers.hpp"

namespace lockstep::replication {

enum class PathTransport : std::uint8_t { rdma = 0, tcp = 1 };  ///< the better one first

/// Less is better.
struct PathRank {
  PathTransport transport = PathTransport::tcp;
  std::uint32_t slowness = 0;  ///< ~megabits a second
  std::uint8_t order = 0;      ///< the operator's word
  auto operator<=>(const PathRank&) const = default;
};
[[nodiscard]] constexpr PathRank rank_of(PathTransport transport, std::uint32_t megabits, std::uint8_t order) {
  return {transport, ~megabits, order};
}

struct PathTimes {
  engine::Duration probe_after = std::chrono::milliseconds(75);    ///< of silence
  engine::Duration over_after = std::chrono::milliseconds(300);    ///< of silence
  engine::Duration without_path = std::chrono::milliseconds(300);  ///< then the link session is over
  engine::Duration first_proof = std::chrono::seconds(3);
  engine::Duration longest_proof = std::chrono::seconds(60);
  engine::Duration relapse_within = std::chrono::minutes(5);  ///< of the last fault: the proof takes twice as long
  /// tick() was not called for so long: this program stood still, and heard nothing for that reason.
  engine::Duration own_gap = std::chrono::milliseconds(100);
};

struct PathOrders {
  PathSet probe;              ///< send a question to these
  PathSet end;                ///< destroy these: they are Dying
  PathSet prove;              ///< send something large by these, where none of it is under way
  bool session_over = false;  ///< no path was left for too long, and none is about to join
};

class PathManager {
 public:
  PathManager(PathTimes times, std::span<const PathRank> ranks);

  /// From the next request on.
  void set_rank(PathSlot path, const PathRank& rank) { at(path).rank = rank; }

  /// How often it was lost, of the times that it had joined.
  [[nodiscard]] unsigned losses(PathSlot path) const { return paths_[index_of(path)].losses; }

  // What happens to a path.
  void connected(PathSlot path, engine::TimePoint now);
  void joined(PathSlot path, engine::TimePoint now);
  void heard(PathSlot path, engine::TimePoint now);
  /// What is large has come to the other end, since it joined.
  void carried(PathSlot path);
  /// Something is wrong with it. The caller destroys it now.
  void failed(PathSlot path, engine::TimePoint now);
  /// The same, without anything being wrong: the link session ends.
  void closing(PathSlot path);
  /// The same: it is made anew, and is as good as before as soon as something large has come through again.
  void renewing(PathSlot path);
  /// One is, and not back yet: others have to do meanwhile.
  [[nodiscard]] bool renews() const;
  /// Nothing of it reads or writes any buffer; whatever it was before.
  void destroyed(PathSlot path, engine::TimePoint now);
  /// What time brings; to be called about every 25 ms while any path is not Down.
  [[nodiscard]] PathOrders tick(engine::TimePoint now);

  /// For the next request; nothing while none has joined. `load`: bytes under way, of each path.
  [[nodiscard]] std::optional<PathSlot> best(std::span<const std::uint64_t> load, engine::TimePoint now) const;
  /// All that have joined: heartbeats go by each.
  [[nodiscard]] PathSet joined() const;
  [[nodiscard]] std::size_t count() const { return paths_.size(); }
  [[nodiscard]] bool is_down(PathSlot path) const { return is<Down>(path); }
  [[nodiscard]] bool is_joining(PathSlot path) const { return is<Joining>(path); }
  [[nodiscard]] bool is_proving(PathSlot path) const { return is<Proving>(path); }
  [[nodiscard]] bool is_proven(PathSlot path) const { return is<Proven>(path); }
  /// It has joined, and nothing large has come through since.
  [[nodiscard]] bool is_to_carry(PathSlot path) const;
  [[nodiscard]] bool is_dying(PathSlot path) const { return is<Dying>(path); }

 private:
  struct Silence {
    engine::TimePoint heard;
    bool probed = false;  ///< since then
  };
  struct Down {};
  struct Joining {
    Silence silence;
  };
  struct Proving {
    Silence silence;
    engine::TimePoint since;
    engine::Duration proof;  ///< how long
    bool carried = false;    ///< what is large
  };
  struct Proven {
    Silence silence;
  };
  struct Dying {};
  struct Path {
    PathRank rank;
    std::variant<Down, Joining, Proving, Proven, Dying> state;
    engine::Duration proof{};  ///< how long it proves itself
    bool renewed = false;      ///< … but the next time it need not
    std::optional<engine::TimePoint> last_fault;
    unsigned losses = 0;
  };
  template <class State>
  [[nodiscard]] bool is(PathSlot path) const {
    return std::holds_alternative<State>(paths_[index_of(path)].state);
  }
  [[nodiscard]] Path& at(PathSlot path) { return paths_[index_of(path)]; }
  [[nodiscard]] static Silence* silence_of(Path& path);
  [[nodiscard]] static bool has_joined(const Path& path);
  [[nodiscard]] static bool is_to_carry(const Path& path);
  [[nodiscard]] PathSet due_to_carry(engine::TimePoint now) const;
  void note_fault(Path& path, engine::TimePoint now) const;
  void forgive_own_gap(engine::TimePoint now);
  [[nodiscard]] bool another_speaks(const Path& path, engine::TimePoint now);
  /// As far as it has joined. By the time itself: tick() may be late.
  [[nodiscard]] static bool is_proven(const Path& path, engine::TimePoint now);

  PathTimes times_;
  std::vector<Path> paths_;
  std::optional<engine::TimePoint> last_tick_;
  std::optional<engine::TimePoint> without_since_;
};

}  // namespace lockstep::replication
