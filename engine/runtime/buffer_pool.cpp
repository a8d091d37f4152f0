#include "engine/runtime/buffer_pool.hpp"

#include <bit>
#include <cassert>
#include <new>
#include <utility>

#include <sys/mman.h>

#include "engine/runtime/buddy.hpp"

namespace lockstep::engine {
namespace {

std::size_t rounded(std::size_t capacity) {
  const std::size_t units = (capacity + BufferPool::kMaxBuffer - 1) / BufferPool::kMaxBuffer;
  return (units == 0 ? 1 : units) * BufferPool::kMaxBuffer;
}

/// Address space aligned to the largest buffer, so that a buffer never crosses a huge page that it need not.
std::byte* map_aligned(std::size_t size) {
  const std::size_t reserve = size + BufferPool::kMaxBuffer;
  void* raw = mmap(nullptr, reserve, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED) throw std::bad_alloc();
  auto* begin = static_cast<std::byte*>(raw);
  const auto address = reinterpret_cast<std::uintptr_t>(begin);
  const std::size_t before = (BufferPool::kMaxBuffer - address % BufferPool::kMaxBuffer) % BufferPool::kMaxBuffer;
  if (before > 0) munmap(begin, before);
  if (const std::size_t after = reserve - before - size; after > 0) munmap(begin + before + size, after);
  madvise(begin + before, size, MADV_HUGEPAGE);
  return begin + before;
}

}  // namespace

struct BufferPool::Impl {
  explicit Impl(std::size_t size) : bytes(map_aligned(size)), capacity(size), buddy(size / kAlignment) {}
  ~Impl() { munmap(bytes, capacity); }
  std::byte* bytes;
  std::size_t capacity;
  std::size_t in_use = 0;
  Buddy buddy;
};

namespace {

unsigned order_for(std::size_t bytes) {
  const std::size_t pages = (bytes + BufferPool::kAlignment - 1) / BufferPool::kAlignment;
  return static_cast<unsigned>(std::bit_width(pages - 1));
}

}  // namespace

static_assert(BufferPool::kMaxBuffer == BufferPool::kAlignment << Buddy::kMaxOrder);

BufferPool::BufferPool(std::size_t capacity) : impl_(std::make_unique<Impl>(rounded(capacity))) {}

BufferPool::~BufferPool() { assert(impl_->in_use == 0); }

Buffer BufferPool::allocate(std::size_t bytes) {
  Buffer buffer;
  if (bytes == 0 || bytes > kMaxBuffer) return buffer;
  const unsigned order = order_for(bytes);
  const auto page = impl_->buddy.take(order);
  if (!page) return buffer;
  impl_->in_use += kAlignment << order;
  buffer.data_ = impl_->bytes + std::size_t{*page} * kAlignment;
  buffer.size_ = bytes;
  buffer.pool_ = this;
  return buffer;
}

void BufferPool::release(std::byte* data, std::size_t size) {
  const unsigned order = order_for(size);
  impl_->in_use -= kAlignment << order;
  impl_->buddy.give(static_cast<std::uint32_t>(static_cast<std::size_t>(data - impl_->bytes) / kAlignment), order);
}

std::size_t BufferPool::capacity() const { return impl_->capacity; }
std::size_t BufferPool::in_use() const { return impl_->in_use; }
std::span<std::byte> BufferPool::arena() const { return {impl_->bytes, impl_->capacity}; }

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      pool_(std::exchange(other.pool_, nullptr)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this == &other) return *this;
  reset();
  data_ = std::exchange(other.data_, nullptr);
  size_ = std::exchange(other.size_, 0);
  pool_ = std::exchange(other.pool_, nullptr);
  return *this;
}

Buffer::~Buffer() { reset(); }

void Buffer::reset() {
  if (data_ != nullptr) pool_->release(data_, size_);
  data_ = nullptr;
  size_ = 0;
  pool_ = nullptr;
}

}  // namespace lockstep::engine
