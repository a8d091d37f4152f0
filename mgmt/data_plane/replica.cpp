#include "mgmt/data_plane/replica.hpp"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "engine/stores/block_store.hpp"
#include "engine/stores/descriptor.hpp"
#include "engine/stores/file_store.hpp"

namespace lockstep::mgmt {
namespace {

using engine::BlockDevice;
using engine::BlockStore;
using engine::Errc;
using engine::Error;
using engine::FileStore;
using engine::MetadataArea;
using engine::NodeSide;
using engine::Result;
using engine::Store;

enum class Kind { nothing, file, device, other };

struct Found {
  Kind kind = Kind::nothing;
  std::uint64_t size = 0;
};

Result<Found> look_at(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    if (errno == ENOENT) return Found{};
    return engine::fail(Errc::io_error, "Can't look at " + path + ": " + std::strerror(errno) + ".");
  }
  if (S_ISREG(info.st_mode)) return Found{Kind::file, static_cast<std::uint64_t>(info.st_size)};
  if (S_ISBLK(info.st_mode)) return Found{Kind::device, 0};
  return Found{Kind::other, 0};
}

/// What a replica's metadata has room for: those made by the first version keep no state of the logical unit.
enum class Room { with_state, without };

std::uint64_t metadata_size(std::uint64_t volume_size, Room room) {
  return room == Room::with_state ? MetadataArea::size_with_state(volume_size, kRegionSize)
                                  : MetadataArea::required_size(volume_size, kRegionSize);
}

/// Makes the metadata file of an earlier version longer; zeros at its end are an empty state. Gives its length, which
/// is the old one when there is no space: then the state is in memory only.
std::uint64_t make_room(const std::string& path, std::uint64_t size, std::uint64_t volume_size) {
  const std::uint64_t wanted = metadata_size(volume_size, Room::with_state);
  if (size != metadata_size(volume_size, Room::without)) return size;
  const engine::Descriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  const bool grown = file.valid() &&
                     ::fallocate(file.get(), 0, static_cast<off_t>(size), static_cast<off_t>(wanted - size)) == 0 &&
                     ::fsync(file.get()) == 0;
  struct stat info {};
  return grown || ::stat(path.c_str(), &info) != 0 ? wanted : static_cast<std::uint64_t>(info.st_size);
}

Result<ReplicaStores> open_device(engine::IoUring& ring, const ReplicaPlace& place, Room room) {
  const auto device = BlockDevice::open(place.data, place.block_size);
  if (!device) return std::unexpected(device.error());
  const std::uint64_t end = (*device)->info().size / 4096 * 4096;
  const std::uint64_t needed = metadata_size(place.size, room);
  if (end < needed || end - needed < place.size) {
    return engine::fail(Errc::no_space, place.data + " has " + std::to_string(end) + " bytes; a volume of " +
                                            std::to_string(place.size) + " bytes needs " +
                                            std::to_string(place.size + needed) + ".");
  }
  auto data = BlockStore::open(ring, *device, {0, place.size}, place.block_size);
  if (!data) return std::unexpected(data.error());
  auto metadata = BlockStore::open(ring, *device, {end - needed, needed});
  if (!metadata) return std::unexpected(metadata.error());
  return ReplicaStores{std::move(*data), std::move(*metadata), {}, {}};
}

Result<ReplicaStores> open_stores(engine::IoUring& ring, const ReplicaPlace& place, Room room) {
  const auto found = look_at(place.data);
  if (!found) return std::unexpected(found.error());
  if (found->kind == Kind::device) return open_device(ring, place, room);
  const auto beside = look_at(place.metadata);
  if (!beside) return std::unexpected(beside.error());
  if (beside->kind == Kind::nothing) {
    return engine::fail(Errc::io_error, "The replica's metadata " + place.metadata + " is missing.");
  }
  auto metadata = FileStore::open(ring, place.metadata, make_room(place.metadata, beside->size, place.size));
  if (!metadata) return std::unexpected(metadata.error());
  // As long as it is: the volume may be in the middle of growing. Whether it is long enough, the metadata says.
  if (found->kind != Kind::file)
    return engine::fail(Errc::io_error, "The replica's data " + place.data + " is missing.");
  auto data = FileStore::open(ring, place.data, found->size, place.block_size);
  if (!data) return std::unexpected(data.error());
  return ReplicaStores{std::move(*data), std::move(*metadata), {}, {}};
}

// The stores live until the area's callback has run; then they go to whoever asked, or are closed. Callers hear of it
// in a later turn, so that they may close stores without one of them being on the stack.
struct Opening {
  ReplicaStores stores;
  engine::Callback<Result<OpenedReplica>> done;
  std::unique_ptr<MetadataArea> area;
  Error error;

  void finish() {
    if (area) return done(OpenedReplica{std::move(stores), std::move(area)});
    stores = {};
    done(std::unexpected(std::move(error)));
  }
};

void open_with(engine::IoUring& ring, const ReplicaPlace& place, const engine::Uuid& volume, NodeSide side, Room room,
               engine::Callback<Result<OpenedReplica>> done) {
  auto stores = open_stores(ring, place, room);
  if (!stores) {
    return ring.reactor().post(
        [error = stores.error(), done = std::move(done)]() mutable { done(std::unexpected(std::move(error))); });
  }
  auto opening = std::make_shared<Opening>(Opening{std::move(*stores), std::move(done), {}, {}});
  Store& metadata = *opening->stores.metadata;
  MetadataArea::open(metadata, volume, side, [&ring, opening](Result<std::unique_ptr<MetadataArea>> area) {
    const auto& data = opening->stores.data->info();
    if (area && data.size < (*area)->identity().size) {
      opening->error =
          Error{make_error_code(Errc::corrupt),
                data.name + " has " + std::to_string(data.size) + " bytes; the volume needs " +
                    std::to_string((*area)->identity().size) + ". It may belong to another volume or be cut short."};
      area->reset();
    } else if (area) {
      opening->area = std::move(*area);
    } else {
      opening->error = area.error();
    }
    ring.reactor().post([opening] { opening->finish(); });
  });
}

// ---- create ----

struct Creating {
  engine::Reactor& reactor;
  ReplicaCreate request;
  ReplicaStores stores;
  std::unique_ptr<MetadataArea> area;
  bool made_data = false;
  bool made_metadata = false;
  engine::Callback<Result<void>> done;

  [[nodiscard]] ReplicaPlace place() const {
    return {request.data, request.metadata, request.identity.size, request.identity.block_size};
  }
  // In a later turn: a store of ours may be on the stack.
  static void finish(const std::shared_ptr<Creating>& self, Result<void> outcome) {
    self->reactor.post([self, outcome = std::move(outcome)]() mutable {
      self->area.reset();
      self->stores = {};
      if (!outcome && self->made_data) (void)FileStore::remove(self->request.data);
      if (!outcome && self->made_metadata) (void)FileStore::remove(self->request.metadata);
      self->done(std::move(outcome));
    });
  }
};

Result<void> check_same(const ReplicaCreate& request, const engine::VolumeIdentity& there) {
  const engine::VolumeIdentity& asked = request.identity;
  const bool alike = there.key.has_value() == asked.key.has_value();
  if (alike && there.pair == asked.pair && there.size == asked.size && there.block_size == asked.block_size) return {};
  return engine::fail(Errc::refused, request.data + " holds a replica of the same volume made differently (pair " +
                                         there.pair.to_string() + ", " + std::to_string(there.size) + " bytes" +
                                         (there.key ? ", encrypted" : "") + "); nothing was changed.");
}

Result<void> make_files(Creating& creating) {
  const ReplicaCreate& request = creating.request;
  if (const auto metadata = look_at(request.metadata); !metadata || metadata->kind != Kind::nothing) {
    return engine::fail(Errc::refused, request.metadata + " is there already; nothing was changed.");
  }
  const auto allocation = request.thin ? engine::Allocation::thin : engine::Allocation::allocated;
  if (auto made = FileStore::create(request.data, request.identity.size, allocation); !made) return made;
  creating.made_data = true;
  const std::uint64_t size = metadata_size(request.identity.size, Room::with_state);
  if (auto made = FileStore::create(request.metadata, size, engine::Allocation::allocated); !made) return made;
  creating.made_metadata = true;
  return {};
}

void format(const std::shared_ptr<Creating>& creating, bool known_zero) {
  auto identity = creating->request.identity;
  identity.region_size = kRegionSize;
  // What a device held before is unknown, and may differ between the nodes: only new files are known to be zeros.
  const auto map = creating->request.clean && known_zero ? engine::InitialMap::clean : engine::InitialMap::all_dirty;
  MetadataArea::format(*creating->stores.metadata, identity, creating->request.epoch, map,
                       [creating](Result<std::unique_ptr<MetadataArea>> area) {
                         if (!area) return Creating::finish(creating, std::unexpected(area.error()));
                         creating->area = std::move(*area);
                         Creating::finish(creating, {});
                       });
}

void create_in_files(engine::IoUring& ring, const std::shared_ptr<Creating>& creating) {
  if (auto made = make_files(*creating); !made) return Creating::finish(creating, std::unexpected(made.error()));
  auto stores = open_stores(ring, creating->place(), Room::with_state);
  if (!stores) return Creating::finish(creating, std::unexpected(stores.error()));
  creating->stores = std::move(*stores);
  format(creating, /*known_zero=*/true);
}

// A device is taken only if its first blocks and the place of the metadata are zeros: whatever is there may be dear.
void create_on_device(engine::IoUring& ring, const std::shared_ptr<Creating>& creating) {
  auto stores = open_device(ring, creating->place(), Room::with_state);
  if (!stores) return Creating::finish(creating, std::unexpected(stores.error()));
  creating->stores = std::move(*stores);
  auto sample = std::shared_ptr<std::byte>(static_cast<std::byte*>(std::aligned_alloc(4096, 8192)), std::free);
  Store& data = *creating->stores.data;
  data.read(0, {sample.get(), 4096}, [creating, sample](std::error_code e) {
    if (e)
      return Creating::finish(
          creating, std::unexpected(Error{e, "Can't read " + creating->request.data + ": " + e.message() + "."}));
    creating->stores.metadata->read(0, {sample.get() + 4096, 4096}, [creating, sample](std::error_code error) {
      if (error)
        return Creating::finish(creating, std::unexpected(Error{error, "Can't read " + creating->request.data + ": " +
                                                                           error.message() + "."}));
      for (std::size_t i = 0; i < 8192; ++i) {
        if (sample.get()[i] == std::byte{0}) continue;
        return Creating::finish(
            creating,
            std::unexpected(Error{make_error_code(Errc::refused),
                                  creating->request.data +
                                      " is not empty. If nothing on it is needed any more, clear it "
                                      "with: wipefs -a " +
                                      creating->request.data + " && blkdiscard -z " + creating->request.data}));
      }
      format(creating, /*known_zero=*/false);
    });
  });
}

}  // namespace

std::uint64_t ReplicaStores::allocated_bytes() const {
  if (const auto* file = dynamic_cast<const FileStore*>(data.get())) return file->allocated_bytes();
  return data ? data->info().size : 0;
}

void ReplicaStores::take_length() {
  for (engine::Store* store : {data.get(), metadata.get()}) {
    if (auto* file = dynamic_cast<FileStore*>(store)) file->take_length();
  }
}

bool ReplicaStores::in_files() const { return dynamic_cast<const FileStore*>(data.get()) != nullptr; }

std::optional<std::uint64_t> space_left(const std::string& path) {
  struct statvfs space {};
  if (::statvfs(path.c_str(), &space) != 0) return std::nullopt;
  return std::uint64_t{space.f_bavail} * space.f_frsize;
}

Result<void> extend_files(const ReplicaPlace& place, std::uint64_t metadata_bytes, bool thin) {
  const auto allocation = thin ? engine::Allocation::thin : engine::Allocation::allocated;
  if (!place.metadata.empty()) {
    auto done = FileStore::extend(place.metadata, metadata_bytes, engine::Allocation::allocated);
    if (!done) return done;
  }
  return FileStore::extend(place.data, place.size, allocation);
}

void open_replica(engine::IoUring& ring, const ReplicaPlace& place, const engine::Uuid& volume, NodeSide side,
                  engine::Callback<Result<OpenedReplica>> done) {
  const auto found = look_at(place.data);
  const bool device = found && found->kind == Kind::device;
  auto first = [&ring, place, volume, side, device, done = std::move(done)](Result<OpenedReplica> opened) mutable {
    if (opened || !device) return done(std::move(opened));
    // On a device the metadata ends where the device ends: an earlier version's begins nearer to that end.
    open_with(ring, place, volume, side, Room::without,
              [why = opened.error(), done = std::move(done)](Result<OpenedReplica> earlier) mutable {
                if (earlier) return done(std::move(earlier));
                done(std::unexpected(std::move(why)));
              });
  };
  open_with(ring, place, volume, side, Room::with_state, std::move(first));
}

void create_replica(engine::IoUring& ring, const ReplicaCreate& request, engine::Callback<Result<void>> done) {
  auto creating = std::make_shared<Creating>(Creating{ring.reactor(), request, {}, {}, false, false, std::move(done)});
  const auto found = look_at(request.data);
  if (!found) return Creating::finish(creating, std::unexpected(found.error()));
  if (found->kind == Kind::other) {
    return Creating::finish(creating, std::unexpected(Error{make_error_code(Errc::refused),
                                                            request.data + " is neither a file nor a block device."}));
  }
  if (found->kind == Kind::nothing) return create_in_files(ring, creating);
  // Something is there: the same replica is fine, an empty device is, anything else is not.
  const bool device = found->kind == Kind::device;
  open_replica(ring, creating->place(), request.identity.volume, request.identity.owner,
               [&ring, creating, device](Result<OpenedReplica> there) {
                 if (there) {
                   auto same = check_same(creating->request, there->area->identity());
                   there->area.reset();
                   there->stores = {};
                   return Creating::finish(creating, std::move(same));
                 }
                 if (device) return create_on_device(ring, creating);
                 Creating::finish(creating, std::unexpected(Error{
                                                make_error_code(Errc::refused),
                                                creating->request.data + " is there already and is not this replica: " +
                                                    there.error().message + " Nothing was changed."}));
               });
}

void delete_replica(engine::IoUring& ring, const ReplicaDelete& request,
                    engine::Callback<Result<std::optional<engine::ArbiterSettings>>> done) {
  const auto data = look_at(request.data);
  const auto metadata = look_at(request.metadata);
  if (!data) return done(std::unexpected(data.error()));
  if (!metadata) return done(std::unexpected(metadata.error()));
  if (data->kind == Kind::nothing && metadata->kind == Kind::nothing) return done(std::nullopt);
  const std::uint64_t size = data->kind == Kind::file ? data->size : request.size;
  const ReplicaPlace place{request.data, request.metadata, size, 512};
  const bool device = data->kind == Kind::device;
  open_replica(
      ring, place, request.volume, request.side.value_or(NodeSide::a),
      [request, device, done = std::move(done)](Result<OpenedReplica> opened) mutable {
        if (!opened) return done(std::unexpected(opened.error()));
        const engine::ArbiterSettings arbiter = opened->area->epoch().arbiter;
        opened->area.reset();
        if (!device) {
          opened->stores = {};
          for (const std::string& path : {request.metadata, request.data}) {
            if (auto removed = FileStore::remove(path); !removed) return done(std::unexpected(removed.error()));
          }
          return done(arbiter);
        }
        auto stores = std::make_shared<ReplicaStores>(std::move(opened->stores));
        const engine::Extent all{0, stores->metadata->info().size};
        Store& area = *stores->metadata;
        area.write_zeroes(
            all, engine::Durability::durable, [stores, arbiter, done = std::move(done)](std::error_code e) mutable {
              *stores = {};
              if (e) return done(std::unexpected(Error{e, "Can't clear the replica's metadata: " + e.message() + "."}));
              done(arbiter);
            });
      });
}

}  // namespace lockstep::mgmt
