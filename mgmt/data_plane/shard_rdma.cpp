#include "mgmt/data_plane/shard_rdma.hpp"

namespace lockstep::data_plane {

std::unique_ptr<ShardRdma> ShardRdma::make(rdma::Fabric* fabric, Worker& worker, engine::BufferPool& reserve) {
  if (fabric == nullptr || worker.completions == nullptr) return nullptr;
  return std::make_unique<ShardRdma>(*fabric, *worker.completions, reserve);
}

ShardRdma::ShardRdma(rdma::Fabric& fabric, rdma::Completions& completions, engine::BufferPool& reserve)
    : fabric_(fabric),
      completions_(completions),
      reserve_(reserve),
      link_{fabric, completions, copies_, memory_, figures_} {
  fabric_.add_arena(reserve_.arena());
  fabric_.add_arena(messages_.arena());
  fabric_.add_arena(copies_.arena());
}

ShardRdma::~ShardRdma() {
  fabric_.remove_arena(copies_.arena());
  fabric_.remove_arena(messages_.arena());
  fabric_.remove_arena(reserve_.arena());
}

void ShardRdma::add_to(iscsi_target::ServerReactor& reactor) {
  reactor.completions = &completions_;
  reactor.messages = &messages_;
  reactor.bounce = &copies_;
  reactor.figures = &figures_;
}

}  // namespace lockstep::data_plane
