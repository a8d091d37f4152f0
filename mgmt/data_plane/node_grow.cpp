// Making room for a larger volume: files longer, metadata larger. What initiators see changes later, when both nodes
// have room (replication/core/membership_grow.cpp).
#include "mgmt/data_plane/node.hpp"
#include "mgmt/log/log.hpp"

namespace lockstep::data_plane {

using mgmt::log_info;

using engine::Errc;
using engine::Result;
using engine::Uuid;

/// The size of what the mirror has room for is known to its shard alone.
void Node::make_room(const Uuid& id, std::uint64_t size, Grown done) {
  const auto found = mirrored_volume(id);
  if (!found) return done(std::unexpected(found.error()));
  using Room = Result<replication::PairNode::Room>;
  pair_->ask<Room>(
      (*found)->spec.shard,
      [id, size](PairShard& shard, engine::Callback<Room> answer) { answer(shard.node().room_for(id, size)); },
      [this, id, size, done = std::move(done)](const Room& room) mutable {
        if (!room) return done(std::unexpected(room.error()));
        if (room->size >= size) return done({});
        lengthen(id, size, room->metadata_bytes, std::move(done));
      });
}

/// Nothing is detached while it is waited for: requests are carried out one after the other. The metadata takes the
/// longer files by several writes, for which a disk may need as long. Files that are longer too late are found so by
/// the next attempt.
void Node::lengthen(const Uuid& id, std::uint64_t size, std::uint64_t metadata_bytes, Grown done) {
  const auto found = mirrored_volume(id);
  if (!found) return done(std::unexpected(found.error()));
  const VolumeSpec& spec = (*found)->spec;
  if (!(*found)->stores.in_files()) {
    return done(engine::fail(Errc::refused, "Volume " + spec.name + " is on the device " + spec.data +
                                                " on this node; only volumes in files grow in use."));
  }
  const Place place = place_of(spec);
  if (disk_work_.contains(place)) return done(engine::fail(Errc::timed_out, silence(spec.data)));
  auto reply = std::make_shared<Grown>(std::move(done));
  begin_disk_work(place, options_.disk_patience,
                  [reply, place] { (*reply)(engine::fail(Errc::timed_out, silence(place.data))); });
  const ReplicaPlace files{spec.data, spec.metadata, size, spec.block_size};
  auto work = [files, metadata_bytes, thin = spec.thin] { return extend_files(files, metadata_bytes, thin); };
  auto end = [this, place, reply](Result<void> outcome) {
    if (end_disk_work(place)) (*reply)(std::move(outcome));
  };
  work_on_files(std::move(work), [this, id, size, place, end](Result<void> longer) mutable {
    if (!longer || !is_waited_for(place)) return end(std::move(longer));
    take_longer_files(id, size, std::move(end));
  });
}

void Node::take_longer_files(const Uuid& id, std::uint64_t size, Grown done) {
  const auto found = volumes_.find(id);
  if (found == volumes_.end()) return done(engine::fail(Errc::refused, "The volume was detached meanwhile."));
  Volume& volume = *found->second;
  pair_->ask<Result<void>>(
      volume.spec.shard,
      [&volume, id, size](PairShard& shard, engine::Callback<Result<void>> answer) {
        volume.stores.take_length();
        shard.node().make_room(id, size, std::move(answer));
      },
      [this, id, size, done = std::move(done)](Result<void> made) mutable {
        const auto grown = volumes_.find(id);
        if (made && grown != volumes_.end()) {
          grown->second->unit->set_room(size);
          log_info("Volume " + grown->second->spec.name + ": this node has room for " + std::to_string(size) +
                   " bytes.");
        }
        done(std::move(made));
      });
}

void Node::grow(const ReplicaGrow& request, Grown done) {
  auto reply = std::make_shared<Grown>(std::move(done));
  queue(
      [this, request, reply](engine::Callback<> next) {
        make_room(request.volume, request.size,
                  [this, request, reply, next = std::move(next)](Result<void> outcome) mutable {
                    const auto found = volumes_.find(request.volume);
                    auto again = [this, request, reply] { grow(request, std::move(*reply)); };
                    const bool waits = !outcome && found != volumes_.end() &&
                                       await_disk(place_of(found->second->spec), std::move(again),
                                                  answer_silence(reply, found->second->spec.data));
                    if (!waits) (*reply)(std::move(outcome));
                    next();
                  });
      },
      [reply] {
        (*reply)(engine::fail(Errc::resource_exhausted,
                              "The node is stopping, or too many requests wait for it; try again later."));
      });
}

}  // namespace lockstep::data_plane
