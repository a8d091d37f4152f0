#pragma once
// One node's copy of a volume on its disks: made, opened, removed. A file has its metadata in a file beside it; a block
// device carries both, blocks at its start and metadata at its end.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "engine/base/result.hpp"
#include "engine/encryption/cipher_store.hpp"
#include "engine/metadata/metadata_area.hpp"
#include "engine/seams/store.hpp"
#include "engine/stores/io_uring.hpp"
#include "mgmt/data_plane/desired_state.hpp"
#include "mgmt/data_plane/node_key.hpp"

namespace lockstep::data_plane {

constexpr std::uint32_t kRegionSize = 65536;  ///< bytes a bit of the dirty map stands for, in replicas made here

/// Destroyed after the metadata area, with nothing in flight.
struct ReplicaStores {
  std::unique_ptr<engine::Store> data;
  std::unique_ptr<engine::Store> metadata;
  std::unique_ptr<engine::MetadataArea> area;   ///< where the key is kept, when no mirror has it
  std::unique_ptr<engine::CipherStore> cipher;  ///< over `data`, when that is encrypted
  /// The volume's blocks.
  [[nodiscard]] engine::Store& blocks() const { return cipher ? *cipher : *data; }
  /// Files, of which each may have been extended.
  void take_length();
  [[nodiscard]] bool in_files() const;
  /// Bytes of disk that the data takes now.
  [[nodiscard]] std::uint64_t allocated_bytes() const;
};

/// Of a file system, in bytes.
struct Space {
  std::uint64_t left = 0;  ///< for files to grow
  std::uint64_t in_all = 0;
};
/// Of the file system of `path`; nothing when it does not say. Any thread; may block.
[[nodiscard]] std::optional<Space> space_of(const std::string& path);

struct OpenedReplica {
  ReplicaStores stores;
  std::unique_ptr<engine::MetadataArea> area;
  void close() {
    area.reset();
    stores = {};
  }
};

struct ReplicaPlace {
  std::string data;
  std::string metadata;
  std::uint64_t size = 0;  ///< bytes of the volume
  std::uint32_t block_size = 512;
};

/// Opens both stores and reads the metadata, which must be `volume`'s and `side`'s. On the ring's reactor; blocks for
/// as long as opening files takes.
void open_replica(engine::IoUring& ring, const ReplicaPlace& place, const engine::Uuid& volume, engine::NodeSide side,
                  engine::Callback<engine::Result<OpenedReplica>> done);

/// Puts the cipher between an encrypted replica and whoever reads it. Errors: it is encrypted and not meant to be, or
/// the other way round; the node's key is missing or another one. On the stores' reactor; blocks for a small file.
[[nodiscard]] engine::Result<void> unlock(engine::IoUring& ring, engine::BufferPool& buffers, OpenedReplica& replica,
                                          bool encrypted, const NodeKeyFile& keys);

/// Carries out work on files that may take a file system longer than a lease lasts, on another thread, and calls back
/// on the reactor with its outcome. One at a time.
using FileWorker =
    std::function<void(std::function<engine::Result<void>()> work, engine::Callback<engine::Result<void>> done)>;

/// What replica.create promises: done again if it is there already, refused if something else is, nothing left behind
/// on failure. On the ring's reactor. Files that a crash left on the way here, or to removal, are taken for nothing: a
/// replica is there when its data has its final name (engine/stores/file_draft.hpp), which it gets last and loses
/// first.
void create_replica(engine::IoUring& ring, FileWorker files, const ReplicaCreate& request,
                    engine::Callback<engine::Result<void>> done);

/// The files of a volume that is to have `place.size` bytes, and metadata of `metadata_bytes`, become that long; what
/// is added reads as zeros. Both are open here or not. Any thread; blocks as long as the file systems take.
[[nodiscard]] engine::Result<void> extend_files(const ReplicaPlace& place, std::uint64_t metadata_bytes, bool thin);

/// What replica.delete promises but for the witness's record; gives the arbiter that the replica named, if it was
/// there. On the ring's reactor.
void delete_replica(engine::IoUring& ring, const FileWorker& files, const ReplicaDelete& request,
                    engine::Callback<engine::Result<std::optional<engine::ArbiterSettings>>> done);

}  // namespace lockstep::data_plane
