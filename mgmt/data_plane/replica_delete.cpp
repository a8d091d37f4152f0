// Removing a replica, the other way round than it is made: first its data loses its name, and it is no replica any
// more; then the metadata goes, and the space last. So a cut at any moment leaves what the next attempt takes.
#include "engine/stores/file_draft.hpp"
#include "mgmt/data_plane/replica_stores.hpp"

namespace lockstep::data_plane {

using engine::Error;
using engine::Result;
using Deleted = engine::Callback<Result<std::optional<engine::ArbiterSettings>>>;

Result<void> drop_files(const std::string& data, const std::string& path, Metadata metadata) {
  if (metadata == Metadata::is_ours) {
    if (auto removed = engine::FileStore::remove(path); !removed) return removed;
  }
  if (auto removed = engine::remove_draft(path); !removed) return removed;
  return engine::remove_draft(data);
}

Result<void> take_back_data(const std::string& data) {
  if (auto removed = engine::remove_draft(data); !removed) return removed;
  return engine::take_back(data);
}

namespace {

void clear_metadata(engine::Reactor& reactor, ReplicaStores opened, const engine::ArbiterSettings& arbiter,
                    Deleted done) {
  auto stores = std::make_shared<ReplicaStores>(std::move(opened));
  engine::Store& area = *stores->metadata;
  area.write_zeroes({0, area.info().size}, engine::Durability::durable,
                    [&reactor, stores, arbiter, done = std::move(done)](std::error_code e) mutable {
                      // In a later turn: the store is on the stack.
                      reactor.post([stores, arbiter, e, done = std::move(done)]() mutable {
                        *stores = {};
                        if (!e) return done(arbiter);
                        done(std::unexpected(Error{e, "Can't clear the replica's metadata: " + e.message() + "."}));
                      });
                    });
}

}  // namespace

void delete_replica(engine::IoUring& ring, const FileWorker& files, const ReplicaDelete& request, Deleted done) {
  const auto data = look_at(request.data);
  const auto metadata = look_at(request.metadata);
  const auto draft = look_at(engine::draft_name(request.data));
  for (const auto* found : {&data, &metadata, &draft}) {
    if (!*found) return done(std::unexpected(found->error()));
  }
  const bool named = data->kind != PathKind::nothing;
  const bool drafted = draft->kind != PathKind::nothing;
  const bool device = data->kind == PathKind::device;
  auto remove_files = [files, request, named](Metadata area, std::optional<engine::ArbiterSettings> arbiter,
                                              Deleted then) {
    files(
        [request, area, named] {
          if (named) {
            if (auto unnamed = take_back_data(request.data); !unnamed) return unnamed;
          }
          return drop_files(request.data, request.metadata, area);
        },
        [arbiter, then = std::move(then)](Result<void> removed) mutable {
          if (!removed) return then(std::unexpected(removed.error()));
          then(arbiter);
        });
  };
  if (!named && metadata->kind == PathKind::nothing) {
    return remove_files(Metadata::is_a_draft, std::nullopt, std::move(done));
  }
  auto remove_opened = [&ring, device, remove_files, done = std::move(done)](Result<OpenedReplica> opened) mutable {
    if (!opened) return done(std::unexpected(opened.error()));
    const engine::ArbiterSettings arbiter = opened->area->epoch().arbiter;
    opened->area.reset();
    if (device) return clear_metadata(ring.reactor(), std::move(opened->stores), arbiter, std::move(done));
    opened->stores = {};
    remove_files(Metadata::is_ours, arbiter, std::move(done));
  };
  const auto side = request.side.value_or(engine::NodeSide::a);
  if (!named && drafted) {
    return open_metadata(ring, request.metadata, request.volume, side, std::move(remove_opened));
  }
  const std::uint64_t size = data->kind == PathKind::file ? data->size : request.size;
  const ReplicaPlace place{request.data, request.metadata, size, kMetadataBlock};  // of any disk: no data are read
  open_replica(ring, place, request.volume, side, std::move(remove_opened));
}

}  // namespace lockstep::data_plane
