#pragma once
// A volume's blocks (or a replica's metadata) in a file, through io_uring and past the page cache.
#include <cstdint>
#include <memory>
#include <string>

#include "engine/seams/store.hpp"
#include "engine/stores/io_uring.hpp"

namespace lockstep::engine {

enum class Allocation : std::uint8_t {
  thin,       ///< space comes with the first write
  allocated,  ///< all space is reserved when the file is made
};

class FileStore final : public Store {
 public:
  /// Makes the file with all zeros, durable under its name, or leaves nothing behind. Errors: the folder is missing,
  /// the file is there already (refused), not enough space (no_space). Blocks: not for the data path.
  [[nodiscard]] static Result<void> create(const std::string& path, std::uint64_t size, Allocation allocation);
  /// Removes the file, durably. Succeeds when it is not there. Blocks.
  [[nodiscard]] static Result<void> remove(const std::string& path);

  /// Opens a file of exactly `size` bytes for a volume of `block_size`, and locks it against other processes. Errors:
  /// missing, not a regular file, another size, in use, a file system that cannot do direct I/O in such blocks.
  [[nodiscard]] static Result<std::unique_ptr<FileStore>> open(IoUring& ring, const std::string& path,
                                                               std::uint64_t size, std::uint32_t block_size = 512);
  /// Makes the file longer, in use or not; what is added reads as zeros, durably. Succeeds when it is as long already,
  /// and makes that durable.
  /// On an error the file is as long as it was. Any thread; blocks as long as the file system takes.
  [[nodiscard]] static Result<void> extend(const std::string& path, std::uint64_t size, Allocation allocation);
  ~FileStore() override;  ///< nothing in flight

  /// The file was extended: all of its length is the store's from now on.
  void take_length();

  /// Bytes of disk that the file takes now.
  [[nodiscard]] std::uint64_t allocated_bytes() const;

  [[nodiscard]] const StoreInfo& info() const override;
  void read(std::uint64_t offset, std::span<std::byte> into, IoCallback done) override;
  void write(std::uint64_t offset, std::span<const std::byte> from, Durability durability, IoCallback done) override;
  void write_zeroes(Extent extent, Durability durability, IoCallback done) override;
  void discard(Extent extent, Durability durability, IoCallback done) override;
  void flush(IoCallback done) override;
  [[nodiscard]] bool refuses_writes() const override;
  void take_writes_again() override;
  void reserve(Extent extent, IoCallback done) override;
  void next_run(std::uint64_t offset, RunCallback done) override;

 private:
  struct Impl;
  explicit FileStore(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::engine
