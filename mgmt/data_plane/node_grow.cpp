// Making room for a larger volume: files longer, metadata larger. What initiators see changes later, when both nodes
// have room (replication/core/membership_grow.cpp).
#include <system_error>

#include "mgmt/data_plane/node.hpp"
#include "mgmt/log/log.hpp"

namespace lockstep::data_plane {

using mgmt::log_info;

using engine::Errc;
using engine::Result;
using engine::Uuid;

/// On a thread of its own: reserving much space, or giving it back, may take a file system longer than a lease lasts.
void Node::work_on_files(std::function<Result<void>()> work, Grown done) {
  if (file_worker_.joinable()) file_worker_.join();  // it posted what follows from it: it has ended, or is about to
  auto then = std::make_shared<Grown>(std::move(done));
  try {
    file_worker_ = std::thread([this, work = std::move(work), then]() mutable {
      auto outcome = work();
      home().post([outcome = std::move(outcome), then]() mutable { (*then)(std::move(outcome)); });
    });
  } catch (const std::system_error&) {
    (*then)(engine::fail(Errc::resource_exhausted, "The system has no thread for it now. Try again."));
  }
}

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

/// Nothing is detached meanwhile: requests are carried out one after the other.
void Node::lengthen(const Uuid& id, std::uint64_t size, std::uint64_t metadata_bytes, Grown done) {
  const auto found = mirrored_volume(id);
  if (!found) return done(std::unexpected(found.error()));
  const VolumeSpec& spec = (*found)->spec;
  if (!(*found)->stores.in_files()) {
    return done(engine::fail(Errc::refused, "Volume " + spec.name + " is on the device " + spec.data +
                                                " on this node; only volumes in files grow in use."));
  }
  const ReplicaPlace place{spec.data, spec.metadata, size, spec.block_size};
  auto work = [place, metadata_bytes, thin = spec.thin] { return extend_files(place, metadata_bytes, thin); };
  work_on_files(std::move(work), [this, id, size, done = std::move(done)](Result<void> longer) mutable {
    if (!longer) return done(std::move(longer));
    take_longer_files(id, size, std::move(done));
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
        make_room(request.volume, request.size, [reply, next = std::move(next)](Result<void> outcome) mutable {
          (*reply)(std::move(outcome));
          next();
        });
      },
      [reply] {
        (*reply)(engine::fail(Errc::resource_exhausted,
                              "The node is stopping, or too many requests wait for it; try again later."));
      });
}

}  // namespace lockstep::data_plane
