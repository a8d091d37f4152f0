#pragma once
// How a volume is named to initiators: the designators of VPD page 83h by which EXTENDED COPY finds it again.
#include <array>
#include <cstddef>
#include <string>

#include "iscsi_target/scsi/logical_unit.hpp"

namespace lockstep::iscsi_target {

/// NAA format 6h: the same on both nodes.
[[nodiscard]] std::array<std::byte, 16> naa_of(const engine::Uuid& volume);
[[nodiscard]] std::string serial_of(const LogicalUnit& unit);

}  // namespace lockstep::iscsi_target
