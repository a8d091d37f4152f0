#pragma once
// What lies where a replica is, or is to be: for those who open, make and remove replicas, and for nobody else.
#include <cstdint>
#include <string>

#include "engine/metadata/layout.hpp"
#include "mgmt/data_plane/replica.hpp"

namespace lockstep::data_plane {

enum class PathKind { nothing, file, device, other };

struct Found {
  PathKind kind = PathKind::nothing;
  std::uint64_t size = 0;  ///< of a file
};

[[nodiscard]] engine::Result<Found> look_at(const std::string& path);

/// The same, with what root has to do where the system lets lockstepd not write to `path`, which is in `folder`: its
/// unit or the owner stands against it, and the copy is as good as ever.
[[nodiscard]] engine::Error with_remedy(engine::Error error, const std::string& path, const std::string& folder);
[[nodiscard]] std::string folder_of(const std::string& file);

/// Metadata is read and written in these alone, whatever the blocks of the volume: it can be kept on every disk.
constexpr std::uint32_t kMetadataBlock = engine::layout::kBlock;

/// What a replica's metadata has room for: those made by the first version keep no state of the logical unit.
enum class Room { with_state, without };

[[nodiscard]] std::uint64_t metadata_size(std::uint64_t volume_size, Room room);

[[nodiscard]] engine::Result<ReplicaStores> open_device(engine::IoUring& ring, const ReplicaPlace& place, Room room);

/// The metadata file of a replica whose data is a draft: as open_replica(), without the store of the data.
void open_metadata(engine::IoUring& ring, const std::string& path, const engine::Uuid& volume, engine::NodeSide side,
                   engine::Callback<engine::Result<OpenedReplica>> done);

/// The end of every removal, and of a creation that failed: the files of a replica whose data is a draft, or not there.
/// The draft of the data goes last, as it says that the metadata beside it is no replica's. Any thread; blocks.
enum class Metadata { is_ours, is_a_draft };
[[nodiscard]] engine::Result<void> drop_files(const std::string& data, const std::string& path, Metadata metadata);
/// The beginning of every removal: the data is a draft from then on, and nobody's replica. Any thread; blocks.
[[nodiscard]] engine::Result<void> take_back_data(const std::string& data);

}  // namespace lockstep::data_plane
