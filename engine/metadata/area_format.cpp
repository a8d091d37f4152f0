// MetadataArea::format: first nothing there is valid any more, then map and epoch are laid out, and last the
// superblocks make them count. A crash on the way leaves no area, never half of one.
#include <algorithm>
#include <utility>

#include "engine/metadata/area_impl.hpp"

namespace lockstep::engine {
namespace {

using layout::kBlock;

/// Kept alive by the callback of the step under way.
class Formatter : public std::enable_shared_from_this<Formatter> {
 public:
  using Done = Callback<Result<std::unique_ptr<MetadataArea>>>;
  Formatter(Store& store, VolumeIdentity identity, EpochRecord epoch, InitialMap initial, Done done)
      : store_(store), initial_(initial), done_(std::move(done)) {
    state_.key = {identity.pair, identity.volume, epoch.id, identity.owner};
    state_.identity = std::move(identity);
    state_.identity.state_at = 0;
    state_.record.epoch = std::move(epoch);
    state_.superblock_generation = state_.record_generation = state_.map_generation = 1;
  }

  void start() {
    if (const auto good = acceptable(); !good) return finish(std::unexpected(good.error()));
    map_.emplace(state_.identity.size, state_.identity.region_size);
    if (initial_ == InitialMap::all_dirty) {
      for (std::uint64_t block = 0; block < map_->blocks(); ++block) map_->set_block(block);
    }
    store_.write_zeroes({0, layout::kMapAt}, Durability::durable, [self = shared_from_this()](std::error_code error) {
      if (!self->failed(error)) self->clear_state();
    });
  }

 private:
  [[nodiscard]] Result<void> acceptable() const {
    if (const auto good = layout::check(state_.identity); !good) return good;
    if (const auto good = layout::check(state_.record.epoch); !good) return good;
    const auto& v = state_.identity;
    if (const auto needed = MetadataArea::required_size(v.size, v.region_size); needed > store_.info().size) {
      return fail(Errc::no_space, "The metadata of volume " + v.volume.to_string() + " needs " +
                                      std::to_string(needed) + " bytes; " + store_.info().name + " has " +
                                      std::to_string(store_.info().size) + ".");
    }
    return {};
  }

  void clear_state() {
    const auto at = state_at(store_, state_.identity);
    if (!at) return write_map(0);
    store_.write_zeroes({*at, layout::kStateBytes}, Durability::durable,
                        [self = shared_from_this()](std::error_code error) {
                          if (!self->failed(error)) self->write_map(0);
                        });
  }

  void write_map(std::uint64_t block) {
    if (block == map_->blocks()) return write_slot(layout::Kind::epoch, 0);
    const std::size_t count = std::min<std::uint64_t>(kMapChunk, map_->blocks() - block);
    for (std::size_t i = 0; i < count; ++i) {
      map_->store(block + i, chunk_[i]);
      layout::seal(chunk_[i], layout::Kind::map, state_.key, block + i, state_.map_generation);
    }
    store_.write(layout::kMapAt + block * kBlock, chunk_.first(count), Durability::cached,
                 [self = shared_from_this(), next = block + count](std::error_code error) {
                   if (!self->failed(error)) self->write_map(next);
                 });
  }

  void write_slot(layout::Kind kind, std::uint64_t slot) {
    chunk_.clear();
    const bool is_epoch = kind == layout::Kind::epoch;
    if (is_epoch) {
      layout::seal_record(chunk_[0], state_.record, state_.key, slot, 1);
    } else {
      layout::seal_superblock(chunk_[0], state_.identity, state_.key, slot, 1);
    }
    const std::uint64_t at = (is_epoch ? layout::kEpochAt : layout::kSuperblockAt) + slot * kBlock;
    store_.write(at, chunk_.first(1), Durability::durable,
                 [self = shared_from_this(), kind, slot](std::error_code error) {
                   if (!self->failed(error)) self->after_slot(kind, slot);
                 });
  }

  void after_slot(layout::Kind kind, std::uint64_t slot) {
    if (slot == 0) return write_slot(kind, 1);
    if (kind == layout::Kind::superblock) return finish(AreaMaker::make(store_, std::move(state_), std::move(*map_)));
    store_.flush([self = shared_from_this()](std::error_code error) {
      if (!self->failed(error)) self->write_slot(layout::Kind::superblock, 0);
    });
  }

  bool failed(std::error_code error) {
    if (!error) return false;
    finish(fail(Errc::io_error, "The metadata of volume " + state_.identity.volume.to_string() +
                                    " could not be written to " + store_.info().name + ": " + error.message() + "."));
    return true;
  }
  void finish(Result<std::unique_ptr<MetadataArea>> result) { std::exchange(done_, nullptr)(std::move(result)); }

  Store& store_;
  InitialMap initial_;
  Done done_;
  AreaState state_;
  std::optional<DirtyMap> map_;
  layout::Blocks chunk_{kMapChunk};
};

}  // namespace

void MetadataArea::format(Store& store, VolumeIdentity identity, EpochRecord epoch, InitialMap map,
                          Callback<Result<std::unique_ptr<MetadataArea>>> done) {
  std::make_shared<Formatter>(store, std::move(identity), std::move(epoch), map, std::move(done))->start();
}

}  // namespace lockstep::engine
