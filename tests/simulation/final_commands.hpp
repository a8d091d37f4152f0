#pragma once
// What a host is told that comes when nothing is broken any more: each node carries out its commands, a write and a
// read of each volume, soon, and tells no error but BUSY.
#include <deque>
#include <vector>

#include "tests/simulation/history.hpp"
#include "tests/simulation/host.hpp"

namespace lockstep::simulation {

class World;

class FinalCommands {
 public:
  explicit FinalCommands(World& world);
  /// Of a pair that is in sync: what one node wrote the other one reads.
  void demand_good_answers();

 private:
  struct Io {
    engine::DiskRequest request;
    std::vector<std::byte> memory;
    FinalCommands* commands = nullptr;
    Host* host = nullptr;
    unsigned volume = 0;
    Moment began = 0;
    Value value = 0;  ///< that it writes
    bool done = false;
  };
  static void on_submit(void* self, std::uint64_t io);
  void on_done(Io& io);
  void submit(Host& host, unsigned volume, engine::DiskOpcode opcode, std::uint64_t block);
  void await_all();
  [[nodiscard]] std::uint64_t block_of(engine::NodeSide side) const;

  World& world_;
  std::uint64_t first_block_;
  scsi::NexusKey nexus_;  ///< nobody's before
  std::deque<Io> ios_;
};

}  // namespace lockstep::simulation
