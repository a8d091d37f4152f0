#pragma once
namespace lockstep::data_plane {
extern const char* const kVersion;  ///< of the product, as CMake's project has it
}  // namespace lockstep::data_plane
