// Making room for a larger volume: files longer, metadata larger. What initiators see changes later, when both nodes
// have room (replication/core/membership_grow.cpp).
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
  file_worker_ = std::thread([this, work = std::move(work), done = std::move(done)]() mutable {
    auto outcome = work();
    home().post([outcome = std::move(outcome), done = std::move(done)]() mutable { done(std::move(outcome)); });
  });
}

void Node::extend(const ReplicaPlace& place, std::uint64_t metadata_bytes, bool thin, Grown done) {
  work_on_files([place, metadata_bytes, thin] { return extend_files(place, metadata_bytes, thin); }, std::move(done));
}

void Node::make_room(const Uuid& id, std::uint64_t size, Grown done) {
  const auto found = mirrored_volume(id);
  if (!found) return done(std::unexpected(found.error()));
  const VolumeSpec spec = (*found)->spec;
  const auto room = pair_->node().room_for(id, size);
  if (!room) return done(std::unexpected(room.error()));
  if (room->size >= size) return done({});
  if (!(*found)->stores.in_files()) {
    return done(engine::fail(Errc::refused, "Volume " + spec.name + " is on the device " + spec.data +
                                                " on this node; only volumes in files grow in use."));
  }
  const ReplicaPlace place{spec.data, spec.metadata, size, spec.block_size};
  // Nothing is detached meanwhile: requests are carried out one after the other.
  extend(place, room->metadata_bytes, spec.thin, [this, id, size, done = std::move(done)](Result<void> longer) mutable {
    const auto at = volumes_.find(id);
    if (!longer) return done(std::move(longer));
    if (at == volumes_.end()) return done(engine::fail(Errc::refused, "The volume was detached meanwhile."));
    at->second->stores.take_length();
    pair_->node().make_room(id, size, [this, id, size, done = std::move(done)](Result<void> made) mutable {
      const auto grown = volumes_.find(id);
      if (made && grown != volumes_.end()) {
        grown->second->unit->set_room(size);
        log_info("Volume " + grown->second->spec.name + ": this node has room for " + std::to_string(size) + " bytes.");
      }
      done(std::move(made));
    });
  });
}

/// A replica that was away while its volume grew.
void Node::make_room_before_attach(const VolumeSpec& spec, const std::shared_ptr<OpenedReplica>& opened, Grown done) {
  if (opened->area->identity().size >= spec.size) return done({});
  if (!opened->stores.in_files()) {
    return done(engine::fail(Errc::refused, "It is on the device " + spec.data + " on this node and has room for " +
                                                std::to_string(opened->area->identity().size) +
                                                " bytes; only volumes in files grow."));
  }
  const ReplicaPlace place{spec.data, spec.metadata, spec.size, spec.block_size};
  extend(
      place, opened->area->size_to_grow(spec.size), spec.thin,
      [this, opened, size = spec.size, done = std::move(done)](Result<void> longer) mutable {
        if (!longer) return done(std::move(longer));
        opened->stores.take_length();
        opened->area->grow(size, [this, done = std::move(done)](std::error_code error) mutable {
          Result<void> outcome;
          if (error) {
            outcome = std::unexpected(engine::Error{error, "Its metadata can't grow: " + error.message() + "."});
          }
          // In a later turn: the store that calls may be closed by what follows.
          home().post([outcome = std::move(outcome), done = std::move(done)]() mutable { done(std::move(outcome)); });
        });
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
