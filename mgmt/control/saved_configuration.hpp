#pragma once
// A copy of the configuration in force beside the volumes, for the day on which no node has its database any more. One
// file, mode 0600, replaced as a whole with every revision; nothing reads it while there is a database with a pair.
//
// Its first line names the form, its version and the SHA-256 of all that follows; then comes JSON. It holds every
// secret of the pair's.
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "engine/base/result.hpp"
#include "mgmt/control/configuration.hpp"
#include "mgmt/control/revision.hpp"

namespace lockstep::mgmt {

struct SavedConfiguration {
  RevisionId revision;
  std::int64_t saved_ms = 0;
  Uuid node;  ///< that saved it
  Configuration configuration;

  /// The node that saved it, and the other one, which may be null.
  [[nodiscard]] const Node* here() const;
  [[nodiscard]] const Node* partner() const;
};

[[nodiscard]] std::string to_file(const SavedConfiguration& saved);
/// Refusal conflict: damaged, of a newer version, or not what a Lockstep node saves; `detail` says which.
[[nodiscard]] Outcome<SavedConfiguration> saved_from_file(std::string_view content);

/// The file in the volumes' folder. Thread-safe as far as a file is: it is always there whole.
class SavedConfigurationFile {
 public:
  explicit SavedConfigurationFile(const std::filesystem::path& folder);
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] bool exists() const;
  /// Refusal not_found when there is none, conflict when it is of no use.
  [[nodiscard]] Outcome<SavedConfiguration> read() const;
  /// A copy of another pair's is kept beside it, under that pair's id.
  [[nodiscard]] engine::Result<void> write(const SavedConfiguration& saved) const;

 private:
  void set_aside_other_pairs(const Uuid& pair) const;
  std::filesystem::path path_;
};

}  // namespace lockstep::mgmt
