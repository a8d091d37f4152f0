#pragma once
// lockstep-mgmtd's configuration file (TOML).
#include <filesystem>
#include <string>

#include "mgmt/control/node_core.hpp"

namespace lockstep::mgmt {

struct MgmtdConfig {
  std::string listen;     ///< address:port
  std::string log_level;  ///< trace, debug, info, warning, error
  std::filesystem::path web_folder;
  LocalSettings local;
};

/// Errors name the file, the line and what to do. A file that is not there is an error.
[[nodiscard]] engine::Result<MgmtdConfig> read_mgmtd_config(const std::filesystem::path& file);

}  // namespace lockstep::mgmt
