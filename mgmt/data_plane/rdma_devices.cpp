#include "mgmt/data_plane/rdma_devices.hpp"

namespace lockstep::data_plane {

RdmaDevices::RdmaDevices(Workers& workers, bool wanted, rdma::OpenFabric open) : workers_(workers) {
  if (!wanted) {
    why_none_ = "RDMA is off in lockstepd.toml.";
    return;
  }
  auto opened = open();
  if (!opened) {
    why_none_ = opened.error().message;
    return;
  }
  fabric_ = *std::move(opened);
  for (const auto& worker : workers_) {
    messages_.push_back(std::make_unique<engine::BufferPool>(kMessages));
    worker->messages = messages_.back().get();
    for (const auto arena : {worker->pool.arena(), worker->messages->arena()}) {
      fabric_->add_arena(arena);
      arena_bytes_ += arena.size();
    }
    completions_.push_back(fabric_->attach(worker->reactor));
    worker->completions = completions_.back().get();
  }
}

RdmaDevices::~RdmaDevices() {
  for (const auto& worker : workers_) worker->completions = nullptr, worker->messages = nullptr;
}

}  // namespace lockstep::data_plane
