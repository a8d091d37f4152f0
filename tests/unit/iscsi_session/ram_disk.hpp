#pragma once
// The smallest device server that an initiator is content with: one LUN of memory, and commands that tests can hold.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/runtime/buffer_pool.hpp"
#include "engine/runtime/reactor.hpp"
#include "engine/scsi/command.hpp"

namespace lockstep::test {

constexpr std::uint32_t kBlock = 512;

/// What the RAM disks of all reactors share.
struct RamStorage {
  explicit RamStorage(std::size_t bytes) : data(bytes) {}
  std::vector<std::byte> data;
  std::mutex mutex;
  /// From then on; a command is not refused for it.
  void put_out_of_reach(const std::string& initiator, std::uint64_t lun) {
    const std::lock_guard lock(mutex);
    unreachable.emplace(initiator, lun);
  }
  [[nodiscard]] bool is_reachable(const std::string& initiator, std::uint64_t lun) {
    const std::lock_guard lock(mutex);
    return lun == 0 && !unreachable.contains({initiator, lun});
  }
  std::set<std::pair<std::string, std::uint64_t>> unreachable;
  std::atomic<int> nexuses_open{0};
  std::atomic<int> nexuses_opened{0};
  std::atomic<int> executed{0};
  std::atomic<int> completed{0};
  std::atomic<int> resets{0};
  std::atomic<int> held{0};              ///< commands that wait for release
  std::atomic<bool> hold{false};         ///< hold every read from now on
  std::atomic<bool> hold_writes{false};  ///< hold every write whose data is in from now on
};

class RamDisk final : public scsi::DeviceServer {
 public:
  /// Executed as what it is, but `pull()` is called only a turn later.
  static constexpr std::uint8_t kLateWrite10 = 0xC1;

  RamDisk(engine::Reactor& reactor, engine::BufferPool& pool, RamStorage& storage)
      : reactor_(reactor), pool_(pool), storage_(storage) {}

  void on_nexus_opened(scsi::Nexus&) override { ++storage_.nexuses_open, ++storage_.nexuses_opened; }
  void on_nexus_closed(scsi::Nexus&) override { --storage_.nexuses_open; }
  void execute(scsi::Command& command) override;
  [[nodiscard]] std::vector<std::uint64_t> units(const scsi::Nexus& nexus) const override {
    return storage_.is_reachable(nexus.initiator_name, 0) ? std::vector<std::uint64_t>{0}
                                                          : std::vector<std::uint64_t>{};
  }
  [[nodiscard]] std::optional<std::uint64_t> unit_at(const scsi::Nexus& nexus, std::uint64_t lun) const override {
    return storage_.is_reachable(nexus.initiator_name, lun) ? std::optional(lun) : std::nullopt;
  }
  bool task_management(scsi::Nexus&, scsi::TaskManagement, std::uint64_t lun) override {
    ++storage_.resets;
    return lun == 0;
  }
  /// On the reactor.
  void release_held();

 private:
  struct State {
    RamDisk* disk;
    engine::Buffer buffer;
    std::uint64_t offset;
    std::size_t length;
  };
  static State& state_of(scsi::Command& command) { return *reinterpret_cast<State*>(command.server_state.data()); }
  void start(scsi::Command& command);
  void read(scsi::Command& command, std::uint64_t lba, std::uint32_t blocks);
  void write(scsi::Command& command, std::uint64_t lba, std::uint32_t blocks, bool late);
  static void pull(scsi::Command& command);
  static void written(scsi::Command& command, std::error_code error);
  static void land(scsi::Command& command, std::error_code error);
  static void fail(scsi::Command& command, std::uint8_t key, std::uint8_t asc, std::uint8_t ascq = 0);
  void reply(scsi::Command& command, const std::vector<std::uint8_t>& bytes, std::size_t allocation);
  static void finish(scsi::Command& command, std::span<const std::byte> data = {}, engine::Buffer buffer = {});

  engine::Reactor& reactor_;
  engine::BufferPool& pool_;
  RamStorage& storage_;
  std::vector<scsi::Command*> held_, held_writes_;
};

}  // namespace lockstep::test
