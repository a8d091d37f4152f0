#pragma once
// lockstepd from its first line to its last: reactors, control socket, node, signals.
#include <memory>

#include "engine/base/result.hpp"
#include "engine/rdma/verbs.hpp"
#include "mgmt/data_plane/configuration.hpp"

namespace lockstep::data_plane {

class Daemon {
 public:
  /// Everything that may fail at the start. Errors are sentences that say what to do.
  [[nodiscard]] static engine::Result<std::unique_ptr<Daemon>> create(const Configuration& configuration,
                                                                      rdma::OpenFabric open_fabric);
  ~Daemon();
  /// Until SIGTERM, SIGINT or node.shutdown; gives the exit code.
  int run();

 private:
  struct Impl;
  explicit Daemon(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::data_plane
