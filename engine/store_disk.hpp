#pragma once
// A disk on one store: a volume that is not mirrored. Orders what overlaps with range locks and puts together what a
// store cannot do alone: compare and write, write same, verify. The logical unit's state is kept in memory.
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "engine/disk.hpp"
#include "engine/locks/range_lock.hpp"
#include "engine/runtime/buffer_pool.hpp"
#include "engine/scsi/lu_holder.hpp"
#include "engine/seams/store.hpp"

namespace lockstep::engine {

/// Lives on the store's reactor; submit() is called there only.
class StoreDisk final : public Disk {
 public:
  static constexpr std::size_t kMaxOperations = 16384;          ///< at work or waiting; more: resource_exhausted
  static constexpr std::size_t kBounce = std::size_t{1} << 20;  ///< bytes that an operation holds at most

  /// `store` (at least info.size bytes, blocks no larger than info's) and `buffers` (the reactor's) outlive the disk.
  StoreDisk(Store& store, BufferPool& buffers, DiskInfo info);
  /// Nothing in flight.
  ~StoreDisk() override;

  [[nodiscard]] const DiskInfo& info() const override { return info_; }
  /// Unavailable for good after a failed flush: what was acknowledged before may be lost, and there is no other copy.
  [[nodiscard]] AccessState access_state() const override {
    return failed_ ? AccessState::unavailable : AccessState::active_optimized;
  }
  void submit(DiskRequest& request) override;
  void set_state_listener(std::shared_ptr<scsi::LuStateListener> listener) override {
    unit_state_.listen(std::move(listener));
  }

 private:
  struct Operation;
  /// A step of the unit's state that waits until what was checked under the state before is over.
  struct Change {
    DiskRequest* request = nullptr;
    scsi::LuOutcome outcome;
  };
  Operation* take_operation();
  void hold(DiskRequest& request);
  void change_state(DiskRequest& request);
  void install_change();
  void start(Operation& op);
  void end(Operation& op, std::error_code result);

  void write_same(Operation& op);
  void write_same_piece(Operation& op);
  void compare_and_write(Operation& op);
  void verify_piece(Operation& op);
  void find_run(Operation& op);
  void answer_run(Operation& op, const IoResult<StoreRun>& found);
  void flush(Operation& op);
  [[nodiscard]] bool take_bounce(Operation& op, std::size_t bytes);
  [[nodiscard]] Durability durability(const DiskRequest& request) const;

  Store& store_;
  BufferPool& buffers_;
  const DiskInfo info_;
  RangeLock locks_;
  std::vector<std::unique_ptr<Operation>> operations_;  // all there are; grows to what was in flight at once
  Operation* free_ = nullptr;
  std::size_t in_flight_ = 0;
  scsi::LuStateHolder unit_state_;
  std::optional<Change> change_;
  DiskRequest* first_held_ = nullptr;  // behind the change, in order
  DiskRequest* last_held_ = nullptr;
  bool failed_ = false;
};

}  // namespace lockstep::engine
