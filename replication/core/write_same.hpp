#pragma once
// WRITE SAME on a store that has no such operation.
#include <span>

#include "engine/runtime/buffer_pool.hpp"
#include "engine/seams/clock.hpp"
#include "engine/seams/store.hpp"

namespace lockstep::replication {

/// Repeats one block over an extent of `store`. A pool that is dry is waited for: `since`, which lives until `done`
/// runs, is moved on as long as the store has nothing of it.
void write_same(engine::Store& store, engine::BufferPool& buffers, engine::Clock& clock, engine::Extent extent,
                std::span<const std::byte> block, engine::Durability durability, engine::TimePoint& since,
                engine::IoCallback done);

}  // namespace lockstep::replication
