// Making a replica. In files, both are drafts until the metadata is written; then the metadata gets its final name, and
// then the data, which makes it a replica. So a cut at any moment leaves nothing that the next attempt does not take.
#include <algorithm>
#include <cstdlib>
#include <span>

#include "engine/stores/file_draft.hpp"
#include "mgmt/data_plane/replica_stores.hpp"

namespace lockstep::data_plane {
namespace {

using engine::Errc;
using engine::Error;
using engine::FileStore;
using engine::MetadataArea;
using engine::Result;

struct Creating {
  engine::IoUring& ring;
  FileWorker files;
  ReplicaCreate request;
  engine::Callback<Result<void>> done;
  ReplicaStores stores{};
  std::unique_ptr<MetadataArea> area{};
  bool made_drafts = false;
  bool named_metadata = false;

  [[nodiscard]] ReplicaPlace place() const {
    return {request.data, request.metadata, request.identity.size, request.identity.block_size};
  }
};
using CreatingPtr = std::shared_ptr<Creating>;

// In a later turn: a store of ours may be on the stack.
void finish(const CreatingPtr& creating, Result<void> outcome) {
  creating->ring.reactor().post([creating, outcome = std::move(outcome)]() mutable {
    creating->area.reset();
    creating->stores = {};
    if (outcome || !creating->made_drafts) return creating->done(std::move(outcome));
    const auto metadata = creating->named_metadata ? Metadata::is_ours : Metadata::is_a_draft;
    creating->files([data = creating->request.data, path = creating->request.metadata,
                     metadata] { return drop_files(data, path, metadata); },
                    [creating, outcome = std::move(outcome)](Result<void>) mutable {
                      creating->done(std::move(outcome));  // what could not be dropped, the next attempt takes
                    });
  });
}

void give_up(const CreatingPtr& creating, Error error) { finish(creating, std::unexpected(std::move(error))); }

Error refused(std::string message) { return {make_error_code(Errc::refused), std::move(message)}; }

Error older_copy(const ReplicaCreate& request) {
  return refused(request.data +
                 " holds an older copy of this volume. Move it away, or make the new copy in another folder; nothing "
                 "was changed.");
}

/// An older copy that is found where the new one is to be knows of itself as a member: it is not taken for the new one.
Result<void> check_same(const ReplicaCreate& request, const engine::MetadataArea& area) {
  const engine::VolumeIdentity& asked = request.identity;
  const engine::VolumeIdentity& there = area.identity();
  if (!request.is_member() && area.epoch().members.contains(asked.owner)) return std::unexpected(older_copy(request));
  const bool alike = there.key.has_value() == asked.key.has_value();
  if (alike && there.pair == asked.pair && there.size == asked.size && there.block_size == asked.block_size) return {};
  return engine::fail(Errc::refused, request.data + " holds a replica of the same volume made differently (pair " +
                                         there.pair.to_string() + ", " + std::to_string(there.size) + " bytes" +
                                         (there.key ? ", encrypted" : "") + "); nothing was changed.");
}

/// Of a copy that is to take another one's place, one of another epoch was left by an earlier attempt, and its map says
/// what it lacked then: less than it lacks now. It was never a member (check_same()), so that nobody goes by it.
bool is_left_over(const ReplicaCreate& request, const engine::MetadataArea& area) {
  const engine::EpochRecord there = area.epoch();
  return !request.is_member() && (there.id != request.epoch.id || there.number != request.epoch.number);
}

void format(const CreatingPtr& creating, bool known_zero, engine::Callback<> then) {
  auto identity = creating->request.identity;
  identity.region_size = kRegionSize;
  // What a device held before is unknown, and may differ between the nodes: only new files are known to be zeros.
  const auto map = creating->request.clean && known_zero ? engine::InitialMap::clean : engine::InitialMap::all_dirty;
  MetadataArea::format(*creating->stores.metadata, identity, creating->request.epoch, map,
                       [creating, then = std::move(then)](Result<std::unique_ptr<MetadataArea>> area) mutable {
                         if (!area) return give_up(creating, area.error());
                         creating->area = std::move(*area);
                         then();
                       });
}

// ---- in files ----

std::uint64_t metadata_bytes(const ReplicaCreate& request) {
  return metadata_size(request.identity.size, Room::with_state);
}

/// Zeros in the place of whatever an earlier attempt left.
Result<void> make_drafts(const ReplicaCreate& request, Metadata metadata) {
  if (auto dropped = drop_files(request.data, request.metadata, metadata); !dropped) return dropped;
  const auto allocation = request.thin ? engine::Allocation::thin : engine::Allocation::allocated;
  if (auto made = make_draft(request.data, request.identity.size, allocation); !made) return made;
  auto made = make_draft(request.metadata, metadata_bytes(request), engine::Allocation::allocated);
  if (!made) (void)engine::remove_draft(request.data);
  return made;
}

/// They stay open, and so locked, until they have their names.
Result<ReplicaStores> open_drafts(engine::IoUring& ring, const ReplicaCreate& request) {
  const auto& [size, block_size] = std::pair(request.identity.size, request.identity.block_size);
  auto data = FileStore::open(ring, engine::draft_name(request.data), size, block_size);
  if (!data) return std::unexpected(data.error());
  auto metadata = FileStore::open(ring, engine::draft_name(request.metadata), metadata_bytes(request), kMetadataBlock);
  if (!metadata) return std::unexpected(metadata.error());
  return ReplicaStores{std::move(*data), std::move(*metadata), {}, {}};
}

void name_files(const CreatingPtr& creating) {
  const ReplicaCreate& request = creating->request;
  creating->files([path = request.metadata] { return engine::keep_draft(path); },
                  [creating](Result<void> named) {
                    if (!named) return finish(creating, std::move(named));
                    creating->named_metadata = true;
                    creating->files([path = creating->request.data] { return engine::keep_draft(path); },
                                    [creating](Result<void> made) { finish(creating, std::move(made)); });
                  });
}

void create_from_drafts(const CreatingPtr& creating, Metadata metadata) {
  creating->files([request = creating->request, metadata] { return make_drafts(request, metadata); },
                  [creating](Result<void> made) {
                    if (!made) return finish(creating, std::move(made));
                    creating->made_drafts = true;
                    auto stores = open_drafts(creating->ring, creating->request);
                    if (!stores) return give_up(creating, stores.error());
                    creating->stores = std::move(*stores);
                    format(creating, /*known_zero=*/true, [creating] { name_files(creating); });
                  });
}

void create_in_files(const CreatingPtr& creating) {
  const ReplicaCreate& request = creating->request;
  creating->done = [folder = folder_of(request.data), done = std::move(creating->done)](Result<void> made) mutable {
    if (!made) made = std::unexpected(with_remedy(made.error(), folder, folder));
    done(std::move(made));
  };
  if (request.data == request.metadata) {
    return give_up(creating, refused(request.data + " is to be a file, and its metadata needs another one."));
  }
  const auto metadata = look_at(request.metadata);
  if (metadata && metadata->kind == PathKind::nothing) return create_from_drafts(creating, Metadata::is_a_draft);
  const auto in_the_way = [creating](const std::string& why) {
    give_up(creating, refused(creating->request.metadata + " is there already" + why + "; nothing was changed."));
  };
  const auto draft = look_at(engine::draft_name(request.data));
  if (!metadata || !draft || draft->kind == PathKind::nothing) return in_the_way({});
  open_metadata(creating->ring, request.metadata, request.identity.volume, request.identity.owner,
                [creating, in_the_way](Result<OpenedReplica> left) {
                  if (!left) return in_the_way(" (" + left.error().message + ")");
                  left->area.reset();
                  left->stores = {};
                  create_from_drafts(creating, Metadata::is_ours);
                });
}

void make_anew(const CreatingPtr& creating) {
  creating->files([data = creating->request.data] { return take_back_data(data); },
                  [creating](Result<void> nobodys) {
                    if (!nobodys) return finish(creating, std::move(nobodys));
                    create_from_drafts(creating, Metadata::is_ours);
                  });
}

// ---- on a device ----

/// A device is taken only if its first blocks and the place of the metadata are zeros: whatever is there may be dear.
void create_on_device(const CreatingPtr& creating) {
  auto stores = open_device(creating->ring, creating->place(), Room::with_state);
  if (!stores) return give_up(creating, stores.error());
  creating->stores = std::move(*stores);
  auto sample = std::shared_ptr<std::byte>(static_cast<std::byte*>(std::aligned_alloc(4096, 8192)), std::free);
  const auto check = [creating, sample](std::size_t at, std::error_code e) -> Result<void> {
    const std::string& path = creating->request.data;
    if (e) return std::unexpected(Error{e, "Can't read " + path + ": " + e.message() + "."});
    const std::span block(sample.get() + at, 4096);
    if (std::ranges::all_of(block, [](std::byte b) { return b == std::byte{0}; })) return {};
    return std::unexpected(refused(path +
                                   " is not empty. If nothing on it is needed any more, clear it with: wipefs -a " +
                                   path + " && blkdiscard -z " + path));
  };
  creating->stores.data->read(0, {sample.get(), 4096}, [creating, sample, check](std::error_code of_data) {
    if (auto empty = check(0, of_data); !empty) return finish(creating, std::move(empty));
    creating->stores.metadata->read(0, {sample.get() + 4096, 4096}, [creating, check](std::error_code of_metadata) {
      if (auto empty = check(4096, of_metadata); !empty) return finish(creating, std::move(empty));
      format(creating, /*known_zero=*/false, [creating] { finish(creating, {}); });
    });
  });
}

}  // namespace

void create_replica(engine::IoUring& ring, FileWorker files, const ReplicaCreate& request,
                    engine::Callback<Result<void>> done) {
  auto creating = std::make_shared<Creating>(Creating{ring, std::move(files), request, std::move(done)});
  const auto found = look_at(request.data);
  const std::string folder = folder_of(request.data);
  if (!found) return give_up(creating, with_remedy(found.error(), folder, folder));
  if (found->kind == PathKind::other) {
    return give_up(creating, refused(request.data + " is neither a file nor a block device."));
  }
  if (found->kind == PathKind::nothing) return create_in_files(creating);
  // Something is there: the same replica is fine, an empty device is, anything else is not.
  const bool device = found->kind == PathKind::device;
  open_replica(ring, creating->place(), request.identity.volume, request.identity.owner,
               [creating, device](Result<OpenedReplica> there) {
                 if (there) {
                   auto same = check_same(creating->request, *there->area);
                   const bool left_over = same && is_left_over(creating->request, *there->area);
                   there->area.reset();
                   there->stores = {};
                   if (left_over && !device) return make_anew(creating);
                   if (left_over) same = std::unexpected(older_copy(creating->request));
                   return finish(creating, std::move(same));
                 }
                 if (device) return create_on_device(creating);
                 give_up(creating, refused(creating->request.data + " is there already and is not this replica: " +
                                           there.error().message + " Nothing was changed."));
               });
}

}  // namespace lockstep::data_plane
