#pragma once
// One simulated machine: its disks and clock, which outlive everything, and the process that runs on it now and then.
#include <memory>
#include <optional>
#include <vector>

#include "tests/simulation/program.hpp"
#include "tests/simulation/sim_fence.hpp"
#include "tests/simulation/slow_witness.hpp"

namespace lockstep::simulation {

class World;

class Host final : public ProgramOutlet {
 public:
  Host(World& world, engine::NodeSide side, SimRandom random);
  ~Host() override;

  void format();
  void boot();
  enum class End : std::uint8_t { killed, power_cut };
  void end(End how);
  /// Stops by agreement, or is killed when that takes too long.
  void shut_down();
  void freeze();
  /// A virtual machine's pause: frozen, and its clock stands still.
  void pause();
  void thaw();
  /// One of its threads alone, of several.
  void freeze_thread(unsigned thread);
  /// The machine's disks as they are now, and back to that: while nothing runs on it.
  void take_snapshot();
  void set_back();
  /// The machine as it was when its process started, memory, clock and disks: that process runs again from there. What
  /// else a snapshot with memory would hold can't be copied here; what others know of the process is all there is to
  /// tell it by, in either case.
  void set_back_with_memory();
  /// From its process's next start on, also where no nemesis does so.
  void remember() { remembers_ = true; }
  [[nodiscard]] bool has_memory() const { return memory_.has_value(); }
  [[nodiscard]] std::uint64_t generation_in_memory(unsigned volume) const { return memory_->generations[volume]; }
  /// Its process, of one thread, has found that it was, and is about to end. Others of several go on until then.
  [[nodiscard]] bool found_set_back() const { return found_set_back_ && second_clock_ == nullptr; }
  /// A new copy in the place of this node's, if the partner's is by then the only member, and serves.
  void replace_copy(unsigned volume);
  /// The partner's copy is the only member, and serves.
  [[nodiscard]] bool is_only_a_target(unsigned volume) const;
  [[nodiscard]] bool has_snapshot() const { return snapshot_.has_value(); }
  /// The generation that the replica had then.
  [[nodiscard]] std::uint64_t generation_in_snapshot(unsigned volume) const { return snapshot_->generations[volume]; }

  [[nodiscard]] bool running() const { return program_ != nullptr; }
  [[nodiscard]] bool frozen() const;  ///< some thread of it is
  /// The thread is that has the volume.
  [[nodiscard]] bool is_frozen_for(unsigned volume) const { return thread_is_frozen(shard_of(volume)); }
  [[nodiscard]] bool stopping() const { return stopping_; }
  [[nodiscard]] Nanos frozen_since() const { return frozen_since_; }
  [[nodiscard]] Nanos booted_at() const { return running() ? booted_at_ : 0; }
  [[nodiscard]] std::uint64_t life() const { return life_; }
  [[nodiscard]] unsigned fences() const { return fences_; }  ///< times that it closed its initiators' sessions
  [[nodiscard]] Owner owner() const { return owner_; }
  [[nodiscard]] unsigned shard_of(unsigned volume) const { return shards_[volume]; }
  /// Its process has a volume in another shard than the configuration does, until it ends.
  [[nodiscard]] bool misplaces() const;
  /// The next process has that one there.
  void misplace(unsigned volume) { to_misplace_ = volume; }
  [[nodiscard]] engine::NodeSide side() const { return side_; }
  [[nodiscard]] char name() const { return letter(owner_); }
  [[nodiscard]] Program* program() { return program_.get(); }
  [[nodiscard]] const engine::Clock& clock() const { return *clock_; }
  /// As last seen; `starting` while there is no process.
  [[nodiscard]] replication::MirrorState state(unsigned volume) const { return states_[volume]; }
  [[nodiscard]] std::optional<replication::VolumeStatus> status(unsigned volume);
  /// What its replica's metadata holds, whether or not anything runs here; only of kinds that keep such a record.
  [[nodiscard]] std::optional<engine::EpochRecord> recorded(unsigned volume) const;
  [[nodiscard]] SimStore& data(unsigned volume) { return *stores_[volume].data; }
  [[nodiscard]] SimStore& metadata(unsigned volume) { return *stores_[volume].metadata; }
  [[nodiscard]] std::vector<VolumeStores>& stores() { return stores_; }
  [[nodiscard]] LeftOnDisk& left_records() { return left_records_; }
  [[nodiscard]] WitnessClient& witness() { return *witness_; }
  [[nodiscard]] SlowWitness& slow_witness() { return *slow_witness_; }
  [[nodiscard]] SimFence& fence() { return *fence_; }
  [[nodiscard]] std::unique_ptr<Machine> machine();

  void volume_changed(unsigned volume) override;
  void fenced() override;
  void closed_on(unsigned thread) override;
  void state_loaded(unsigned volume, const scsi::LuState& state) override;
  void state_installed(unsigned volume, const scsi::LuState& state) override;
  void attach_refused(unsigned volume, const engine::Error& why) override;
  void found_set_back(const std::string& why) override;

 private:
  struct Disks {
    std::vector<StoreSnapshot> stores;  ///< of each volume's data and metadata in turn
    std::vector<std::uint64_t> generations;
    LeftOnDisk left;
  };
  struct Memory : Disks {
    engine::Uuid process;
    engine::TimePoint clock;
  };
  [[nodiscard]] Disks disks_now();
  void put_disks_back(const Disks& then);
  void keep_memory();
  static void on_end_set_back(void* self, std::uint64_t life);
  static void on_start_again(void* self, std::uint64_t life);
  static void on_look(void* self, std::uint64_t volume);
  static void on_shutdown_late(void* self, std::uint64_t life);
  static void on_shutdown_done(void* self, std::uint64_t life);
  void look(unsigned volume);
  SimLink& way_out();
  [[nodiscard]] std::uint16_t speaks() const;
  [[nodiscard]] bool thread_is_frozen(unsigned thread) const;
  void place_volumes();
  void forget_events();
  void clear_clocks();

  World& world_;
  engine::NodeSide side_;
  Owner owner_;
  SimRandom random_;
  std::unique_ptr<SimClock> clock_;
  std::unique_ptr<SimClock> second_clock_;  ///< of the second thread; none where there is one alone
  std::unique_ptr<WitnessClient> witness_;
  std::unique_ptr<SlowWitness> slow_witness_;
  std::unique_ptr<SimFence> fence_;
  std::vector<VolumeStores> stores_;
  std::vector<unsigned> shards_;  ///< of each volume, for the process that runs
  std::optional<unsigned> to_misplace_;
  std::vector<replication::MirrorState> states_;
  std::vector<std::uint64_t> epochs_;
  std::vector<bool> failing_;  ///< a member in sync that is about to leave
  std::unique_ptr<Machine> machine_;
  std::unique_ptr<Program> program_;
  std::uint64_t life_ = 0;
  Nanos booted_at_ = 0;
  Nanos frozen_since_ = 0;
  std::optional<Disks> snapshot_;
  std::optional<Memory> memory_;
  engine::Uuid same_process_;  ///< that the next boot goes on with; nil: a new one
  bool remembers_ = false, found_set_back_ = false;
  bool went_back_ = false;  ///< the process that runs
  LeftOnDisk left_records_;
  bool stopping_ = false;
  bool paused_ = false;
  bool lost_power_ = true;
  unsigned fences_ = 0;
};

}  // namespace lockstep::simulation
