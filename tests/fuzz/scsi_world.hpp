#pragma once
// A target of three logical units on stores in memory, and commands that check what comes of them.
#include <cassert>
#include <deque>
#include <memory>
#include <vector>

#include "engine/encryption/cipher_store.hpp"
#include "engine/runtime/buffer_pool.hpp"
#include "engine/scsi/command.hpp"
#include "engine/scsi/sense.hpp"
#include "engine/store_disk.hpp"
#include "iscsi_target/scsi/lun_map.hpp"
#include "iscsi_target/scsi/target_device.hpp"
#include "tests/unit/engine/fault_store.hpp"
#include "tests/unit/iser/event_clock.hpp"

namespace lockstep::fuzz {

/// The pool is the process's: reserving an arena for each input would be most of the work.
engine::BufferPool& buffers();

struct WorldShape {
  bool blocks_of_4k = false;
  bool thin = true;
  bool read_only = false;
  bool removable = false;
  bool encrypted = false;
};

/// LUN 0 as the shape says, LUN 1 thin with blocks of 512 bytes, LUN 2 the same but hidden from the second initiator.
class ScsiWorld {
 public:
  static constexpr std::uint64_t kSize = std::uint64_t{128} << 10;  ///< bytes of a volume
  explicit ScsiWorld(WorldShape shape);
  ~ScsiWorld();

  /// Lets the stores finish everything, and what follows from it; what waits for a while has its turn before.
  void run_stores();
  /// One operation of a store, if there is one.
  void step_store();
  /// The next operation of a store fails.
  void fail_next() { fail_next_ = true; }
  /// Operations that changed a store, or tried to.
  [[nodiscard]] int changes() const;
  [[nodiscard]] iscsi_target::LogicalUnit& unit() { return *volumes_[0]->unit; }

 private:
  struct Volume {
    Volume(ScsiWorld& world, std::uint8_t number, WorldShape shape);
    engine::FaultStore store;
    engine::CipherStore cipher;  ///< not used unless the shape says so
    engine::StoreDisk disk;
    std::shared_ptr<iscsi_target::LogicalUnit> unit;
  };
  bool fail_next_ = false;
  test::EventClock clock_;
  std::vector<std::unique_ptr<Volume>> volumes_;

 public:
  iscsi_target::TargetDevice device;  // the first to go
};

/// Pulls out of its own bytes, and holds the device server to its contract.
class CheckedCommand final : public scsi::Command {
 public:
  void pull(std::span<std::byte> into, engine::IoCallback done) override;
  void complete(std::span<const std::byte> data_in, engine::Buffer buffer) override;
  [[nodiscard]] bool aborted() const override { return is_aborted; }
  /// Answers the pull, later than it was called.
  bool answer_pull();
  /// Data goes out and comes in as the transport would have it.
  [[nodiscard]] bool was_refused() const;

  std::vector<std::byte> data_out;
  std::error_code pull_error;
  bool is_aborted = false;
  int completions = 0;

 private:
  std::span<std::byte> into_;
  engine::IoCallback pulled_;
  bool was_pulled_ = false;
};

/// Two initiators and their commands under way.
class Initiators {
 public:
  explicit Initiators(ScsiWorld& world);
  /// Finishes what is under way first.
  ~Initiators();
  scsi::Nexus& nexus(unsigned which) { return nexuses_[which % nexuses_.size()]; }
  /// The initiator goes and comes again.
  void log_in_anew(unsigned which);
  CheckedCommand& start(std::unique_ptr<CheckedCommand> command);
  void finish_all();

 private:
  ScsiWorld& world_;
  std::array<scsi::Nexus, 2> nexuses_;
  std::deque<std::unique_ptr<CheckedCommand>> running_;
};

}  // namespace lockstep::fuzz
