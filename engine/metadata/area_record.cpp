// MetadataArea::write_epoch and write_knowledge: both stand in the same two slots. One write is under way at a time;
// what is asked for meanwhile goes out together in the next one.
#include <cassert>
#include <utility>

#include "engine/metadata/area_impl.hpp"

namespace lockstep::engine {

void MetadataArea::write_epoch(const EpochRecord& epoch, IoCallback done) {
  impl_->write_record({epoch, impl_->newest_record().knowledge}, true, std::move(done));
}

void MetadataArea::write_epoch(const EpochRecord& epoch, const Knowledge& knowledge, IoCallback done) {
  impl_->write_record({epoch, knowledge}, true, std::move(done));
}

void MetadataArea::write_knowledge(const Knowledge& knowledge, IoCallback done) {
  impl_->write_record({impl_->newest_record().epoch, knowledge}, false, std::move(done));
}

void MetadataArea::rewrite_record(IoCallback done) { impl_->rewrite_record(std::move(done)); }

const ReplicaRecord& MetadataArea::Impl::newest_record() const {
  return record_waiting ? record_waiting->record : record_writing ? record_writing->record : state.record;
}

bool MetadataArea::Impl::may_follow(const ReplicaRecord& next) const {
  const auto& [epoch, knowledge] = newest_record();
  if (!layout::check(next.epoch) || !layout::check(next.knowledge)) return false;
  if (next.epoch.number < epoch.number) return false;
  if (next.epoch.number == epoch.number && next.epoch.id != epoch.id) return false;
  return knowledge.may_become(next.knowledge);
}

void MetadataArea::Impl::write_record(ReplicaRecord record, bool epoch, IoCallback done) {
  if (record_lost) return done(Errc::io_error);
  const bool epoch_under_way = (record_writing && record_writing->epoch) || (record_waiting && record_waiting->epoch);
  if (epoch && epoch_under_way) return done(Errc::resource_exhausted);
  if (!may_follow(record)) return done(Errc::refused);
  const bool known = !epoch && record == newest_record();  // it is durable, or on its way
  if (known && !record_writing) return done({});
  auto& carrier = known && !record_waiting ? record_writing : record_waiting;
  if (carrier && carrier->done.size() == kMaxRecordsWaiting) return done(Errc::resource_exhausted);
  if (known) return carrier->done.push_back(std::move(done));
  if (!record_waiting) record_waiting.emplace();
  record_waiting->record = std::move(record);
  record_waiting->epoch |= epoch;
  record_waiting->done.push_back(std::move(done));
  if (!record_writing) start_record_write();
}

/// One that is under way began before: it tells nothing of now.
void MetadataArea::Impl::rewrite_record(IoCallback done) {
  if (record_lost) return done(Errc::io_error);
  if (record_waiting && record_waiting->done.size() == kMaxRecordsWaiting) return done(Errc::resource_exhausted);
  if (!record_waiting) record_waiting = RecordWrite{.record = newest_record(), .epoch = false, .done = {}};
  record_waiting->done.push_back(std::move(done));
  if (!record_writing) start_record_write();
}

void MetadataArea::Impl::start_record_write() {
  assert(record_waiting && !record_writing);
  record_writing = std::exchange(record_waiting, std::nullopt);
  ++state.record_generation;
  write_record_slot(0);
}

void MetadataArea::Impl::write_record_slot(std::uint64_t slot) {
  layout::seal_record(record_block[0], record_writing->record, state.key, slot, state.record_generation);
  store.write(layout::kEpochAt + slot * layout::kBlock, record_block.all(), Durability::durable,
              [this, slot](std::error_code error) {
                if (!error && slot == 0) return write_record_slot(1);
                end_record_write(error);
              });
}

void MetadataArea::Impl::end_record_write(std::error_code error) {
  RecordWrite ended = *std::exchange(record_writing, std::nullopt);
  std::vector<IoCallback> turned_away;
  if (error) {
    // One slot may hold the new record and the other be torn: writing again could lose both.
    record_lost = true;
    if (auto waiting = std::exchange(record_waiting, std::nullopt)) turned_away = std::move(waiting->done);
  } else {
    state.record = std::move(ended.record);
    if (record_waiting) start_record_write();
  }
  for (auto& done : ended.done) done(error);  // nothing of this object is touched any more: a callback may be its end
  for (auto& done : turned_away) done(Errc::io_error);
}

}  // namespace lockstep::engine
