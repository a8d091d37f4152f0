#include "engine/runtime/buffer_pool.hpp"

#include <algorithm>
#include <cassert>
#include <new>
#include <vector>

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

struct Zone {
  std::byte* begin;
  std::size_t capacity;
  Buddy buddy;
};

/// In largest buffers, the zone of the smallest sizes first.
std::vector<std::size_t> zone_sizes(std::size_t blocks, BufferPool::Layout layout) {
  if (layout == BufferPool::Layout::whole || blocks == 1) return {blocks};
  if (blocks == 2) return {1, 1};
  const std::size_t small = std::max<std::size_t>(1, blocks / 8);
  const std::size_t large = blocks * 3 / 8;
  return {small, blocks - small - large, large};
}

}  // namespace

struct BufferPool::Impl {
  Impl(std::size_t size, Layout layout) : bytes(map_aligned(size)), capacity(size) {
    std::byte* at = bytes;
    for (const std::size_t blocks : zone_sizes(size / kMaxBuffer, layout)) {
      const std::size_t part = blocks * kMaxBuffer;
      zones.push_back({at, part, Buddy(part / kAlignment)});
      at += part;
    }
  }
  ~Impl() { munmap(bytes, capacity); }

  [[nodiscard]] std::size_t zone_of_order(unsigned order) const {
    const std::size_t block = kAlignment << order;
    const std::size_t wanted = block <= kMaxSmall ? 0 : block <= kMaxMedium ? 1 : 2;
    // Where small and medium share one, it is the first.
    return zones.size() == kMaxZones ? wanted : wanted / 2 * (zones.size() - 1);
  }

  std::byte* bytes;
  std::size_t capacity;
  std::size_t in_use = 0;
  std::vector<Zone> zones;
};

static_assert(BufferPool::kMaxBuffer == BufferPool::kAlignment << Buddy::kMaxOrder);

BufferPool::BufferPool(std::size_t capacity, Layout layout)
    : impl_(std::make_unique<Impl>(rounded(capacity), layout)) {}

BufferPool::~BufferPool() { assert(impl_->in_use == 0); }

Buffer BufferPool::allocate(std::size_t bytes) {
  Buffer buffer;
  if (bytes == 0 || bytes > kMaxBuffer) return buffer;
  const unsigned order = order_for(bytes);
  Zone& zone = impl_->zones[impl_->zone_of_order(order)];
  const auto page = zone.buddy.take(order);
  if (!page) return buffer;
  impl_->in_use += kAlignment << order;
  buffer.data_ = zone.begin + std::size_t{*page} * kAlignment;
  buffer.size_ = bytes;
  buffer.pool_ = this;
  buffer.order_ = order;
  return buffer;
}

void BufferPool::release(std::byte* data, unsigned order) {
  impl_->in_use -= kAlignment << order;
  Zone& zone = impl_->zones[impl_->zone_of_order(order)];
  zone.buddy.give(static_cast<std::uint32_t>(static_cast<std::size_t>(data - zone.begin) / kAlignment), order);
}

std::size_t BufferPool::zone_of(std::size_t bytes) const { return impl_->zone_of_order(order_for(bytes)); }
std::size_t BufferPool::zones() const { return impl_->zones.size(); }
std::size_t BufferPool::zone_capacity(std::size_t zone) const { return impl_->zones[zone].capacity; }
std::size_t BufferPool::capacity() const { return impl_->capacity; }
std::size_t BufferPool::in_use() const { return impl_->in_use; }
std::span<std::byte> BufferPool::arena() const { return {impl_->bytes, impl_->capacity}; }

}  // namespace lockstep::engine
