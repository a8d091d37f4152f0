#pragma once
// Whether a lease may rest on this machine's clock alone, and since when that clock runs.
#include <cstdint>
#include <string>

namespace lockstep::data_plane {

/// True when /proc/cpuinfo tells of a hypervisor: such a machine may be paused, and its clocks with it.
[[nodiscard]] bool is_virtual_machine(const std::string& cpuinfo = "/proc/cpuinfo");

/// Which boot of this machine this is, as the kernel numbers it; 0 when that can't be read.
[[nodiscard]] std::uint64_t this_boot(const std::string& boot_id = "/proc/sys/kernel/random/boot_id");

/// By the option `lease_clock`: whether reads wait for the partner's word. Logs which it is, and why.
[[nodiscard]] bool asks_partner(const std::string& lease_clock);

}  // namespace lockstep::data_plane
