#pragma once
// A disk that does everything a disk may do: completes late and out of order, applies a write at any moment between its
// submission and its completion, keeps unflushed sectors in a cache that a power cut loses in part, fails, hangs,
// fills, and loses sectors for good. Two images: what a read sees, and what is on stable storage.
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/seams/store.hpp"
#include "tests/simulation/scheduler.hpp"
#include "tests/simulation/violation.hpp"

namespace lockstep::simulation {

struct StoreFaults {
  std::uint32_t read_error = 0;  ///< chances in a million, each operation
  std::uint32_t write_error = 0;
  std::uint32_t flush_error = 0;
  std::uint32_t hang = 0;
  bool full = false;            ///< writes to what was never written nor reserved fail with no_space
  std::uint32_t pool_full = 0;  ///< the chance that a write does so whatever was reserved, as on a thin device
  Nanos slowest = 2 * kMillisecond;
};

/// What is on a disk: zeros, which take no memory before they are written over, so that a disk may be large.
class Image {
 public:
  explicit Image(std::size_t size = 0);
  Image(const Image& from);
  Image& operator=(const Image& from);
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::byte* data() { return bytes_.get(); }
  [[nodiscard]] const std::byte* data() const { return bytes_.get(); }
  [[nodiscard]] const std::byte* begin() const { return data(); }
  [[nodiscard]] const std::byte* end() const { return data() + size_; }
  [[nodiscard]] std::byte* begin() { return data(); }
  [[nodiscard]] std::byte* end() { return data() + size_; }

 private:
  struct Free {
    void operator()(std::byte* bytes) const { std::free(bytes); }
  };
  std::unique_ptr<std::byte, Free> bytes_;
  std::size_t size_;
};

/// What a disk holds at some moment.
struct StoreSnapshot {
  Image bytes;
  std::vector<bool> allocated;
};

class SimStore final : public engine::Store {
 public:
  static constexpr std::size_t kSector = 512;    ///< bytes; a power cut tears here
  static constexpr std::size_t kGranule = 4096;  ///< bytes; what discard() gives back

  struct World {
    Scheduler& scheduler;
    Trace& trace;
    Verdict& verdict;
  };
  SimStore(World world, SimRandom random, Owner owner, std::string name, std::uint64_t size);

  [[nodiscard]] const engine::StoreInfo& info() const override { return info_; }
  void read(std::uint64_t offset, std::span<std::byte> into, engine::IoCallback done) override;
  void write(std::uint64_t offset, std::span<const std::byte> from, engine::Durability durability,
             engine::IoCallback done) override;
  void write_zeroes(engine::Extent extent, engine::Durability durability, engine::IoCallback done) override;
  void discard(engine::Extent extent, engine::Durability durability, engine::IoCallback done) override;
  void flush(engine::IoCallback done) override;
  [[nodiscard]] bool refuses_writes() const override { return refuses_writes_; }
  void take_writes_again() override;
  void reserve(engine::Extent extent, engine::IoCallback done) override;
  void next_run(std::uint64_t offset, engine::RunCallback done) override;
  [[nodiscard]] bool encrypts() const override { return encrypts_; }
  /// What was kept becomes noise, another on each store; on stable storage at once, or not at all.
  void renew_key(engine::IoCallback done) override;

  // For the world.
  /// A write of a part of a block reads the rest first: it fails, and changes nothing, where a sector of it is lost.
  void set_physical_block_size(std::uint64_t bytes) { physical_block_ = bytes; }
  void set_faults(const StoreFaults& faults) { faults_ = faults; }
  [[nodiscard]] const StoreFaults& faults() const { return faults_; }
  void release_hung();
  /// At once, and only the one that has been hanging longest.
  void release_first_hung();
  /// Nothing completes any more, until it goes on: then all does, in the order in which it came.
  void stand_still();
  void go_on();
  [[nodiscard]] StoreSnapshot snapshot() const { return {cached_, allocated_}; }
  void set_back(const StoreSnapshot& to);
  /// Another disk in its place: zeros, with nothing under way.
  void become_new();
  /// Each operation in flight ends with its callback destroyed; writes happened, in part or not at all.
  void process_died();
  void power_cut();
  /// What was applied without completing is in the machine's cache like all else: the flush of whoever opens the store
  /// next covers it.
  void opened_anew();
  /// Whoever writes here had space set aside before: a write that finds none breaks a promise.
  void expect_reserved(bool yes) { expects_reserved_ = yes; }
  /// A flush takes with it what a write under way has put in the place of what had completed; else that one is lost.
  void set_flushes_what_is_applied(bool yes) { flushes_what_is_applied_ = yes; }
  /// As if its blocks were encrypted; the images show them as they are read.
  /// The thread that has it, while nothing runs on its node.
  void belong_to(Owner owner) { owner_ = owner; }
  void set_encrypts(bool yes) { encrypts_ = yes; }
  /// Without a process, nothing is taken: what destructors ask for is dropped.
  void set_open(bool open) { open_ = open; }
  [[nodiscard]] engine::StoreRun run_at(std::uint64_t offset) const;
  /// How many operations were made to fail so far.
  [[nodiscard]] std::uint64_t failed() const { return failed_; }
  [[nodiscard]] std::size_t in_flight() const { return in_flight_; }
  [[nodiscard]] std::span<const std::byte> visible() const { return cached_; }
  [[nodiscard]] std::span<const std::byte> stable() const { return stable_; }
  /// The medium loses it: each read of it fails until it is written over, whatever becomes of processes and power.
  void lose_sector(std::uint64_t sector);
  [[nodiscard]] bool is_lost(std::uint64_t sector) const { return lost_[sector]; }
  /// It is, or what it was written over with is in the cache only.
  [[nodiscard]] bool is_lost_below(std::uint64_t sector) const { return lost_[sector] || lost_if_power_fails_[sector]; }
  /// The first at or behind `from` that can't be read.
  [[nodiscard]] std::optional<std::uint64_t> next_lost(std::uint64_t from) const;
  /// Changes both images at once, behind everybody's back.
  void poke(std::uint64_t offset, std::span<const std::byte> bytes);

 private:
  enum class Kind : std::uint8_t { read, write, zero, discard, flush, reserve, renew };
  enum class Sector : std::uint8_t { clean, applied, completed, ghost };
  struct Op {
    Kind kind{};
    bool live = false;
    bool hung = false;
    bool durable = false;
    unsigned losses = 0;              ///< flushes that had failed when it began
    std::uint64_t number = 0;         ///< rises with each
    std::uint8_t halves_applied = 0;  ///< bit 0: first half, bit 1: second half
    bool refused = false;             ///< the store takes none
    std::uint64_t offset = 0;
    std::uint64_t length = 0;
    std::span<std::byte> into;
    std::span<const std::byte> from;
    std::uint64_t hash = 0;
    std::error_code status;
    std::uint32_t generation = 0;
    engine::IoCallback done;
    std::vector<std::pair<std::uint32_t, std::uint32_t>> flushed;  ///< sector, version
  };

  std::uint32_t begin(Kind kind, std::uint64_t offset, std::uint64_t length, bool durable, engine::IoCallback done);
  void submit_write(Kind kind, engine::Extent extent, std::span<const std::byte> from, engine::Durability durability,
                    engine::IoCallback done);
  void schedule(std::uint32_t slot, std::uint32_t error_chance);
  static void on_apply(void* self, std::uint64_t argument);
  static void on_complete(void* self, std::uint64_t argument);
  void complete(std::uint32_t slot);
  /// A sync failed; what it should have taken along is not looked at here.
  void refuse_writes();
  [[nodiscard]] bool sync_fails(const Op& op);
  [[nodiscard]] bool loses_some_of(engine::Extent extent) const;
  [[nodiscard]] bool lacks_the_rest(engine::Extent extent) const;
  void apply(Op& op, unsigned half);
  void take_space(const engine::Extent& extent);
  void scramble();
  void apply_sector(std::uint32_t sector, const std::byte* bytes);
  void finish_write(Op& op);
  void finish_flush(Op& op);
  void settle(std::uint32_t sector);
  [[nodiscard]] bool has_space(const engine::Extent& extent) const;
  [[nodiscard]] std::uint64_t key(std::uint32_t slot) const {
    return (std::uint64_t{ops_[slot].generation} << 32) | slot;
  }
  void release(std::uint32_t slot);

  Scheduler& scheduler_;
  Trace& trace_;
  Verdict& verdict_;
  SimRandom random_;
  Owner owner_;
  engine::StoreInfo info_;
  StoreFaults faults_;
  Image cached_;
  Image stable_;
  std::vector<std::uint32_t> version_;
  std::vector<Sector> state_;
  std::vector<std::uint32_t> dirty_;              ///< every sector that is not clean, once, and some that are again
  std::vector<bool> listed_;                      ///< is in dirty_
  std::vector<bool> lost_, lost_if_power_fails_;  ///< sectors that can't be read
  std::vector<bool> allocated_;
  std::vector<bool> set_aside_;  ///< and nothing of it is stable yet: a power cut may forget it
  std::vector<Op> ops_;
  std::vector<std::uint32_t> free_;
  std::vector<std::uint64_t> held_back_;  ///< keys of what would have completed while the store stood still
  bool still_ = false;
  bool open_ = true;
  bool expects_reserved_ = false;
  std::uint64_t physical_block_ = kSector;
  bool encrypts_ = false;
  bool flushes_what_is_applied_ = false;
  std::size_t in_flight_ = 0;
  std::uint64_t begun_ = 0;
  std::uint64_t failed_ = 0;
  unsigned flushing_ = 0;
  unsigned losses_ = 0;  ///< flushes that failed
  bool refuses_writes_ = false;
};

}  // namespace lockstep::simulation
