#pragma once
// What FileStore and BlockStore share: a stretch of an open descriptor, read and written through a ring past the page
// cache. Short transfers are resumed, memory that direct I/O would refuse is copied, syncs are shared.
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/runtime/helper_thread.hpp"
#include "engine/seams/store.hpp"
#include "engine/stores/io_uring.hpp"

namespace lockstep::engine {

struct DescriptorStoreOptions {
  int descriptor = -1;     ///< kept open by the owner
  bool claims = false;     ///< and others out by that
  bool is_device = false;  ///< which may lose its size while it is open
  std::uint64_t base = 0;  ///< bytes; where the store begins in the descriptor
  std::uint32_t memory_alignment = 512;
  std::uint64_t granule = 4096;     ///< bytes: fallocate works on multiples of it
  bool zeroing_needs_room = false;  ///< FALLOC_FL_ZERO_RANGE may find none for what had its space
  bool sync_each = true;            ///< durable writes carry RWF_DSYNC; otherwise a shared fdatasync follows them
};

class DescriptorStore final : public Store {
 public:
  [[nodiscard]] static Result<std::unique_ptr<DescriptorStore>> create(IoUring& ring, StoreInfo info,
                                                                       DescriptorStoreOptions options);
  ~DescriptorStore() override;

  [[nodiscard]] const StoreInfo& info() const override { return info_; }
  void set_size(std::uint64_t size) { info_.size = size; }  ///< the descriptor has it already
  void read(std::uint64_t offset, std::span<std::byte> into, IoCallback done) override;
  void write(std::uint64_t offset, std::span<const std::byte> from, Durability durability, IoCallback done) override;
  void write_zeroes(Extent extent, Durability durability, IoCallback done) override;
  void discard(Extent extent, Durability durability, IoCallback done) override;
  void flush(IoCallback done) override;
  [[nodiscard]] bool refuses_writes() const override { return failed_; }
  void take_writes_again() override { failed_ = false; }
  void reserve(Extent extent, IoCallback done) override;
  void next_run(std::uint64_t offset, RunCallback done) override;

 private:
  struct Operation;
  struct Search;
  struct Count;
  /// One fdatasync in flight; who asks meanwhile, and until the end of the turn, shares the next.
  struct Sync final : TurnHook {
    IoUring::Request request;
    DescriptorStore* store = nullptr;
    Operation* current = nullptr;
    Operation* waiting = nullptr;
    Operation* last_waiting = nullptr;
    bool in_flight = false;
    void end_of_turn() override { store->start_sync(); }
  };

  DescriptorStore(IoUring& ring, StoreInfo info, DescriptorStoreOptions options, int file);
  Operation& start(Durability durability, IoCallback done);
  [[nodiscard]] std::error_code check(std::uint64_t offset, std::uint64_t length) const;
  void end_later(Operation& op, std::error_code result);
  void zero(Extent extent, int mode, Durability durability, IoCallback done);
  void submit(Operation& op);
  void submit_again(IoUring::Request& request, int result);
  [[nodiscard]] std::error_code error_of(int negative_errno) const;
  void next_piece(Operation& op);
  void on_transferred(Operation& op, int result);
  void on_allocated(Operation& op, int result);
  void count_room(Operation& op, Extent extent, bool unasked, void (*count)(HelperThread::Task&),
                  void (*counted)(ReactorTask&));
  void reserve_if_it_fits(Operation& op);
  void zero_range_if_there_is_room(Operation& op, Extent extent);
  void on_reserved(Operation& op, int result);
  void join_sync(Operation& op);
  void start_sync();
  void on_synced(int result);
  void finish(Operation& op, std::error_code result);
  static void finish_all(Operation* op, std::error_code result);

  IoUring& ring_;
  StoreInfo info_;
  DescriptorStoreOptions options_;
  int file_;
  bool failed_ = false;  // a sync failed: what the kernel holds of our writes is not known any more
  unsigned losses_ = 0;  // syncs that failed
  Sync sync_;
  std::vector<std::unique_ptr<Operation>> operations_;  // all ever made, used again
  Operation* free_ = nullptr;
  std::size_t active_ = 0;
  HelperThread helper_;  // asks the file system what the ring can't; its thread is there from the first question on
};

}  // namespace lockstep::engine
