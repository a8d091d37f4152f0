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
  /// An operator forces a replica whose partner may go on, too: from now on split brain of that volume is no broken
  /// promise, until the order was answered, or is lost with its process, and both copies are one again.
  void force_ordered(const Host& host, unsigned volume);
  void force_answered(unsigned volume);
  /// By an operator's word hosts lose what was acknowledged, of every volume, until both copies are one again.
  void expect_loss();
  /// The same as if every volume were forced, for good: of worlds that are played by hand.
  void expect_split();
  /// Some operator had his word since the world began.
  [[nodiscard]] bool was_forced(unsigned volume) const { return volumes_[volume].was_forced; }
  /// It came to that: both went on, and what one of them acknowledged will be given up, or is lost already.
  [[nodiscard]] bool split(unsigned volume) const { return volumes_[volume].lifted && volumes_[volume].lifted->split; }
  /// Nothing more is asked of the world.
  void end();
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
  /// What an operator's word lifts: from then on until both copies are one again.
  struct Lifted {
    Moment since = 0;
    bool split = false;
    bool for_good = false;
    const Host* told = nullptr;  ///< an order that has no answer yet
    std::uint64_t life = 0;      ///< … of the process that it was given to
  };
  struct Volume {
    std::optional<Lifted> lifted;
    bool was_forced = false;
    std::optional<engine::EpochRecord> newest;  ///< that acknowledged a write
    Moment newest_since = 0;
    std::array<std::uint64_t, 2> acted_in{};  ///< the highest epoch number that each node acknowledged in
  };
  Lifted& lift(unsigned volume);
  void look_for_one(unsigned volume);
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
  Moment set_back_at_[2] = {0, 0};
  std::vector<Volume> volumes_;
  std::vector<std::vector<Value>> seen_;
};

}  // namespace lockstep::simulation
