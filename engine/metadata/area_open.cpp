// MetadataArea::open: read the four slots, decide, read the map and the state, flush, put back what was lost or can't
// be read.
#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "engine/metadata/area_impl.hpp"
#include "engine/metadata/slots.hpp"

namespace lockstep::engine {
namespace {

using layout::kBlock;

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
  static std::unexpected<layout::Refusal> unreadable(std::error_code error) {
    return std::unexpected(layout::Refusal{true, Errc::io_error, "cannot be read (" + error.message() + ")"});
  }

  template <class T, class Read>
  layout::SlotPair<T> both(std::size_t first, Read read) {
    const auto one = [&](std::size_t i) -> layout::Checked<layout::Slot<T>> {
      if (const auto error = unreadable_[first + i]) return unreadable(error);
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
    const auto record = layout::choose(
        both<ReplicaRecord>(2, [&](auto block, std::size_t i) { return layout::read_record(block, i, state_.key); }),
        where());
    if (!record) return finish(std::unexpected(record.error()));
    state_.record = record->slot.value;
    state_.record_generation = record->slot.generation;
    state_.superblock_generation = superblock->slot.generation;
    rewrite_ = {superblock->rewrite[0], superblock->rewrite[1], record->rewrite[0], record->rewrite[1]};

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
    if (block == map_->blocks()) return read_state(0);
    const std::size_t count = std::min<std::uint64_t>(kMapChunk, map_->blocks() - block);
    if (!chunk_) chunk_.emplace(count);
    const std::uint64_t end_block = block + count;
    store_.read(layout::kMapAt + block * kBlock, chunk_->first(count),
                [self = shared_from_this(), block, end_block](std::error_code error) {
                  error ? self->read_one_by_one(block, end_block) : self->take_map(block, end_block);
                });
  }

  void take_map(std::uint64_t block, std::uint64_t end_block) {
    for (std::size_t i = 0; block + i < end_block; ++i) {
      if (!take_map_block(block + i, (*chunk_)[i])) return;
    }
    read_map(end_block);
  }

  /// Blocks of which some can't be read. All bits of such a block are set, in memory first: before they count, the
  /// block is written anew, for the disk may yet come back with what it had.
  void read_one_by_one(std::uint64_t block, std::uint64_t end_block) {
    if (block == end_block) return read_map(end_block);
    store_.read(layout::kMapAt + block * kBlock, (*chunk_)[0],
                [self = shared_from_this(), block, end_block](std::error_code error) {
                  if (error) {
                    self->map_->set_block(block);
                    self->rewrite_map_.push_back(block);
                  } else if (!self->take_map_block(block, (*self->chunk_)[0])) {
                    return;
                  }
                  self->read_one_by_one(block + 1, end_block);
                });
  }

  /// False: it was refused, and all is over.
  bool take_map_block(std::uint64_t index, layout::ConstBlock block) {
    const auto taken = check_map_block(index, block);
    if (taken) return true;
    end(taken.error().code, "cannot be used: dirty map block " + std::to_string(index) + " " + taken.error().reason);
    return false;
  }

  layout::Checked<void> check_map_block(std::uint64_t index, layout::ConstBlock block) {
    const auto sealed = layout::unseal(block, layout::Kind::map, index);
    if (!sealed && sealed.error().damaged) {
      // Written anew: as it is, part of a later write could make what it was before whole again, without newer bits.
      map_->set_block(index);
      rewrite_map_.push_back(index);
      return {};
    }
    if (!sealed) return std::unexpected(sealed.error());
    if (const auto ours = layout::check_key(sealed->key, state_.key); !ours) return ours;
    if (!map_->load(index, block)) {
      return std::unexpected(layout::Refusal{false, Errc::corrupt, "has bits beyond the end of the volume"});
    }
    state_.map_generation = std::max(state_.map_generation, sealed->generation);
    return {};
  }

  void read_state(std::size_t slot) {
    state_at_ = state_at(store_, state_.identity);
    if (!state_at_) return make_durable();
    if (slot == 2) return decide_state();
    if (!states_) states_.emplace(2 * layout::kStateSlot / kBlock);
    const std::uint64_t at = slot * layout::kStateSlot;
    store_.read(*state_at_ + at, states_->all().subspan(at, layout::kStateSlot),
                [self = shared_from_this(), slot](std::error_code error) {
                  self->unreadable_state_[slot] = error;
                  self->read_state(slot + 1);
                });
  }

  void decide_state() {
    const auto one = [this](std::size_t slot) -> layout::Checked<layout::Slot<layout::StateBytes>> {
      if (const auto error = unreadable_state_[slot]) return unreadable(error);
      const std::size_t first = slot * layout::kStateSlot / kBlock;
      return layout::read_state((*states_)[first], states_->all().subspan((first + 1) * kBlock, layout::kMaxState),
                                slot, state_.key);
    };
    const auto chosen = layout::choose(layout::SlotPair<layout::StateBytes>{one(0), one(1)}, where());
    if (!chosen) return finish(std::unexpected(chosen.error()));
    state_.lu_state = chosen->slot.value;
    state_.lu_state_generation = chosen->slot.generation;
    rewrite_state_ = chosen->rewrite;
    make_durable();
  }

  /// What was read may stand in a cache only: a process that was killed left writes that nobody waited for. Before it
  /// counts, and before a slot is written because the other one has it, it is made durable.
  void make_durable() {
    store_.flush([self = shared_from_this()](std::error_code error) {
      if (!error) return self->put_back(0);
      self->end(Errc::io_error, "was read and can't be made durable: " + error.message());
    });
  }

  /// Slots 0 and 1 of the state.
  void put_back_state(std::size_t slot) {
    while (slot < 2 && !rewrite_state_[slot]) ++slot;
    if (slot == 2) return finish(AreaMaker::make(store_, std::move(state_), std::move(*map_)));
    states_->clear();
    if (state_.lu_state_generation > 0) {
      layout::encode_state((*states_)[0], states_->all().subspan<kBlock, layout::kMaxState>(), state_.lu_state);
      layout::seal((*states_)[0], layout::Kind::state, state_.key, slot, state_.lu_state_generation);
    }
    // All of one that could not be read: whichever sector it was, it can be read next time.
    const std::size_t blocks =
        unreadable_state_[slot] ? layout::kStateSlot / kBlock : layout::state_blocks(state_.lu_state.size());
    store_.write(*state_at_ + slot * layout::kStateSlot, states_->first(blocks), Durability::durable,
                 [self = shared_from_this(), slot](std::error_code error) {
                   if (!error) return self->put_back_state(slot + 1);
                   self->end(Errc::io_error, "has a damaged state record that cannot be rewritten: " + error.message());
                 });
  }

  void put_back_map(std::size_t n) {
    if (n == rewrite_map_.size()) return put_back_state(0);
    const std::uint64_t index = rewrite_map_[n];
    const layout::Block block = (*chunk_)[0];
    map_->store(index, block);
    layout::seal(block, layout::Kind::map, state_.key, index, ++state_.map_generation);
    store_.write(layout::kMapAt + index * kBlock, block, Durability::durable,
                 [self = shared_from_this(), n](std::error_code error) {
                   if (!error) return self->put_back_map(n + 1);
                   self->end(Errc::io_error, "has a dirty map block " + std::to_string(self->rewrite_map_[n]) +
                                                 " that can be neither read nor rewritten: " + error.message());
                 });
  }

  void put_back(std::size_t n) {
    while (n < 4 && !rewrite_[n]) ++n;
    if (n == 4) return put_back_map(0);
    const layout::Block block = slots_[n];
    std::ranges::fill(block, std::byte{0});
    if (n < 2) {
      layout::seal_superblock(block, state_.identity, state_.key, n, state_.superblock_generation);
    } else {
      layout::seal_record(block, state_.record, state_.key, n - 2, state_.record_generation);
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
  std::vector<std::uint64_t> rewrite_map_;  // the blocks that could not be read
  std::optional<std::uint64_t> state_at_;
  std::optional<layout::Blocks> states_;
  std::array<std::error_code, 2> unreadable_state_;
  std::array<bool, 2> rewrite_state_{};
};

}  // namespace

void MetadataArea::open(Store& store, const Uuid& volume, NodeSide owner,
                        Callback<Result<std::unique_ptr<MetadataArea>>> done) {
  std::make_shared<Opener>(store, volume, owner, std::move(done))->start();
}

}  // namespace lockstep::engine
