#pragma once
// Whether a lease may rest on this machine's clock alone.
#include <string>

namespace lockstep::mgmt {

/// True when /proc/cpuinfo tells of a hypervisor: such a machine may be paused, and its clocks with it.
[[nodiscard]] bool is_virtual_machine(const std::string& cpuinfo = "/proc/cpuinfo");

/// By the option `lease_clock`: whether reads wait for the partner's word. Logs which it is, and why.
[[nodiscard]] bool asks_partner(const std::string& lease_clock);

}  // namespace lockstep::mgmt
