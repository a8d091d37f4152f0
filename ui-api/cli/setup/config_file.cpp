#include "ui-api/cli/setup/config_file.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <sstream>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include "ui-api/cli/setup/descriptor.hpp"
#include "ui-api/cli/setup/quoting.hpp"
#include "ui-api/cli/setup/toml_edit.hpp"
#include "ui-api/cli/table.hpp"

namespace lockstep::cli::setup {
namespace {

constexpr const char* kNew = ".new-by-setup";
constexpr const char* kBefore = ".before-setup";

std::unexpected<Failure> failed(const std::string& path) {
  return fail(Exit::refused, fmt::format("{} can't be written: {}.", path, std::strerror(errno)));
}

/// What a program said, line by line, without what would move a terminal's cursor.
std::string shown(const std::string& output) {
  std::string text;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) text += (text.empty() ? "" : "\n") + printable(line);
  return text;
}

bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const auto size = ::write(fd, text.data(), text.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(size));
  }
  return true;
}

/// Names are as durable as files only when their folder was flushed, too.
Outcome<void> flush_folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  const Descriptor fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.good() || ::fsync(fd.get()) != 0) return failed(folder);
  return {};
}

Outcome<void> rename_into(const std::string& from, const std::string& to) {
  if (std::rename(from.c_str(), to.c_str()) != 0) {
    auto failure = failed(to);
    ::unlink(from.c_str());
    return failure;
  }
  return flush_folder_of(to);
}

}  // namespace

Outcome<std::string> text_with(const Present& present, const Answers& answers) {
  std::vector<Setting> settings{{"portals", toml_list(answers.portals)},
                                {"link_address", toml_string(answers.link)},
                                {"management_address", toml_string(answers.management)}};
  if (!answers.node_name.empty()) settings.push_back({"node_name", toml_string(answers.node_name)});
  if (!answers.volume_folder.empty()) settings.push_back({"volume_folder", toml_string(answers.volume_folder)});
  return with_settings(present.text, settings);
}

Outcome<void> ConfigFile::fill(int fd, const std::string& path, const std::string& text) const {
  struct stat now {};
  const bool is_there = ::stat(host_.places().configuration.c_str(), &now) == 0;
  // Whoever could read the file can read this one, and nobody else.
  if (is_there && ::fchown(fd, now.st_uid, now.st_gid) != 0) return failed(path);
  if (::fchmod(fd, is_there ? now.st_mode & 07777 : 0644) != 0) return failed(path);
  if (!write_all(fd, text) || ::fsync(fd) != 0) return failed(path);
  return {};
}

Outcome<void> ConfigFile::write(const std::string& path, const std::string& text) const {
  ::unlink(path.c_str());
  const Descriptor fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd.good()) return failed(path);
  auto filled = fill(fd.get(), path, text);
  if (!filled) ::unlink(path.c_str());
  return filled;
}

Outcome<void> ConfigFile::keep_present() const {
  const std::string kept = host_.places().configuration + kBefore;
  if (!present_.there) return {};
  if (auto written = write(kept + kNew, present_.text); !written) return written;
  return rename_into(kept + kNew, kept);
}

Outcome<void> ConfigFile::try_out(const std::string& path) const {
  const auto tried = host_.run({host_.places().mgmtd, "--check", "--config", path});
  if (!tried) return std::unexpected(tried.error());
  if (tried->status == 0) return {};
  return fail(Exit::refused, fmt::format("lockstep-mgmtd could not use the settings. It says:\n{}\n{} is as it was.",
                                         shown(tried->output), host_.places().configuration));
}

Outcome<void> ConfigFile::replace(const std::string& text) {
  const std::string file = host_.places().configuration;
  if (auto written = write(file + kNew, text); !written) return written;
  auto good = try_out(file + kNew);
  if (good) good = keep_present();
  if (good) return rename_into(file + kNew, file);
  ::unlink((file + kNew).c_str());
  return good;
}

Outcome<void> ConfigFile::put_back() {
  const std::string file = host_.places().configuration;
  if (!present_.there) {
    if (::unlink(file.c_str()) != 0 && errno != ENOENT) return failed(file);
    return flush_folder_of(file);
  }
  if (auto written = write(file + kNew, present_.text); !written) return written;
  return rename_into(file + kNew, file);
}

}  // namespace lockstep::cli::setup
