// MetadataArea::open: read the four slots, decide, read the map, put back the slot that was lost.
#include <algorithm>
#include <array>
#include <utility>

#include "engine/metadata/area_impl.hpp"
#include "engine/metadata/slots.hpp"

namespace lockstep::engine {
namespace {

using layout::kBlock;

constexpr std::size_t kChunk = 256;  // map blocks read at a time: 1 MiB

/// Kept alive by the callback of the step under way.
class Opener : public std::enable_shared_from_this<Opener> {
 public:
  using Done = Callback<Result<std::unique_ptr<MetadataArea>>>;
  Opener(Store& store, const Uuid& volume, NodeSide owner, Done done)
      : store_(store), volume_(volume), owner_(owner), done_(std::move(done)) {}

  void start() {
    if (store_.info().size < layout::kMapAt + kBlock) {
      return end(Errc::corrupt, "is too small to hold metadata (" + std::to_string(store_.info().size) + " bytes)");
    }
    read_slot(0);
  }

 private:
  void read_slot(std::size_t n) {
    if (n == 4) return decide();
    store_.read(n * kBlock, slots_[n], [self = shared_from_this(), n](std::error_code error) {
      self->unreadable_[n] = error;
      self->read_slot(n + 1);
    });
  }

  /// A slot that could not be read is as good as a damaged one.
  template <class T, class Read>
  layout::SlotPair<T> both(std::size_t first, Read read) {
    const auto one = [&](std::size_t i) -> layout::Checked<layout::Slot<T>> {
      if (const auto error = unreadable_[first + i]) {
        return std::unexpected(layout::Refusal{true, Errc::io_error, "cannot be read (" + error.message() + ")"});
      }
      return read(layout::ConstBlock(slots_[first + i]), i);
    };
    return {one(0), one(1)};
  }

  void decide() {
    const auto superblock = layout::choose(
        both<VolumeIdentity>(
            0, [&](auto block, std::size_t i) { return layout::read_superblock(block, i, volume_, owner_); }),
        where());
    if (!superblock) return finish(std::unexpected(superblock.error()));
    state_.identity = superblock->slot.value;
    state_.key = superblock->slot.key;
    const auto epoch = layout::choose(
        both<EpochRecord>(2, [&](auto block, std::size_t i) { return layout::read_epoch(block, i, state_.key); }),
        where());
    if (!epoch) return finish(std::unexpected(epoch.error()));
    state_.epoch = epoch->slot.value;
    state_.epoch_generation = epoch->slot.generation;
    state_.superblock_generation = superblock->slot.generation;
    rewrite_ = {superblock->rewrite[0], superblock->rewrite[1], epoch->rewrite[0], epoch->rewrite[1]};

    const auto& v = state_.identity;
    if (MetadataArea::required_size(v.size, v.region_size) > store_.info().size) {
      return end(Errc::corrupt, "is cut short: its dirty map would end at byte " +
                                    std::to_string(MetadataArea::required_size(v.size, v.region_size)) +
                                    ", the store at byte " + std::to_string(store_.info().size));
    }
    if (v.state_at != 0 && v.state_at + layout::kStateBytes > store_.info().size) {
      return end(Errc::corrupt, "is cut short: the unit's state would end at byte " +
                                    std::to_string(v.state_at + layout::kStateBytes) + ", the store at byte " +
                                    std::to_string(store_.info().size));
    }
    map_.emplace(v.size, v.region_size);
    read_map(0);
  }

  void read_map(std::uint64_t block) {
    if (block == map_->blocks()) return read_states();
    const std::size_t count = std::min<std::uint64_t>(kChunk, map_->blocks() - block);
    if (!chunk_) chunk_.emplace(count);
    store_.read(layout::kMapAt + block * kBlock, chunk_->first(count),
                [self = shared_from_this(), block](std::error_code error) { self->take_map(block, error); });
  }

  void take_map(std::uint64_t block, std::error_code error) {
    if (error) return end(Errc::io_error, "cannot be read: its dirty map gives \"" + error.message() + "\"");
    const std::uint64_t end_block = std::min<std::uint64_t>(block + kChunk, map_->blocks());
    for (std::uint64_t b = block; b < end_block; ++b) {
      const auto taken = take_map_block(b, (*chunk_)[b - block]);
      if (!taken) {
        return end(taken.error().code,
                   "cannot be used: dirty map block " + std::to_string(b) + " " + taken.error().reason);
      }
    }
    read_map(end_block);
  }

  layout::Checked<void> take_map_block(std::uint64_t index, layout::ConstBlock block) {
    const auto sealed = layout::unseal(block, layout::Kind::map, index);
    if (!sealed && sealed.error().damaged) return map_->set_block(index), layout::Checked<void>{};
    if (!sealed) return std::unexpected(sealed.error());
    if (const auto ours = layout::check_key(sealed->key, state_.key); !ours) return ours;
    if (!map_->load(index, block)) {
      return std::unexpected(layout::Refusal{false, Errc::corrupt, "has bits beyond the end of the volume"});
    }
    state_.map_generation = std::max(state_.map_generation, sealed->generation);
    return {};
  }

  void read_states() {
    state_at_ = state_at(store_, state_.identity);
    if (!state_at_) return put_back(0);
    states_.emplace(2 * layout::kStateSlot / kBlock);
    store_.read(*state_at_, states_->all(), [self = shared_from_this()](std::error_code error) {
      if (!error) return self->decide_state();
      self->end(Errc::io_error, "cannot be read: its state record gives \"" + error.message() + "\"");
    });
  }

  void decide_state() {
    const auto one = [this](std::size_t slot) {
      const std::size_t first = slot * layout::kStateSlot / kBlock;
      return layout::read_state((*states_)[first], states_->all().subspan((first + 1) * kBlock, layout::kMaxState),
                                slot, state_.key);
    };
    const auto chosen = layout::choose(layout::SlotPair<layout::StateBytes>{one(0), one(1)}, where());
    if (!chosen) return finish(std::unexpected(chosen.error()));
    state_.lu_state = chosen->slot.value;
    state_.lu_state_generation = chosen->slot.generation;
    rewrite_state_ = chosen->rewrite;
    put_back(0);
  }

  /// Slots 0 and 1 of the state.
  void put_back_state(std::size_t slot) {
    while (slot < 2 && !rewrite_state_[slot]) ++slot;
    if (slot == 2) return finish(AreaMaker::make(store_, std::move(state_), std::move(*map_)));
    const layout::Block first = (*states_)[0];
    std::ranges::fill(first, std::byte{0});
    if (state_.lu_state_generation > 0) {
      layout::encode_state(first, states_->all().subspan<kBlock, layout::kMaxState>(), state_.lu_state);
      layout::seal(first, layout::Kind::state, state_.key, slot, state_.lu_state_generation);
    }
    store_.write(*state_at_ + slot * layout::kStateSlot, states_->first(layout::state_blocks(state_.lu_state.size())),
                 Durability::durable, [self = shared_from_this(), slot](std::error_code error) {
                   if (!error) return self->put_back_state(slot + 1);
                   self->end(Errc::io_error, "has a damaged state record that cannot be rewritten: " + error.message());
                 });
  }

  void put_back(std::size_t n) {
    while (n < 4 && !rewrite_[n]) ++n;
    if (n == 4) return put_back_state(0);
    const layout::Block block = slots_[n];
    std::ranges::fill(block, std::byte{0});
    if (n < 2) {
      layout::seal_superblock(block, state_.identity, state_.key, n, state_.superblock_generation);
    } else {
      layout::encode(block, state_.epoch);
      layout::seal(block, layout::Kind::epoch, state_.key, n - 2, state_.epoch_generation);
    }
    store_.write(n * kBlock, block, Durability::durable, [self = shared_from_this(), n](std::error_code error) {
      if (error) return self->end(Errc::io_error, "has a damaged slot that cannot be rewritten: " + error.message());
      self->put_back(n + 1);
    });
  }

  [[nodiscard]] std::string where() const {
    return "Metadata of volume " + volume_.to_string() + " in " + store_.info().name;
  }
  void end(Errc code, std::string reason) { finish(fail(code, where() + " " + std::move(reason) + ".")); }
  void finish(Result<std::unique_ptr<MetadataArea>> result) { std::exchange(done_, nullptr)(std::move(result)); }

  Store& store_;
  Uuid volume_;
  NodeSide owner_;
  Done done_;
  layout::Blocks slots_{4};
  std::array<std::error_code, 4> unreadable_;
  std::array<bool, 4> rewrite_{};
  AreaState state_;
  std::optional<DirtyMap> map_;
  std::optional<layout::Blocks> chunk_;
  std::optional<std::uint64_t> state_at_;
  std::optional<layout::Blocks> states_;
  std::array<bool, 2> rewrite_state_{};
};

}  // namespace

void MetadataArea::open(Store& store, const Uuid& volume, NodeSide owner,
                        Callback<Result<std::unique_ptr<MetadataArea>>> done) {
  std::make_shared<Opener>(store, volume, owner, std::move(done))->start();
}

}  // namespace lockstep::engine
