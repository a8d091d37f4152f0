#pragma once
// A part of a block device as a store, through io_uring and past the page cache. A device carries a volume's blocks
// from its start and the replica's metadata at its end: two stores, one descriptor, one claim on the device.
#include <cstdint>
#include <memory>
#include <string>

#include "engine/base/extent.hpp"
#include "engine/seams/store.hpp"
#include "engine/stores/io_uring.hpp"

namespace lockstep::engine {

struct BlockDeviceInfo {
  std::string path;
  std::uint64_t size = 0;  ///< bytes
  std::uint32_t logical_block_size = 512;
  std::uint32_t physical_block_size = 512;
  std::uint64_t discard_granularity = 0;  ///< bytes, 0: cannot discard
};

/// An open block device, claimed exclusively (O_EXCL: not mounted, not part of anything else, not opened twice).
class BlockDevice {
 public:
  /// Errors: missing, not a block device, in use, its logical blocks are larger than `block_size`.
  [[nodiscard]] static Result<std::shared_ptr<BlockDevice>> open(const std::string& path, std::uint32_t block_size);
  ~BlockDevice();
  BlockDevice(const BlockDevice&) = delete;
  BlockDevice& operator=(const BlockDevice&) = delete;

  [[nodiscard]] const BlockDeviceInfo& info() const { return info_; }
  [[nodiscard]] int descriptor() const { return descriptor_; }

 private:
  BlockDevice(BlockDeviceInfo info, int descriptor) : info_(std::move(info)), descriptor_(descriptor) {}
  BlockDeviceInfo info_;
  int descriptor_;
};

class BlockStore final : public Store {
 public:
  /// The bytes `part` of the device; its offset and length are multiples of 4096. no_space when the device is smaller.
  [[nodiscard]] static Result<std::unique_ptr<BlockStore>> open(IoUring& ring, std::shared_ptr<BlockDevice> device,
                                                                Extent part, std::uint32_t block_size = 512);
  ~BlockStore() override;  ///< nothing in flight

  [[nodiscard]] const StoreInfo& info() const override;
  void read(std::uint64_t offset, std::span<std::byte> into, IoCallback done) override;
  void write(std::uint64_t offset, std::span<const std::byte> from, Durability durability, IoCallback done) override;
  void write_zeroes(Extent extent, Durability durability, IoCallback done) override;
  void discard(Extent extent, Durability durability, IoCallback done) override;
  void flush(IoCallback done) override;
  [[nodiscard]] bool refuses_writes() const override;
  void take_writes_again() override;

 private:
  struct Impl;
  explicit BlockStore(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::engine
