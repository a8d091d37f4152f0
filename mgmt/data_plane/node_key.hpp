#pragma once
// The node's key in its state folder: it seals the keys of the node's encrypted replicas, whose disks are elsewhere.
#include <string>

#include "engine/base/result.hpp"
#include "engine/encryption/keys.hpp"

namespace lockstep::data_plane {

/// Small files on a thread of the caller's; blocks.
class NodeKeyFile {
 public:
  explicit NodeKeyFile(const std::string& state_folder) : path_(state_folder + "/node.key") {}
  [[nodiscard]] const std::string& path() const { return path_; }
  /// Errors: missing, not readable, damaged.
  [[nodiscard]] engine::Result<engine::NodeKey> load() const;
  /// Makes one where there is none: durable under its name, readable by its owner only, or not there at all.
  [[nodiscard]] engine::Result<engine::NodeKey> load_or_make() const;

 private:
  std::string path_;
};

}  // namespace lockstep::data_plane
