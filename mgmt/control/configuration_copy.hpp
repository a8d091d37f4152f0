#pragma once
// Keeps the copy of the configuration beside the volumes (saved_configuration.hpp) at what is in force. Its disk may
// hang, and holds up nobody for longer than a moment.
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>

#include "mgmt/control/file_thread.hpp"
#include "mgmt/control/saved_configuration.hpp"

namespace lockstep::mgmt {

/// Thread-safe. A disk that does not answer within the patience is told of as not_current, and asked again by update().
class ConfigurationCopy {
 public:
  explicit ConfigurationCopy(const SavedConfigurationFile& file) : file_(file) {}

  /// Writes it anew where it isn't of now, unless it is of a later time than `now`.
  void update(const SavedConfiguration& now);
  [[nodiscard]] Outcome<SavedConfiguration> read();
  /// Where there is one, it is `path` from now on. Refusal internal when that can't be.
  [[nodiscard]] Outcome<void> set_aside(const std::filesystem::path& path);
  /// What can't be removed is set aside when the next pair's is written.
  void remove();

  [[nodiscard]] std::string problem() const;                 ///< a sentence; empty when it is of now
  [[nodiscard]] std::int64_t newer() const;                  ///< its revision, where it is of a later time; else 0
  [[nodiscard]] bool was_seen() const { return was_seen_; }  ///< by update()
  /// When it was first seen it was of a later time than the database at this start.
  [[nodiscard]] bool was_newer() const { return was_newer_; }

 private:
  struct Seen {
    std::string problem;
    std::int64_t newer = 0;
  };
  [[nodiscard]] static Seen look(const SavedConfigurationFile& file, const SavedConfiguration& now);
  [[nodiscard]] static Seen look_and_write(const SavedConfigurationFile& file, const SavedConfiguration& now,
                                           std::int64_t newer);
  [[nodiscard]] bool see_first(const SavedConfiguration& now);
  void take(std::optional<Seen> seen, const std::string& besides);
  void is_owed();
  [[nodiscard]] std::string silence() const;

  const SavedConfigurationFile file_;
  FileThread thread_;
  mutable std::mutex mutex_;  ///< guards the next two
  Seen seen_;
  std::optional<std::int64_t> first_;  ///< the database's revision at the first update()
  std::atomic<bool> was_seen_ = false, was_newer_ = false;
};

}  // namespace lockstep::mgmt
