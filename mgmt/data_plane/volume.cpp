#include "mgmt/data_plane/volume.hpp"

#include "engine/store_disk.hpp"
#include "engine/stores/file_store.hpp"
#include "engine/stores/memory_store.hpp"

namespace lockstep::data_plane {
namespace {

using engine::Result;
using Opened = std::pair<ReplicaStores, std::unique_ptr<engine::Disk>>;

Opened with_disk(Worker& worker, const VolumeSpec& spec, ReplicaStores stores) {
  auto disk = std::make_unique<engine::StoreDisk>(stores.blocks(), worker.pool, disk_info(spec));
  return {std::move(stores), std::move(disk)};
}

Result<ReplicaStores> open_plain(Worker& worker, const VolumeSpec& spec) {
  ReplicaStores stores;
  if (spec.data == "memory:") {
    auto memory = engine::MemoryStore::create(worker.reactor, spec.size, spec.block_size, spec.name);
    if (!memory) return std::unexpected(memory.error());
    stores.data = std::move(*memory);
  } else {
    auto file = engine::FileStore::open(*worker.ring, spec.data, spec.size, spec.block_size);
    if (!file) return std::unexpected(file.error());
    stores.data = std::move(*file);
  }
  if (!spec.encrypted) return stores;
  if (spec.data != "memory:") {
    return engine::fail(engine::Errc::refused, "An encrypted volume needs metadata, where its key is kept.");
  }
  auto key = engine::VolumeKey::make();  // as lasting as what it encrypts
  if (!key) return std::unexpected(key.error());
  stores.cipher =
      std::make_unique<engine::CipherStore>(*stores.data, worker.pool, *key, engine::CipherStore::SaveKey{});
  return stores;
}

/// The metadata was read for what it proves: that this is the volume that was meant. It stays for the key's sake only.
Result<Opened> take_replica(Worker& worker, const VolumeSpec& spec, const NodeKeyFile& keys, OpenedReplica& replica) {
  auto unlocked = unlock(*worker.ring, worker.pool, replica, spec.encrypted, keys);
  if (spec.encrypted && unlocked) replica.stores.area = std::move(replica.area);
  replica.area.reset();
  if (!unlocked) return replica.stores = {}, std::unexpected(unlocked.error());
  return with_disk(worker, spec, std::move(replica.stores));
}

/// The volume has grown since it was attached last.
void make_room(Worker& worker, const FileWorker& files, const VolumeSpec& spec,
               const std::shared_ptr<OpenedReplica>& replica, engine::Callback<Result<void>> done) {
  const engine::MetadataArea& area = *replica->area;
  if (area.identity().size >= spec.size) return done({});
  if (!replica->stores.in_files()) {
    return done(engine::fail(
        engine::Errc::refused,
        spec.data + " has room for " + std::to_string(area.identity().size) + " bytes; only volumes in files grow."));
  }
  const ReplicaPlace place{spec.data, spec.metadata, spec.size, spec.block_size};
  files([place, bytes = area.size_to_grow(spec.size), thin = spec.thin] { return extend_files(place, bytes, thin); },
        [&worker, size = spec.size, replica, done = std::move(done)](Result<void> longer) mutable {
          if (!longer) return done(std::move(longer));
          replica->stores.take_length();
          replica->area->grow(size, [&worker, done = std::move(done)](std::error_code error) mutable {
            // In a later turn: the store that calls may be closed by what follows.
            worker.reactor.post([error, done = std::move(done)]() mutable {
              if (!error) return done({});
              done(std::unexpected(engine::Error{error, "The metadata can't grow: " + error.message() + "."}));
            });
          });
        });
}

}  // namespace

bool needs_reattach(const VolumeSpec& from, const VolumeSpec& to) {
  VolumeSpec same = to;
  same.name = from.name;  // for people alone
  same.lun = from.lun;
  same.access = from.access;
  same.any_initiator = from.any_initiator;
  if (from.mirrored && to.mirrored) {  // the size is the epoch's; the rest is told to the disk and the unit as they are
    same.size = from.size;
    same.read_only = from.read_only;
    same.write_cache = from.write_cache;
  }
  return from != same;
}

engine::DiskInfo disk_info(const VolumeSpec& spec) {
  engine::DiskInfo info;
  info.id = spec.id;
  info.name = spec.name;
  info.serial = spec.serial;
  info.size = spec.size;
  info.block_size = spec.block_size;
  info.physical_block_size = spec.physical_block_size;
  info.thin = spec.thin;
  info.read_only = spec.read_only;
  info.write_cache = spec.write_cache;
  info.removable = spec.removable;
  info.encrypted = spec.encrypted;
  return info;
}

void open_unmirrored(Worker& worker, engine::Reactor& home, FileWorker files, const VolumeSpec& spec,
                     engine::NodeSide side, const NodeKeyFile& keys, engine::Callback<Result<Opened>> done) {
  auto give = [&home, done = std::move(done)](Result<Opened> opened) mutable {
    home.post([opened = std::move(opened), done = std::move(done)]() mutable { done(std::move(opened)); });
  };
  worker.reactor.post([&worker, &keys, files = std::move(files), spec, side, give = std::move(give)]() mutable {
    if (spec.metadata.empty() || spec.data == "memory:") {
      auto stores = open_plain(worker, spec);
      if (!stores) return give(std::unexpected(stores.error()));
      return give(with_disk(worker, spec, std::move(*stores)));
    }
    const ReplicaPlace place{spec.data, spec.metadata, spec.size, spec.block_size};
    open_replica(
        *worker.ring, place, spec.id, side,
        [&worker, &keys, files = std::move(files), spec, give = std::move(give)](Result<OpenedReplica> opened) mutable {
          if (!opened) return give(std::unexpected(opened.error()));
          auto replica = std::make_shared<OpenedReplica>(std::move(*opened));
          make_room(worker, files, spec, replica,
                    [&worker, &keys, spec, replica, give = std::move(give)](Result<void> room) mutable {
                      if (room) return give(take_replica(worker, spec, keys, *replica));
                      replica->area.reset();
                      replica->stores = {};
                      give(std::unexpected(room.error()));
                    });
        });
  });
}

namespace {

/// It has all the room that there is, however much that is.
Result<MirroredReplica> unlock_replica(Worker& worker, const VolumeSpec& spec, const NodeKeyFile& keys,
                                       OpenedReplica& replica, const Result<void>& room) {
  if (auto unlocked = unlock(*worker.ring, worker.pool, replica, spec.encrypted, keys); !unlocked) {
    replica.close();
    return std::unexpected(unlocked.error());
  }
  return MirroredReplica{std::move(replica), room ? "" : room.error().message};
}

std::unexpected<engine::Error> of_another_pair(const VolumeSpec& spec, const engine::Uuid& pair) {
  return engine::fail(engine::Errc::foreign, spec.data + " belongs to pair " + pair.to_string() + ", not to this one.");
}

}  // namespace

void open_mirrored(Worker& worker, engine::Reactor& home, FileWorker files, ReplicaOpener open, const VolumeSpec& spec,
                   const ReplicaOwner& owner, engine::Callback<Result<MirroredReplica>> done) {
  auto give = [&home, done = std::move(done)](Result<MirroredReplica> opened) mutable {
    home.post([opened = std::move(opened), done = std::move(done)]() mutable { done(std::move(opened)); });
  };
  auto take = [&worker, files = std::move(files), spec, owner,
               give = std::move(give)](Result<OpenedReplica> opened) mutable {
    if (!opened) return give(std::unexpected(opened.error()));
    auto replica = std::make_shared<OpenedReplica>(std::move(*opened));
    if (const auto pair = replica->area->identity().pair; pair != owner.pair) {
      replica->close();
      return give(of_another_pair(spec, pair));
    }
    make_room(worker, files, spec, replica,
              [&worker, spec, owner, replica, give = std::move(give)](const Result<void>& room) mutable {
                give(unlock_replica(worker, spec, owner.keys, *replica, room));
              });
  };
  worker.reactor.post([&worker, open = std::move(open), spec, side = owner.side, take = std::move(take)]() mutable {
    const ReplicaPlace place{spec.data, spec.metadata, spec.size, spec.block_size};
    open(*worker.ring, place, spec.id, side, std::move(take));
  });
}

}  // namespace lockstep::data_plane
