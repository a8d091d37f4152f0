#pragma once
// One bounded arena of aligned memory, handed out in powers of two from 4 KiB to 32 MiB. Registered once with io_uring
// and, later, with RDMA devices: everything a command carries lives here. Owned by one reactor; not thread-safe.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace lockstep::engine {

class BufferPool;

/// Memory borrowed from a pool; goes back when destroyed. Empty when the pool could not serve.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer();

  [[nodiscard]] explicit operator bool() const { return data_ != nullptr; }
  [[nodiscard]] std::span<std::byte> span() const { return {data_, size_}; }
  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t size() const { return size_; }  ///< bytes asked for
  void reset();

 private:
  friend class BufferPool;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  BufferPool* pool_ = nullptr;
};

class BufferPool {
 public:
  static constexpr std::size_t kAlignment = 4096;
  static constexpr std::size_t kMaxBuffer = std::size_t{32} << 20;

  /// Reserves `capacity` bytes of address space (rounded up to kMaxBuffer); pages are touched on first use.
  explicit BufferPool(std::size_t capacity);
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  /// An empty Buffer when `bytes` is 0, above kMaxBuffer, or not to be had now. Contents are undefined.
  [[nodiscard]] Buffer allocate(std::size_t bytes);
  [[nodiscard]] std::size_t capacity() const;
  [[nodiscard]] std::size_t in_use() const;
  /// The whole arena, for registration.
  [[nodiscard]] std::span<std::byte> arena() const;

 private:
  friend class Buffer;
  void release(std::byte* data, std::size_t size);
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::engine
