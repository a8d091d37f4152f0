#pragma once
// lockstepd's own options, from a TOML file. What is served is not configured here: management says it (node.apply).
#include <cstdint>
#include <string>

#include "engine/base/result.hpp"

namespace lockstep::data_plane {

struct Configuration {
  std::string rpc_socket = "/run/lockstep/lockstepd.sock";
  std::string state_folder = "/var/lib/lockstep";
  std::string fence_socket = "/run/lockstep-fence.sock";  ///< of lockstep-fence
  unsigned reactors = 1;
  std::uint64_t buffer_mib = 256;      ///< for initiators' data, a reactor
  std::uint64_t link_buffer_mib = 64;  ///< for the partner's data
  std::uint64_t busy_poll_us = 200;
  /// What the lease trusts: "boottime" this machine's clock; "partner" its answers; "auto" the clock of a real machine.
  std::string lease_clock = "auto";
  bool rdma = true;             ///< where the machine has it
  bool rdma_asked = false;      ///< … and health tells when it has not
  bool link_kernel_tls = true;  ///< where the kernel has it
  std::string log_level = "info";
};

/// Errors name the file, the line and what was expected. An unknown key is an error.
[[nodiscard]] engine::Result<Configuration> load_configuration(const std::string& path);
[[nodiscard]] engine::Result<Configuration> parse_configuration(std::string_view text, const std::string& name);

}  // namespace lockstep::data_plane
