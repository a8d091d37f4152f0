#include "engine/metadata/metadata_area.hpp"

#include <cassert>
#include <limits>
#include <utility>

#include "engine/metadata/area_impl.hpp"

namespace lockstep::engine {

std::uint64_t MetadataArea::required_size(std::uint64_t volume_size, std::uint32_t region_size) {
  const std::uint64_t regions = layout::region_count(volume_size, region_size);
  if (regions == 0) return std::numeric_limits<std::uint64_t>::max();
  return layout::kMapAt + layout::map_blocks(regions) * layout::kBlock;
}

std::uint64_t MetadataArea::size_with_state(std::uint64_t volume_size, std::uint32_t region_size) {
  const std::uint64_t size = required_size(volume_size, region_size);
  return size == std::numeric_limits<std::uint64_t>::max() ? size : size + layout::kStateBytes;
}

std::optional<std::uint64_t> state_at(const Store& store, const VolumeIdentity& identity) {
  if (identity.state_at != 0) return identity.state_at;
  if (store.info().size < MetadataArea::size_with_state(identity.size, identity.region_size)) return std::nullopt;
  return MetadataArea::required_size(identity.size, identity.region_size);
}

MetadataArea::MetadataArea(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
MetadataArea::~MetadataArea() = default;

bool MetadataArea::idle() const {
  return impl_->writer.idle() && !impl_->record_writing && !impl_->state_done && !impl_->grower && !impl_->key_done;
}

std::unique_ptr<MetadataArea> AreaMaker::make(Store& store, AreaState state, DirtyMap map) {
  auto impl = std::make_unique<MetadataArea::Impl>(store, std::move(state), std::move(map));
  return std::unique_ptr<MetadataArea>(new MetadataArea(std::move(impl)));
}

const VolumeIdentity& MetadataArea::identity() const { return impl_->state.identity; }
const EpochRecord& MetadataArea::epoch() const { return impl_->state.record.epoch; }
const Knowledge& MetadataArea::knowledge() const { return impl_->state.record.knowledge; }

static_assert(MetadataArea::kMaxState == layout::kMaxState);

bool MetadataArea::keeps_state() const { return state_at(impl_->store, impl_->state.identity).has_value(); }
std::span<const std::byte> MetadataArea::state() const { return impl_->state.lu_state; }

void MetadataArea::write_state(std::span<const std::byte> state, IoCallback done) {
  if (!keeps_state()) return done(Errc::no_space);
  if (impl_->state_lost) return done(Errc::io_error);
  if (impl_->state_done) return done(Errc::resource_exhausted);
  if (state.size() > kMaxState) return done(Errc::refused);
  impl_->next_state.assign(state.begin(), state.end());
  impl_->state_done = std::move(done);
  if (!impl_->state_moving) impl_->start_state_write();
}

/// Its number comes no earlier: while the state moves, the one before goes to both its new slots under its own.
void MetadataArea::Impl::start_state_write() {
  ++state.lu_state_generation;
  if (!state_slot) state_slot = std::make_unique<layout::Blocks>(layout::kStateSlot / layout::kBlock);
  write_state_slot(0);
}

void MetadataArea::Impl::write_state_slot(std::uint64_t slot) {
  const layout::Block first = (*state_slot)[0];
  layout::encode_state(first, state_slot->all().subspan<layout::kBlock, layout::kMaxState>(), next_state);
  layout::seal(first, layout::Kind::state, state.key, slot, state.lu_state_generation);
  store.write(*state_at(store, state.identity) + slot * layout::kStateSlot,
              state_slot->first(layout::state_blocks(next_state.size())), Durability::durable,
              [this, slot](std::error_code error) {
                if (!error && slot == 0) return write_state_slot(1);
                state_lost = static_cast<bool>(error);
                if (!error) state.lu_state.swap(next_state);
                auto done = std::exchange(state_done, nullptr);
                state_written();
                done(error);
              });
}

std::uint64_t MetadataArea::region_count() const { return impl_->map.regions(); }
std::uint64_t MetadataArea::dirty_count() const { return impl_->map.count(); }

bool MetadataArea::is_dirty(std::uint64_t region) const {
  return region < impl_->map.regions() && impl_->map.test(region);
}

bool MetadataArea::is_durably_dirty(Extent extent) const {
  if (!extent.fits(impl_->state.identity.size)) return false;
  if (extent.empty()) return true;
  const std::uint32_t region = impl_->map.region_size();
  return impl_->writer.is_durable(extent.offset / region, (extent.end() - 1) / region);
}

std::optional<std::uint64_t> MetadataArea::next_dirty(std::uint64_t from) const { return impl_->map.next(from); }

void MetadataArea::set_dirty(Extent extent, IoCallback done) {
  if (!extent.fits(impl_->state.identity.size)) return done(Errc::out_of_range);
  if (extent.empty()) return done({});
  const std::uint32_t region = impl_->map.region_size();
  impl_->writer.set(extent.offset / region, (extent.end() - 1) / region, std::move(done));
}

void MetadataArea::set_dirty(std::span<const std::uint64_t> words, IoCallback done) {
  const std::uint64_t regions = impl_->map.regions();
  const bool fits =
      words.size() < impl_->map.words().size() ||
      (words.size() == impl_->map.words().size() && (regions % 64 == 0 || words.back() >> regions % 64 == 0));
  if (!fits) return done(Errc::out_of_range);
  impl_->writer.unite(words, std::move(done));
}

void MetadataArea::clear_dirty(std::vector<std::uint64_t> regions, IoCallback done) {
  for (const std::uint64_t region : regions) {
    if (region >= impl_->map.regions()) return done(Errc::out_of_range);
  }
  impl_->writer.clear(regions, std::move(done));
}

const std::vector<std::uint64_t>& MetadataArea::words() const { return impl_->map.words(); }

}  // namespace lockstep::engine
