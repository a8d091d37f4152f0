#pragma once
// lockstep-mgmtd's configuration file (TOML).
#include <filesystem>
#include <optional>
#include <string>

#include "mgmt/control/file_difference.hpp"
#include "mgmt/control/node_core.hpp"

namespace lockstep::mgmt {

struct MgmtdConfig {
  std::string listen;     ///< address:port
  std::string log_level;  ///< trace, debug, info, warning, error
  std::filesystem::path web_folder;
  LocalSettings local;
  std::vector<std::string> said{};  ///< the settings that stand in the file
};

/// Errors name the file, the line and what to do. A file that is not there is an error.
[[nodiscard]] engine::Result<MgmtdConfig> read_mgmtd_config(const std::filesystem::path& file);

/// A sentence for each setting that stands in the file and could not be honoured when this node makes or joins a pair,
/// or starts: what `lockstep-mgmtd --check` says beside the errors above.
[[nodiscard]] std::vector<std::string> not_usable(const MgmtdConfig& config);

/// Each setting that stands in the file and is not in force: those about the node itself count when it makes or joins a
/// pair, and afterwards what the pair has counts.
[[nodiscard]] std::vector<FileDifference> not_in_force(const MgmtdConfig& config, const Node& node);

/// The same of the file as it is now, which is read again when it has changed. For one thread at a time.
class FileWatch {
 public:
  explicit FileWatch(std::filesystem::path file) : file_(std::move(file)) {}
  [[nodiscard]] std::vector<FileDifference> differences(const Node& node);

 private:
  std::filesystem::path file_;
  std::filesystem::file_time_type written_{};
  std::optional<MgmtdConfig> config_;
  std::string problem_;
};

}  // namespace lockstep::mgmt
