#include "engine/rdma/devices.hpp"

#include <cstdlib>
#include <memory>

#include <infiniband/verbs.h>

namespace lockstep::engine {

void prepare_rdma_library() { ::setenv("RDMAV_ALLOW_DISASSOC_DESTROY", "1", 1); }

std::vector<std::string> rdma_devices() {
  prepare_rdma_library();
  int count = 0;
  const std::unique_ptr<ibv_device*, decltype(&ibv_free_device_list)> list(ibv_get_device_list(&count),
                                                                           &ibv_free_device_list);
  std::vector<std::string> names;
  if (!list) return names;
  for (int i = 0; i < count; ++i) names.emplace_back(ibv_get_device_name(list.get()[i]));
  return names;
}

}  // namespace lockstep::engine
