#pragma once
// mgmtd.toml: written whole, tried before it counts, and put back when management does not come up with it.
#include <string>

#include "ui-api/cli/setup/answers.hpp"
#include "ui-api/cli/setup/host.hpp"

namespace lockstep::cli::setup {

/// The file's text with the answers in it.
[[nodiscard]] Outcome<std::string> text_with(const Present& present, const Answers& answers);

class ConfigFile {
 public:
  ConfigFile(Host& host, Present present) : host_(host), present_(std::move(present)) {}

  /// Writes `text` beside the file, has `lockstep-mgmtd --check` read it, keeps the file as it was with the ending
  /// .before-setup, and renames the new one into its place: at each moment the file is the one or the other. Nothing is
  /// left beside it when that fails.
  [[nodiscard]] Outcome<void> replace(const std::string& text);
  /// The file as it was before replace(), or none where there was none.
  [[nodiscard]] Outcome<void> put_back();

 private:
  [[nodiscard]] Outcome<void> write(const std::string& path, const std::string& text) const;
  [[nodiscard]] Outcome<void> fill(int fd, const std::string& path, const std::string& text) const;
  [[nodiscard]] Outcome<void> try_out(const std::string& path) const;
  [[nodiscard]] Outcome<void> keep_present() const;
  Host& host_;
  Present present_;
};

}  // namespace lockstep::cli::setup
