#pragma once
// What a file system tells of a file's space: holes, and what there is room for. It may take its time: not for the
// reactor.
#include "engine/base/extent.hpp"
#include "engine/seams/store.hpp"

namespace lockstep::engine {

/// What is at `at`. What a file system can't tell is kept, to the end. `end` is the store's, in the descriptor.
[[nodiscard]] IoResult<StoreRun> seek_run(int descriptor, std::uint64_t at, std::uint64_t end, std::uint64_t block);

/// Said of a moment; others may take the space in the next. What a file system keeps back for root is not ours, and
/// what one can't tell of is there.
[[nodiscard]] bool has_room_for(int descriptor, Extent extent);

/// XFS makes a range zero by giving its blocks back, which others may take before it has new ones.
[[nodiscard]] bool zeroing_needs_room(int descriptor);
/// More than enough of it.
[[nodiscard]] bool has_room_to_zero(int descriptor, std::uint64_t bytes);

}  // namespace lockstep::engine
