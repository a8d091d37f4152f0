#include "mgmt/data_plane/lease_clock.hpp"

#include <fstream>
#include <span>

#include "engine/base/byte_order.hpp"
#include "engine/base/uuid.hpp"
#include "mgmt/log/log.hpp"

namespace lockstep::data_plane {

using mgmt::log_info;

bool is_virtual_machine(const std::string& cpuinfo) {
  std::ifstream file(cpuinfo);
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("flags") || line.starts_with("Features")) {
      return (line + ' ').find(" hypervisor ") != std::string::npos;
    }
  }
  return false;
}

std::uint64_t this_boot(const std::string& boot_id) {
  std::ifstream file(boot_id);
  std::string text;
  std::getline(file, text);
  const auto id = engine::Uuid::parse(text);
  return id ? engine::load_be<std::uint64_t>(std::as_bytes(std::span(id->bytes)).data()) : 0;
}

bool asks_partner(const std::string& lease_clock) {
  if (lease_clock == "partner") {
    log_info("Reads wait for the partner's word, as lease_clock says.");
    return true;
  }
  if (lease_clock == "auto" && is_virtual_machine()) {
    log_info("This is a virtual machine, whose clock may stand still: reads wait for the partner's word.");
    return true;
  }
  log_info("Reads trust this machine's clock for the length of a lease.");
  return false;
}

}  // namespace lockstep::data_plane
