#pragma once
namespace lockstep::mgmt {
inline constexpr const char* kVersion = "0.1.0";
}  // namespace lockstep::mgmt
