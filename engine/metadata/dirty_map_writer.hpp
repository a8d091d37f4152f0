#pragma once
// Makes changes of the dirty map durable. One write a map block is in flight at a time; what is asked for meanwhile
// goes out together in the next. A set bit is durable once a durable write that carried it has ended; clearing takes
// that back at once and is written without waiting for stable storage.
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "engine/metadata/aligned_block.hpp"
#include "engine/metadata/dirty_map.hpp"
#include "engine/metadata/layout.hpp"
#include "engine/seams/store.hpp"

namespace lockstep::engine {

class DirtyMapWriter {
 public:
  /// Map blocks in flight at a time; more wait in turn.
  static constexpr unsigned kMaxWrites = 16;

  /// Every bit set in `map` now is durable. `generation`: the highest one found in the area.
  DirtyMapWriter(Store& store, DirtyMap& map, layout::Key key, std::uint64_t generation);

  /// The map grew; what was added is clear on stable storage.
  void grown();

  /// Regions first to last, both included.
  [[nodiscard]] bool is_durable(std::uint64_t first, std::uint64_t last) const;
  /// `done` runs inside the call only when every region is set and durable already.
  void set(std::uint64_t first, std::uint64_t last, IoCallback done);
  /// Sets the regions whose bits are set in `words`, which has no bits beyond the last region. As set().
  void unite(std::span<const std::uint64_t> words, IoCallback done);
  /// `done` runs inside the call only when no region was set. Never for a region that somebody waits for in set().
  void clear(std::span<const std::uint64_t> regions, IoCallback done);
  /// The store has no write of this object's, and none waits for its turn.
  [[nodiscard]] bool idle() const { return writes_ == 0 && ready_.empty(); }

 private:
  struct Request {
    IoCallback done;
    std::size_t blocks_left = 0;
    std::error_code error;
  };
  using Requests = std::vector<std::shared_ptr<Request>>;

  /// A map block with changes not yet durable. Without one, every bit that is set in memory is durable.
  struct Active {
    std::vector<std::uint64_t> durable;  // the words that are certainly on stable storage, and not cleared since
    std::unique_ptr<layout::Blocks> in_flight;
    bool in_flight_durable = false;
    bool queued = false;
    bool waiting_durable = false;
    Requests current;  // what the write in flight answers
    Requests waiting;  // what the next one will
  };

  [[nodiscard]] bool is_durable_in(std::uint64_t block, std::uint64_t first, std::uint64_t last) const;
  [[nodiscard]] bool carried_by_flight(const Active& active, std::uint64_t block, std::uint64_t first,
                                       std::uint64_t last) const;
  Active& activate(std::uint64_t block);
  void wait_for_next(std::uint64_t block, const std::shared_ptr<Request>& request, bool durable);
  void pump();
  void start(std::uint64_t block);
  void finish(std::uint64_t block, std::error_code error);

  Store& store_;
  DirtyMap& map_;
  layout::Key key_;
  std::uint64_t generation_;
  std::vector<std::unique_ptr<Active>> active_;
  std::deque<std::uint64_t> ready_;
  std::vector<std::unique_ptr<layout::Blocks>> spare_;
  unsigned writes_ = 0;
};

}  // namespace lockstep::engine
