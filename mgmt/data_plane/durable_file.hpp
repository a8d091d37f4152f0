#pragma once
// Small files that are there whole, and durable, or not at all.
#include <cstddef>
#include <span>
#include <string>

#include "engine/base/result.hpp"

namespace lockstep::data_plane {

/// Puts a file of that content, readable by its owner alone, in the place of the one that is there; blocks. An error's
/// message begins with `what`; then the old one is there still, or the new one is, not yet durable.
[[nodiscard]] engine::Result<void> write_durably(const std::string& path, std::span<const std::byte> bytes,
                                                 const std::string& what);
/// A folder, durable under its name, which it may have already; blocks.
[[nodiscard]] engine::Result<void> make_folder_durably(const std::string& path);
/// Removes it, if it is there, durably; blocks.
[[nodiscard]] engine::Result<void> remove_durably(const std::string& path);
/// Errc::no_space or io_error, with what the system said of it last.
[[nodiscard]] std::unexpected<engine::Error> system_failure(const std::string& what);

}  // namespace lockstep::data_plane
