#include "mgmt/data_plane/rdma_devices.hpp"

#include "engine/rdma/real/fabric.hpp"

namespace lockstep::data_plane {

RdmaDevices::RdmaDevices(Workers& workers, bool wanted) : workers_(workers) {
  if (!wanted) {
    why_none_ = "RDMA is off in lockstepd.toml.";
    return;
  }
  auto opened = rdma::open_fabric();
  if (!opened) {
    why_none_ = opened.error().message;
    return;
  }
  fabric_ = *std::move(opened);
  for (const auto& worker : workers_) {
    fabric_->add_arena(worker->pool.arena());
    completions_.push_back(fabric_->attach(worker->reactor));
    worker->completions = completions_.back().get();
  }
}

RdmaDevices::~RdmaDevices() {
  for (const auto& worker : workers_) worker->completions = nullptr;
}

}  // namespace lockstep::data_plane
