#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "engine/stores/block_store.hpp"
#include "engine/stores/descriptor.hpp"
#include "engine/stores/file_store.hpp"
#include "mgmt/data_plane/replica_stores.hpp"

namespace lockstep::data_plane {

using engine::BlockDevice;
using engine::BlockStore;
using engine::Errc;
using engine::Error;
using engine::FileStore;
using engine::MetadataArea;
using engine::NodeSide;
using engine::Result;
using engine::Store;

Result<Found> look_at(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    if (errno == ENOENT) return Found{};
    return engine::fail(Errc::io_error, "Can't look at " + path + ": " + std::strerror(errno) + ".");
  }
  if (S_ISREG(info.st_mode)) return Found{PathKind::file, static_cast<std::uint64_t>(info.st_size)};
  if (S_ISBLK(info.st_mode)) return Found{PathKind::device, 0};
  return Found{PathKind::other, 0};
}

std::string folder_of(const std::string& file) { return file.substr(0, std::max<std::size_t>(file.rfind('/'), 1)); }

Error with_remedy(Error error, const std::string& path, const std::string& folder) {
  if (::faccessat(AT_FDCWD, path.c_str(), R_OK | W_OK, AT_EACCESS) == 0 || (errno != EACCES && errno != EROFS))
    return error;
  error.message += " lockstepd may not write there: run `/usr/lib/lockstep/prepare-state " + folder +
                   "` and restart lockstepd. Where the disk itself is mounted read-only, see to that first.";
  return error;
}

std::uint64_t metadata_size(std::uint64_t volume_size, Room room) {
  return room == Room::with_state ? MetadataArea::size_with_state(volume_size, kRegionSize)
                                  : MetadataArea::required_size(volume_size, kRegionSize);
}

namespace {

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

}  // namespace

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
  auto metadata = BlockStore::open(ring, *device, {end - needed, needed}, kMetadataBlock);
  if (!metadata) return std::unexpected(metadata.error());
  return ReplicaStores{std::move(*data), std::move(*metadata), {}, {}};
}

namespace {

Result<ReplicaStores> open_stores(engine::IoUring& ring, const ReplicaPlace& place, Room room) {
  const auto found = look_at(place.data);
  if (!found) return std::unexpected(found.error());
  if (found->kind == PathKind::device) return open_device(ring, place, room);
  const auto beside = look_at(place.metadata);
  if (!beside) return std::unexpected(beside.error());
  if (beside->kind == PathKind::nothing) {
    return engine::fail(Errc::io_error, "The replica's metadata " + place.metadata + " is missing.");
  }
  const std::uint64_t room_made = make_room(place.metadata, beside->size, place.size);
  auto metadata = FileStore::open(ring, place.metadata, room_made, kMetadataBlock);
  if (!metadata) return std::unexpected(metadata.error());
  // As long as it is: the volume may be in the middle of growing. Whether it is long enough, the metadata says.
  if (found->kind != PathKind::file)
    return engine::fail(Errc::io_error, "The replica's data " + place.data + " is missing.");
  auto data = FileStore::open(ring, place.data, found->size, place.block_size);
  if (!data) return std::unexpected(data.error());
  return ReplicaStores{std::move(*data), std::move(*metadata), {}, {}};
}

Result<ReplicaStores> open_metadata_file(engine::IoUring& ring, const std::string& path) {
  const auto found = look_at(path);
  if (!found) return std::unexpected(found.error());
  auto metadata = FileStore::open(ring, path, found->size, kMetadataBlock);
  if (!metadata) return std::unexpected(metadata.error());
  return ReplicaStores{{}, std::move(*metadata), {}, {}};
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

void read_area(engine::IoUring& ring, Result<ReplicaStores> stores, const engine::Uuid& volume, NodeSide side,
               engine::Callback<Result<OpenedReplica>> done) {
  if (!stores) {
    return ring.reactor().post(
        [error = stores.error(), done = std::move(done)]() mutable { done(std::unexpected(std::move(error))); });
  }
  auto opening = std::make_shared<Opening>(Opening{std::move(*stores), std::move(done), {}, {}});
  Store& metadata = *opening->stores.metadata;
  MetadataArea::open(metadata, volume, side, [&ring, opening](Result<std::unique_ptr<MetadataArea>> area) {
    const Store* data = opening->stores.data.get();
    if (area && data != nullptr && data->info().size < (*area)->identity().size) {
      opening->error =
          Error{make_error_code(Errc::corrupt),
                data->info().name + " has " + std::to_string(data->info().size) + " bytes; the volume needs " +
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

std::optional<Space> space_of(const std::string& path) {
  struct statvfs space {};
  if (::statvfs(path.c_str(), &space) != 0) return std::nullopt;
  const std::uint64_t unit = space.f_frsize;
  // XFS counts below zero for the moment in which somebody is refused what is not there.
  const std::uint64_t left = space.f_bavail > space.f_blocks ? 0 : space.f_bavail;
  return Space{left * unit, std::uint64_t{space.f_blocks} * unit};
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
  const bool device = found && found->kind == PathKind::device;
  auto first = [&ring, place, volume, side, device, done = std::move(done)](Result<OpenedReplica> opened) mutable {
    if (opened) return done(std::move(opened));
    if (!device) return done(std::unexpected(with_remedy(opened.error(), place.data, folder_of(place.data))));
    // On a device the metadata ends where the device ends: an earlier version's begins nearer to that end.
    read_area(ring, open_stores(ring, place, Room::without), volume, side,
              [why = opened.error(), done = std::move(done)](Result<OpenedReplica> earlier) mutable {
                if (earlier) return done(std::move(earlier));
                done(std::unexpected(std::move(why)));
              });
  };
  read_area(ring, open_stores(ring, place, Room::with_state), volume, side, std::move(first));
}

void open_metadata(engine::IoUring& ring, const std::string& path, const engine::Uuid& volume, NodeSide side,
                   engine::Callback<Result<OpenedReplica>> done) {
  read_area(ring, open_metadata_file(ring, path), volume, side, std::move(done));
}

}  // namespace lockstep::data_plane
