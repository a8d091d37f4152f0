// MetadataArea::grow: what stands behind the map moves out of its way first, then the map gets its new blocks, and last
// the superblocks make them count. Each step is durable before the next begins, so that a power cut leaves an area that
// is whole, with the old size or with the new one.
#include <algorithm>
#include <limits>
#include <utility>

#include "engine/metadata/area_impl.hpp"

namespace lockstep::engine {
namespace {
using layout::kBlock;
constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();

/// Where the state stands when the volume has grown to `size`: where it is, if the map does not reach it.
std::uint64_t place_of_state(const VolumeIdentity& now, std::uint64_t size) {
  const std::uint64_t at = now.state_at != 0 ? now.state_at : MetadataArea::required_size(now.size, now.region_size);
  const std::uint64_t map_end = MetadataArea::required_size(size, now.region_size);
  return map_end <= at ? at : std::max(map_end, at + layout::kStateBytes);
}
}  // namespace

/// One grow under way; ended and destroyed by finish().
struct MetadataArea::Impl::Grower {
  Grower(Impl& area_in, VolumeIdentity next_in, IoCallback done_in)
      : area(area_in), next(std::move(next_in)), done(std::move(done_in)) {}

  Impl& area;
  VolumeIdentity next;
  IoCallback done;
  bool waits_for_state = false;
  layout::Blocks chunk{kMapChunk};

  [[nodiscard]] std::uint64_t old_state_at() const { return *state_at(area.store, area.state.identity); }

  void start() {
    next.key = area.state.identity.key;  // it may have waited for another one
    if (next.state_at == old_state_at()) {
      next.state_at = area.state.identity.state_at;
      return write_map(area.map.blocks());
    }
    area.state_moving = true;
    if (area.state_done) {
      waits_for_state = true;  // it ends where the state stands now
    } else {
      copy_state(0);
    }
  }

  void copy_state(std::uint64_t slot) {
    if (area.state_lost) return finish(Errc::io_error);
    if (slot == 2) return write_superblock(moved(), 0, [this] { state_moved(); });
    chunk.clear();
    const AreaState& now = area.state;
    if (now.lu_state_generation > 0) {
      layout::encode_state(chunk[0], chunk.all().subspan<kBlock, layout::kMaxState>(), now.lu_state);
      layout::seal(chunk[0], layout::Kind::state, now.key, slot, now.lu_state_generation);
    }
    area.store.write(next.state_at + slot * layout::kStateSlot, chunk.first(layout::state_blocks(now.lu_state.size())),
                     Durability::durable,
                     [this, slot](std::error_code error) { error ? finish(error) : copy_state(slot + 1); });
  }

  /// The old size, with the state in its new place.
  [[nodiscard]] VolumeIdentity moved() const {
    VolumeIdentity identity = area.state.identity;
    identity.state_at = next.state_at;
    return identity;
  }

  void state_moved() {
    area.state.identity = moved();
    area.state_moving = false;
    if (area.state_done) area.start_state_write();  // asked for meanwhile
    write_map(area.map.blocks());
  }

  void write_map(std::uint64_t block) {
    const std::uint64_t blocks = layout::map_blocks(layout::region_count(next.size, next.region_size));
    if (block == blocks) return flush();
    const std::size_t count = std::min<std::uint64_t>(kMapChunk, blocks - block);
    chunk.clear();
    for (std::size_t i = 0; i < count; ++i) {
      layout::seal(chunk[i], layout::Kind::map, area.state.key, block + i, area.state.map_generation);
    }
    area.store.write(layout::kMapAt + block * kBlock, chunk.first(count), Durability::cached,
                     [this, end = block + count](std::error_code error) { error ? finish(error) : write_map(end); });
  }

  void flush() {
    area.store.flush([this](std::error_code error) {
      if (error) return finish(error);
      write_superblock(next, 0, [this] { finish({}); });
    });
  }

  void write_superblock(const VolumeIdentity& identity, std::uint64_t slot, Callback<> then) {
    if (slot == 0) ++area.state.superblock_generation;
    chunk.clear();
    layout::seal_superblock(chunk[0], identity, area.state.key, slot, area.state.superblock_generation);
    area.store.write(layout::kSuperblockAt + slot * kBlock, chunk.first(1), Durability::durable,
                     [this, identity, slot, then = std::move(then)](std::error_code error) mutable {
                       if (error) return finish(error);
                       slot == 0 ? write_superblock(identity, 1, std::move(then)) : then();
                     });
  }

  void finish(std::error_code error) {
    if (error) {
      area.grow_lost = true;
      // Which of the two places counts when the area is opened is not known: nothing may be written to either.
      if (std::exchange(area.state_moving, false)) {
        area.state_lost = true;
        if (auto waiting = std::exchange(area.state_done, nullptr)) waiting(Errc::io_error);
      }
    } else {
      area.state.identity = next;
      area.map.grow(next.size);
      area.writer.grown();
    }
    const auto self = std::move(area.grower);
    if (area.key_done) error ? std::exchange(area.key_done, nullptr)(Errc::io_error) : area.start_key_write();
    std::exchange(done, nullptr)(error);  // perhaps the end of the area
  }
};

void MetadataArea::Impl::state_written() {
  if (grower && std::exchange(grower->waits_for_state, false)) grower->copy_state(0);
}

void MetadataArea::Impl::go_on_growing(std::error_code key_written) {
  key_written ? grower->finish(Errc::io_error) : grower->start();
}

std::uint64_t MetadataArea::size_to_grow(std::uint64_t volume_size) const {
  const VolumeIdentity& now = impl_->state.identity;
  if (layout::region_count(volume_size, now.region_size) == 0) return kNever;
  return place_of_state(now, std::max(volume_size, now.size)) + layout::kStateBytes;
}

void MetadataArea::grow(std::uint64_t volume_size, IoCallback done) {
  VolumeIdentity next = impl_->state.identity;
  if (volume_size <= next.size) return done({});
  next.size = volume_size;
  if (!layout::check(next)) return done(Errc::refused);
  if (impl_->grow_lost) return done(Errc::io_error);
  if (impl_->grower) return done(Errc::resource_exhausted);
  if (size_to_grow(volume_size) > impl_->store.info().size) return done(Errc::no_space);
  next.state_at = place_of_state(impl_->state.identity, volume_size);
  impl_->grower = std::make_shared<Impl::Grower>(*impl_, std::move(next), std::move(done));
  if (!impl_->key_writing) impl_->grower->start();
}

}  // namespace lockstep::engine
