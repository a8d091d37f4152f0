#pragma once
// The promises of the mirror that are checked as they are made. Linearizability (promise 3) is judged at the end, see
// history.hpp; that the replicas converge (5) by World.
#include <array>
#include <optional>
#include <vector>

#include "tests/simulation/history.hpp"
#include "tests/simulation/host.hpp"

namespace lockstep::simulation {

class World;

class Checkers {
 public:
  explicit Checkers(World& world);

  /// `host` says that the write is done. Promise 1: it is on stable storage on every member. Promise 2: the epochs that
  /// acknowledge form one line, and no two disjoint sets of members are at it.
  void write_acknowledged(Host& host, unsigned volume, Value value);
  /// … and that a flush is that it was asked for then. Promise 1: all that was acknowledged by then is on stable
  /// storage.
  void flush_acknowledged(Host& host, unsigned volume, Moment began);
  /// Promise 4: who is not a member of the newest epoch does not answer by itself.
  void read_answered(Host& host, unsigned volume, Moment began);
  void volume_seen(Host& host, unsigned volume, const replication::VolumeStatus& status);
  /// An operator forces a replica whose partner goes on, too: split brain is no broken promise in this world.
  void expect_split() { split_expected_ = true; }
  /// By an operator's word hosts lose what was acknowledged; that both copies end alike is promised all the same.
  void expect_loss() { split_expected_ = split_ = true; }
  [[nodiscard]] bool expects_split() const { return split_expected_; }
  /// It came to that: both went on, and what one of them acknowledged will be given up.
  [[nodiscard]] bool split() const { return split_; }
  /// The node's disks are those of an earlier day.
  void set_back(engine::NodeSide side);
  /// Both nodes' are: what hosts wrote may be lost, and an operator may have to say which of the two goes on.
  void both_set_back();

  // What initiators believe to be on the disk: a good guess for COMPARE AND WRITE.
  [[nodiscard]] Value last_seen(unsigned volume, std::uint64_t block) const { return seen_[volume][block]; }
  void note_seen(unsigned volume, std::uint64_t block, Value value) {
    seen_[volume][block] = value == kGarbage ? 0 : value;
  }
  void forget_seen(unsigned volume, std::uint64_t block) { seen_[volume][block] = 0; }
  void note_written(unsigned volume, std::uint64_t first, std::uint32_t count, Value value);

 private:
  struct Volume {
    std::optional<engine::EpochRecord> newest;  ///< that acknowledged a write
    Moment newest_since = 0;
    std::array<std::uint64_t, 2> acted_in{};  ///< the highest epoch number that each node acknowledged in
  };
  [[nodiscard]] static bool has_left(Host& host, unsigned volume, const engine::EpochRecord& epoch);
  /// The epoch in which `host` acknowledges something just now, unless that can't be told.
  struct Acting {
    std::optional<engine::EpochRecord> epoch;
    std::optional<engine::EpochRecord> own{};  ///< in which it acknowledges by itself
    bool may_have_left = false;                ///< some member may be none any more
  };
  [[nodiscard]] Acting acting_for(Host& host, unsigned volume);
  [[nodiscard]] Acting acting_for_detached(Host& host, unsigned volume);
  [[nodiscard]] std::vector<Host*> holders_of(const Acting& acting, unsigned volume);
  void check_durable(Host& holder, unsigned volume, Value value, const engine::EpochRecord& epoch);
  void check_line(Host& host, unsigned volume, const engine::EpochRecord& epoch);

  World& world_;
  bool split_expected_ = false;
  Moment set_back_at_[2] = {0, 0};
  bool split_ = false;
  std::vector<Volume> volumes_;
  std::vector<std::vector<Value>> seen_;
};

}  // namespace lockstep::simulation
