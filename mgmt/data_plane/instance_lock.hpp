#pragma once
// One lockstepd to a control socket.
#include <string>

#include "engine/base/result.hpp"
#include "engine/stores/descriptor.hpp"

namespace lockstep::data_plane {

/// Held by the process that may listen at `socket_path` and replace a socket that is there. The kernel lets go of it
/// however the process ends, so it can't be stale.
class InstanceLock {
 public:
  /// Taken before anything that costs time or memory: of two that are started at the same moment one runs and the other
  /// is refused at once. Errors are sentences: another lockstepd is running, the folder is missing, permission.
  [[nodiscard]] static engine::Result<InstanceLock> take(const std::string& socket_path);

  [[nodiscard]] const std::string& socket_path() const { return socket_path_; }

 private:
  InstanceLock(std::string socket_path, engine::Descriptor file)
      : socket_path_(std::move(socket_path)), file_(std::move(file)) {}
  std::string socket_path_;
  engine::Descriptor file_;
};

}  // namespace lockstep::data_plane
