#pragma once
// Sectors that a disk loses for good: each read of one fails until it is written. Never the same block on both nodes.
// What follows from that for hosts is judged here: no medium error while both are members, since one of them can read;
// what can't be read at all is told by its number, so that somebody can write it anew; and when all is quiet, what is
// read through the node that lost it is rewritten there.
#include <cstdint>
#include <deque>
#include <vector>

#include "tests/simulation/history.hpp"
#include "tests/simulation/host.hpp"

namespace lockstep::simulation {

class World;

class BadSectors {
 public:
  explicit BadSectors(World& world);

  /// Mostly where hosts write most.
  void lose_some(Host& host);
  void status_seen(const Host& host, unsigned volume, const replication::VolumeStatus& status);
  /// A command that was sent at `sent` ended with `request.status`.
  void judge(unsigned volume, const engine::DiskRequest& request, Nanos sent);
  /// After everything was mended: an operator writes the block anew that a node names.
  void heal_what_is_told(Host& host, unsigned volume, const replication::VolumeStatus& status);
  /// Of an idle pair: each sector that is still lost is read through its node, and is there again.
  void read_each();

 private:
  struct Io {
    engine::DiskRequest request;
    std::vector<std::byte> memory;
    World* world = nullptr;
    Host* host = nullptr;
    std::uint64_t life = 0;
    unsigned volume = 0;
    Value value = 0;  ///< that it writes
    bool done = false;
    Nanos since = 0;
  };
  static void on_submit(void* self, std::uint64_t io);
  Io& submit(Host& host, unsigned volume, engine::DiskOpcode opcode, std::uint64_t block);
  void read_until_whole(Host& host, unsigned volume, std::uint64_t block);

  World& world_;
  SimRandom random_;
  std::vector<Nanos> not_in_sync_;  ///< each volume, when last so on a node, as far as was seen
  std::vector<bool> seen_in_sync_;  ///< each copy, when it was last looked at
  std::deque<Io> ios_;              ///< all there ever were: stores may still have their memory
};

}  // namespace lockstep::simulation
