#pragma once
// The kernel's messages about data center bridging (linux/dcbnl.h, over rtnetlink), as far as flow control by priority
// is asked for: bytes, no socket. An answer may be anything.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lockstep::rdma {

/// Of an interface's port (IEEE 802.1Q, clause 36).
struct PriorityFlowControl {
  std::uint8_t most = 0;     ///< priorities that may have it at once; 0: the port has none
  std::uint8_t enabled = 0;  ///< bit n: priority n
  bool operator==(const PriorityFlowControl&) const = default;
};

[[nodiscard]] std::vector<std::byte> dcb_question(const std::string& interface, std::uint32_t number);
/// Of a datagram. Nothing: it is an error, the answer to another question, or tells nothing of this.
[[nodiscard]] std::optional<PriorityFlowControl> flow_control_in(std::span<const std::byte> answer,
                                                                 std::uint32_t number);

}  // namespace lockstep::rdma
