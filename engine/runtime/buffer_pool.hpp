#pragma once
// One bounded arena of aligned memory, handed out in powers of two from 4 KiB to 32 MiB. Registered once with io_uring
// and, later, with RDMA devices: everything a command carries lives here. Owned by one reactor; not thread-safe.
//
// A pool that is laid out by size keeps small, medium and large buffers in zones of their own: small ones neither
// break the large blocks up nor wait for them.
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

namespace lockstep::engine {

class BufferPool;

/// Memory borrowed from a pool; goes back when destroyed. Empty when the pool could not serve.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)),
        pool_(other.pool_),
        order_(other.order_) {}
  Buffer& operator=(Buffer&& other) noexcept {
    if (this == &other) return *this;
    reset();
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
    pool_ = other.pool_;
    order_ = other.order_;
    return *this;
  }
  ~Buffer() { reset(); }

  [[nodiscard]] explicit operator bool() const { return data_ != nullptr; }
  [[nodiscard]] std::span<std::byte> span() const { return {data_, size_}; }
  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t size() const { return size_; }  ///< bytes asked for
  /// Makes it `bytes` long. False when that is 0 or more than its block has.
  [[nodiscard]] bool resize(std::size_t bytes);
  void reset();

 private:
  friend class BufferPool;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  BufferPool* pool_ = nullptr;  // this and the order mean something only with data
  unsigned order_ = 0;          // of its block
};

class BufferPool {
 public:
  static constexpr std::size_t kAlignment = 4096;
  static constexpr std::size_t kMaxBuffer = std::size_t{32} << 20;
  static constexpr std::size_t kMaxSmall = std::size_t{64} << 10;
  static constexpr std::size_t kMaxMedium = std::size_t{2} << 20;
  static constexpr std::size_t kMaxZones = 3;  ///< small, medium, large

  enum class Layout : std::uint8_t {
    whole,    ///< one zone for all sizes
    by_size,  ///< one for each; below 96 MiB small and medium share one, at 32 MiB all do
  };

  /// Reserves `capacity` bytes of address space (rounded up to kMaxBuffer); pages are touched on first use.
  explicit BufferPool(std::size_t capacity, Layout layout = Layout::whole);
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  /// An empty Buffer when `bytes` is 0, above kMaxBuffer, or not to be had now. Contents are undefined.
  [[nodiscard]] Buffer allocate(std::size_t bytes);
  [[nodiscard]] std::size_t capacity() const;
  [[nodiscard]] std::size_t in_use() const;
  /// Which zone serves that many bytes, below zones().
  [[nodiscard]] std::size_t zone_of(std::size_t bytes) const;
  [[nodiscard]] std::size_t zones() const;
  [[nodiscard]] std::size_t zone_capacity(std::size_t zone) const;
  /// What a buffer of `bytes` (1 to kMaxBuffer) takes of its zone.
  [[nodiscard]] static std::size_t block_size(std::size_t bytes) { return kAlignment << order_for(bytes); }
  /// The whole arena, for registration.
  [[nodiscard]] std::span<std::byte> arena() const;

 private:
  friend class Buffer;
  [[nodiscard]] static unsigned order_for(std::size_t bytes) {
    return static_cast<unsigned>(std::bit_width((bytes + kAlignment - 1) / kAlignment - 1));
  }
  void release(std::byte* data, unsigned order);
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

inline bool Buffer::resize(std::size_t bytes) {
  if (data_ == nullptr || bytes == 0 || bytes > BufferPool::kAlignment << order_) return false;
  size_ = bytes;
  return true;
}

// Most buffers that end were moved from.
inline void Buffer::reset() {
  if (data_ == nullptr) return;
  pool_->release(std::exchange(data_, nullptr), order_);
  size_ = 0;
}

}  // namespace lockstep::engine
