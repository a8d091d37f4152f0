#pragma once
// What a logical unit is called, wherever an array maps it to: out of the pages in which it tells so. Pure.
#include <cstdint>
#include <span>
#include <string>

namespace lockstep::mgmt {

/// The best of the unit's own designators in a DEVICE IDENTIFICATION page (VPD 83h), such as "naa.6001405…"; empty when
/// there is none.
[[nodiscard]] std::string designated_name(std::span<const std::uint8_t> page);
/// The serial number of a UNIT SERIAL NUMBER page (VPD 80h), such as "serial ABC"; empty when there is none.
[[nodiscard]] std::string serial_name(std::span<const std::uint8_t> page);

}  // namespace lockstep::mgmt
