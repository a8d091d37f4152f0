#include "replication/core/write_same.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <utility>

namespace lockstep::replication {
namespace {

/// Of the pool's small buffers: a range may take minutes, and be one of many.
constexpr std::uint64_t kRepeatBytes = engine::BufferPool::kMaxSmall;
constexpr unsigned kAtOnce = 16;

/// One WRITE SAME under way: a buffer full of the block, written over the extent piece by piece, several pieces at a
/// time; at the end all of it is made durable at once. It ends itself.
class Repeat {
 public:
  Repeat(engine::Store& store, engine::Extent extent, engine::Durability durability, engine::IoCallback done,
         engine::Buffer buffer)
      : store_(store),
        rest_(extent),
        flushes_(durability == engine::Durability::durable && extent.length > buffer.size()),
        durability_(flushes_ ? engine::Durability::cached : durability),
        done_(std::move(done)),
        buffer_(std::move(buffer)) {}

  static void go_on(const std::shared_ptr<Repeat>& self) {
    while (!self->error_ && !self->rest_.empty() && self->at_work_ < kAtOnce) write_piece(self);
    if (self->at_work_ == 0 && self->done_) self->end();
  }

 private:
  static void write_piece(const std::shared_ptr<Repeat>& self) {
    const std::uint64_t length = std::min<std::uint64_t>(self->rest_.length, self->buffer_.size());
    const std::uint64_t offset = self->rest_.offset;
    self->rest_ = {offset + length, self->rest_.length - length};
    ++self->at_work_;
    self->store_.write(offset, self->buffer_.span().first(length), self->durability_, [self](std::error_code error) {
      --self->at_work_;
      if (error && !self->error_) self->error_ = error;
      go_on(self);
    });
  }
  void end() {
    auto done = std::exchange(done_, nullptr);
    if (error_ || !flushes_) return done(error_);
    store_.flush(std::move(done));
  }

  engine::Store& store_;
  engine::Extent rest_;
  const bool flushes_;  ///< at the end, rather than make each piece durable
  const engine::Durability durability_;
  engine::IoCallback done_;
  const engine::Buffer buffer_;
  unsigned at_work_ = 0;
  std::error_code error_;
};

}  // namespace

void write_same(engine::Store& store, engine::BufferPool& buffers, engine::Clock& clock, engine::Extent extent,
                std::span<const std::byte> block, engine::Durability durability, engine::TimePoint& since,
                engine::IoCallback done) {
  since = clock.now();
  if (std::ranges::all_of(block, [](std::byte b) { return b == std::byte{0}; })) {
    return store.write_zeroes(extent, durability, std::move(done));
  }
  const std::uint64_t bytes = std::min(extent.length, kRepeatBytes / block.size() * block.size());
  auto buffer = buffers.allocate(bytes);
  if (!buffer) {
    // Pool dry: the store's error would make the replica leave, so wait for a buffer instead.
    clock.call_after(std::chrono::milliseconds(5),
                     [&store, &buffers, &clock, extent, block, durability, &since, done = std::move(done)]() mutable {
                       write_same(store, buffers, clock, extent, block, durability, since, std::move(done));
                     });
    return;
  }
  for (std::uint64_t at = 0; at < bytes; at += block.size()) {
    std::memcpy(buffer.data() + at, block.data(), std::min<std::uint64_t>(block.size(), bytes - at));
  }
  Repeat::go_on(std::make_shared<Repeat>(store, extent, durability, std::move(done), std::move(buffer)));
}

}  // namespace lockstep::replication
