#pragma once
// Two nodes in the simulated world without chance's help: a test says what breaks, and when.
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "tests/simulation/world.hpp"

namespace lockstep::simulation {

class ScriptedPair {
 public:
  static constexpr Nanos kPatience = 60 * kSecond;
  using Adjust = std::function<void(Scenario&)>;

  /// Whose commands submit() and what is built on it send.
  [[nodiscard]] static const scsi::NexusKey& host_nexus();

  /// Boots both and waits until they are in sync; A orders.
  explicit ScriptedPair(
      const ProgramKind& kind, const Adjust& adjust = [](Scenario&) {});
  ~ScriptedPair();

  struct Io {
    engine::DiskRequest request;
    std::vector<std::byte> memory;
    bool done = false;
    bool of_the_unit = false;  ///< no initiator's
    World* world = nullptr;    ///< its history hears of the end
    Value value = 0;           ///< of write_stamp(): what it writes
    [[nodiscard]] std::error_code status() const { return request.status; }
    /// The first byte of what was read.
    [[nodiscard]] int first() const { return std::to_integer<int>(*request.data.data()); }
  };
  /// Blocks of 512 bytes.
  Io& write(engine::NodeSide side, std::uint64_t block, int fill, std::uint32_t count = 1, unsigned volume = 0);
  Io& read(engine::NodeSide side, std::uint64_t block, std::uint32_t count = 1);
  Io& submit(engine::NodeSide side, engine::DiskOpcode opcode, std::uint64_t block, std::uint32_t count, int fill,
             unsigned volume = 0);
  /// As a SANITIZE that is under way does.
  Io& write_of_the_unit(engine::NodeSide side, std::uint64_t block, int fill);
  /// The unit's state: a step of it, and what it is (the first `transferred` bytes of the data).
  Io& change_state(engine::NodeSide side, const scsi::LuRequest& request, unsigned volume = 0);
  Io& read_state(engine::NodeSide side);
  /// What is submitted from now on is of a command that has come just now there; of one each, that came with it, again
  /// after forget_command().
  void remember_command(engine::NodeSide side) { came_ = world_->host(side).clock().now(); }
  void forget_command() { came_ = {}; }
  /// Submits and waits for its end.
  std::error_code written(engine::NodeSide side, std::uint64_t block, int fill, std::uint32_t count = 1);
  int value_at(engine::NodeSide side, std::uint64_t block);
  /// Of one block, like initiators' operations: with a stamp, and in the history, which the world judges (judgement()).
  Io& write_stamp(engine::NodeSide side, std::uint64_t block);
  Value stamp_at(engine::NodeSide side, std::uint64_t block);
  /// Empty when every block's history is linearizable; else why not.
  [[nodiscard]] std::string judgement() const { return world_->history.check().value_or(""); }

  bool wait_for(const std::function<bool()>& what, Nanos patience = kPatience);
  void run_for(Nanos time);
  [[nodiscard]] Host& host(engine::NodeSide side) { return world_->host(side); }
  [[nodiscard]] World& world() { return *world_; }
  [[nodiscard]] replication::VolumeStatus status(engine::NodeSide side);
  [[nodiscard]] bool is(engine::NodeSide side, replication::MirrorState state);
  [[nodiscard]] bool in_sync() { return world_->all_in_sync(); }
  /// Changes the faults of the node's data store; those of the metadata stay as they are.
  void spoil(engine::NodeSide side, const std::function<void(StoreFaults&)>& how);
  void mend(engine::NodeSide side);
  /// Empty while nothing that the world watches for went wrong.
  [[nodiscard]] std::string violation() const { return world_->verdict.reason(); }

 private:
  Io& ask_state(engine::NodeSide side, unsigned volume, engine::DiskOpcode opcode, std::vector<std::byte> bytes);
  Io& start(engine::NodeSide side, unsigned volume, Io& io);

  engine::TimePoint came_{};
  std::deque<Io> ios_;  ///< outlive the world: a process that dies may still have part of its writes done
  std::unique_ptr<World> world_;
};

constexpr engine::NodeSide kA = engine::NodeSide::a, kB = engine::NodeSide::b;
constexpr std::uint32_t kAlways = 1'000'000;  ///< of a fault's chances

/// The node's data store returns nothing any more.
inline void hang(ScriptedPair& pair, engine::NodeSide side) {
  pair.spoil(side, [](StoreFaults& f) { f.hang = kAlways; });
}

/// Dies, misses what the other writes, and is on its slow way back into the pair; false when it is not.
[[nodiscard]] bool comes_back_slowly(ScriptedPair& pair, engine::NodeSide side);

/// REGISTER AND IGNORE EXISTING KEY with key 1, with APTPL.
[[nodiscard]] scsi::LuRequest registration();

}  // namespace lockstep::simulation
