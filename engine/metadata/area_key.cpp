// MetadataArea::write_key: the superblocks again, with another key in them.
#include <utility>

#include "engine/metadata/area_impl.hpp"

namespace lockstep::engine {

void MetadataArea::write_key(const SealedKey& key, IoCallback done) {
  if (!impl_->state.identity.key) return done(Errc::refused);
  if (impl_->grow_lost) return done(Errc::io_error);
  if (impl_->key_done) return done(Errc::resource_exhausted);
  impl_->next_key = key;
  impl_->key_done = std::move(done);
  if (!impl_->grower) impl_->start_key_write();
}

void MetadataArea::Impl::start_key_write() {
  key_writing = true;
  ++state.superblock_generation;
  write_key_slot(0);
}

void MetadataArea::Impl::write_key_slot(std::uint64_t slot) {
  VolumeIdentity identity = state.identity;
  identity.key = next_key;
  key_block.clear();
  layout::seal_superblock(key_block[0], identity, state.key, slot, state.superblock_generation);
  store.write(layout::kSuperblockAt + slot * layout::kBlock, key_block.all(), Durability::durable,
              [this, slot](std::error_code error) {
                if (!error && slot == 0) return write_key_slot(1);
                end_key_write(error);
              });
}

void MetadataArea::Impl::end_key_write(std::error_code error) {
  key_writing = false;
  if (error) {
    grow_lost = true;  // which superblock counts is not known
  } else {
    state.identity.key = next_key;
  }
  auto done = std::exchange(key_done, nullptr);
  if (grower) go_on_growing(error);
  done(error);
}

}  // namespace lockstep::engine
