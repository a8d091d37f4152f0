#include "engine/rdma/devices.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

namespace lockstep::engine {

void prepare_rdma_library() { ::setenv("RDMAV_ALLOW_DISASSOC_DESTROY", "1", 1); }

std::vector<std::string> rdma_devices() {
  std::vector<std::string> names;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator("/sys/class/infiniband", none)) {
    names.push_back(entry.path().filename());
  }
  std::ranges::sort(names);
  return names;
}

}  // namespace lockstep::engine
