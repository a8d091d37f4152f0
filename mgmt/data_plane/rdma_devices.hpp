#pragma once
// This machine's RDMA, where it has any: the fabric, and what of it each worker has. Without, everything goes over TCP.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/rdma/verbs.hpp"
#include "mgmt/data_plane/worker.hpp"

namespace lockstep::data_plane {

class RdmaDevices {
 public:
  static constexpr std::size_t kMessages = std::size_t{64} << 20;  ///< bytes, for each worker

  /// Before the workers' reactors run; lends each worker its completion queues. Nothing where the machine has none;
  /// why_none() says so in a sentence. Not opened where it is not wanted.
  RdmaDevices(Workers& workers, bool wanted, rdma::OpenFabric open);
  /// After the reactors have stopped, and before the workers.
  ~RdmaDevices();
  RdmaDevices(const RdmaDevices&) = delete;
  RdmaDevices& operator=(const RdmaDevices&) = delete;

  [[nodiscard]] rdma::Fabric* fabric() const { return fabric_.get(); }  ///< null: there is none
  [[nodiscard]] const std::string& why_none() const { return why_none_; }
  /// Bytes that each device pins: every arena, for both of its protection domains.
  [[nodiscard]] std::uint64_t pinned_by_each() const { return 2 * arena_bytes_; }

 private:
  Workers& workers_;
  std::vector<std::unique_ptr<engine::BufferPool>> messages_;
  std::unique_ptr<rdma::Fabric> fabric_;
  std::vector<std::unique_ptr<rdma::Completions>> completions_;
  std::string why_none_;
  std::uint64_t arena_bytes_ = 0;
};

}  // namespace lockstep::data_plane
