#include "replication/core/local_store.hpp"

#include <algorithm>
#include <chrono>

#include "replication/core/marks.hpp"

namespace lockstep::replication {

namespace {
engine::DiskInfo with_persistence(engine::DiskInfo info, const engine::MetadataArea& meta) {
  info.persistent_state = meta.keeps_state();
  return info;
}
}  // namespace

LocalStore::LocalStore(StoreUser& user, const Standing& standing, const engine::Clock& clock, engine::DiskInfo info_in,
                       engine::Store& data_in, std::unique_ptr<engine::MetadataArea> meta_in)
    : info(with_persistence(std::move(info_in), *meta_in)),
      data(data_in),
      meta(std::move(meta_in)),
      known(meta->knowledge()),
      was_cached(info.write_cache),
      user_(user),
      standing_(standing),
      clock_(clock) {}

LocalStore::~LocalStore() = default;

engine::Extent LocalStore::region_extent(std::uint64_t region) const {
  const std::uint64_t offset = region * region_size();
  return {offset, std::min<std::uint64_t>(region_size(), volume_size() - offset)};
}

void LocalStore::note_written(engine::Extent extent) {
  if (!noise_from || extent.offset > *noise_from || extent.end() <= *noise_from) return;
  noise_from = extent.end();
  if (*noise_from >= volume_size()) noise_from.reset();
}

engine::Extent LocalStore::whole_blocks(engine::Extent extent) const {
  const std::uint64_t block = std::max(info.block_size, info.physical_block_size);
  const std::uint64_t from = (extent.offset + block - 1) / block * block, to = extent.end() / block * block;
  return from < to ? engine::Extent{from, to - from} : engine::Extent{};
}

engine::Extent LocalStore::blocks_around(engine::Extent extent, engine::Extent bounds) const {
  const std::uint64_t block = std::max(info.block_size, info.physical_block_size);
  const std::uint64_t from = std::max(extent.offset / block * block, bounds.offset);
  const std::uint64_t to = std::min((extent.end() + block - 1) / block * block, bounds.end());
  return {from, to - from};
}

void LocalStore::fail(const std::string& why, std::error_code error) {
  const bool full = error == engine::Errc::no_space && !data.refuses_writes();
  may_return = full && (may_return || !failed);
  if (standing_.is_alone()) return go_on_alone();
  if (failed) return;
  full ? mark<"store.full">() : mark<"store.failed">();
  failed = true;
  failed_at = clock_.now();
  reason = full ? lack_of_space() : why;
  user_.on_store_failed();
}

void LocalStore::fail_flush(std::error_code error) {
  flush_failed = true;
  fail("The store failed a flush: " + error.message() + ".", error);
}

void LocalStore::go_on_alone() {
  if (data.refuses_writes() && !was_cached) {
    mark<"store.takes_writes_again">();
    flush_failed = false;
    data.take_writes_again();
  }
  if (!data.refuses_writes() || std::exchange(told_refusal_, true)) return;
  mark<"store.refuses_alone">();
  user_.on_store_failed();
}

/// A volume that was detached writes nothing any more: its stores may be another mirror's already.
void LocalStore::keep_knowledge(engine::Callback<> done) {
  if (standing_.closed()) return;
  meta->write_knowledge(known, [this, done = std::move(done)](std::error_code error) mutable {
    if (!error) return done();
    fail_metadata("What this replica has learnt can't be written: " + error.message() + ".");
  });
}

std::string LocalStore::why_it_refuses() const {
  return "A flush of this copy failed (" + data.info().name +
         "): what was not flushed may be lost, and nothing is written there before lockstepd is restarted on this "
         "node. Look at that disk first.";
}

std::string LocalStore::lack_of_space() const {
  return "No space is left for " + data.info().name +
         ": what needs new space is refused. Free or add space there; it is asked for again every " +
         std::to_string(std::chrono::duration_cast<std::chrono::seconds>(kAskForSpaceAgain).count()) + " seconds.";
}

}  // namespace lockstep::replication
