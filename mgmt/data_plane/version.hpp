#pragma once
namespace lockstep::mgmt {
extern const char* const kVersion;  ///< of the product, as CMake's project has it
}  // namespace lockstep::mgmt
