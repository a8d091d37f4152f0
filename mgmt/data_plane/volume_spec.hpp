#pragma once
// A volume in what node.apply asks for, and who may use it (docs/developer/rpc.md). Described: lockstep-mgmtd makes the
// message of it. A flag that is new here is told where it is set, and read, with nothing else to be done.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <boost/describe/class.hpp>

#include "engine/base/uuid.hpp"

namespace lockstep::data_plane {

struct Credentials {
  std::string user;
  std::string secret;
  bool operator==(const Credentials&) const = default;
};

/// Who connects proves itself with `chap`, who listens with `mutual`.
struct Authentication {
  std::optional<Credentials> chap;
  std::optional<Credentials> mutual;
  bool operator==(const Authentication&) const = default;
};

/// What was there before, accepted beside it until then.
struct OldAuthentication {
  Authentication authentication;
  std::int64_t until_ms = 0;  ///< wall clock
  bool operator==(const OldAuthentication&) const = default;
};

struct AccessEntry {
  std::string initiator;
  Authentication authentication;
  std::optional<OldAuthentication> old{};
  bool operator==(const AccessEntry&) const = default;
};

/// Mirrors side by side of which each volume lives in one (pair.hpp).
constexpr unsigned kMaxShards = 8;

struct VolumeSpec {
  engine::Uuid id;
  std::string name;
  std::string serial;
  std::uint32_t lun = 0;
  std::uint64_t size = 0;  ///< bytes
  std::uint32_t block_size = 512;
  std::uint32_t physical_block_size = 4096;
  bool thin = true;
  bool read_only = false;
  bool removable = false;
  bool write_cache = false;
  bool encrypted = false;
  bool mirrored = true;
  unsigned shard = 0;               ///< of the pair's; of no meaning where it is not mirrored
  std::string data;                 ///< a file, a block device, or "memory:"
  std::string metadata;             ///< a file; the same as `data` on a block device; may be empty when not mirrored
  bool any_initiator = false;       ///< whatever initiator may use it; `access` is empty then
  std::vector<AccessEntry> access;  ///< else these
  bool operator==(const VolumeSpec&) const = default;
};
BOOST_DESCRIBE_STRUCT(VolumeSpec, (),
                      (id, name, serial, lun, size, block_size, physical_block_size, thin, read_only, removable,
                       write_cache, encrypted, mirrored, shard, data, metadata, any_initiator, access))

}  // namespace lockstep::data_plane
