#include "replication/core/write_same.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>

namespace lockstep::replication {
namespace {

/// One WRITE SAME under way: a buffer full of the block, written over the extent piece by piece; at the end all of it
/// is made durable at once.
struct Repeat {
  engine::Store& store;
  engine::Extent rest;
  engine::Durability durability;
  engine::IoCallback done;
  engine::Buffer buffer;
  bool flushes = false;  ///< at the end, rather than make each piece durable

  static void step(std::unique_ptr<Repeat> self) {
    if (self->rest.empty()) {
      auto finished = std::move(self->done);
      if (!self->flushes) return finished({});
      return self->store.flush(std::move(finished));
    }
    const std::uint64_t length = std::min<std::uint64_t>(self->rest.length, self->buffer.size());
    const std::uint64_t offset = self->rest.offset;
    self->rest = {offset + length, self->rest.length - length};
    auto& store = self->store;
    const auto bytes = self->buffer.span().first(length);
    const auto durability = self->flushes ? engine::Durability::cached : self->durability;
    store.write(offset, bytes, durability, [self = std::move(self)](std::error_code error) mutable {
      if (!error) return step(std::move(self));
      auto finished = std::move(self->done);
      finished(error);
    });
  }
};

constexpr std::uint64_t kRepeatBytes = std::uint64_t{1} << 20;

}  // namespace

void write_same(engine::Store& store, engine::BufferPool& buffers, engine::Clock& clock, engine::Extent extent,
                std::span<const std::byte> block, engine::Durability durability, engine::IoCallback done) {
  if (std::ranges::all_of(block, [](std::byte b) { return b == std::byte{0}; })) {
    return store.write_zeroes(extent, durability, std::move(done));
  }
  const std::uint64_t bytes = std::min(extent.length, kRepeatBytes / block.size() * block.size());
  auto buffer = buffers.allocate(bytes);
  if (!buffer) {
    // Pool dry: the store's error would make the replica leave, so wait for a buffer instead.
    clock.call_after(std::chrono::milliseconds(5),
                     [&store, &buffers, &clock, extent, block, durability, done = std::move(done)]() mutable {
                       write_same(store, buffers, clock, extent, block, durability, std::move(done));
                     });
    return;
  }
  for (std::uint64_t at = 0; at < bytes; at += block.size()) {
    std::memcpy(buffer.data() + at, block.data(), std::min<std::uint64_t>(block.size(), bytes - at));
  }
  const bool flushes = durability == engine::Durability::durable && extent.length > bytes;
  Repeat::step(
      std::unique_ptr<Repeat>(new Repeat{store, extent, durability, std::move(done), std::move(buffer), flushes}));
}

}  // namespace lockstep::replication
