// What a folder is good for. Whatever is made there for that is removed again.
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>

#include <fcntl.h>
#include <grp.h>
#include <linux/magic.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>

#include "ui-api/cli/setup/descriptor.hpp"
#include "ui-api/cli/setup/local_host.hpp"

namespace lockstep::cli::setup {
namespace {

namespace fs = std::filesystem;

constexpr const char* kUser = "lockstep";
constexpr std::size_t kBlock = 4096;
constexpr std::size_t kStrangersShown = 3;

std::string last_error() { return std::strerror(errno); }

/// A file without a name where the file system knows that, else one whose name is removed at once.
int file_in(const std::string& folder) {
  const int unnamed = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (unnamed >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) return unnamed;
  std::string name = folder + "/.lockstep-setup-XXXXXX";
  const int fd = ::mkostemp(name.data(), O_CLOEXEC);
  if (fd >= 0) ::unlink(name.c_str());
  return fd;
}

/// Empty: a block can be written past the page cache.
std::string direct_io_trouble(int file) {
  const int flags = ::fcntl(file, F_GETFL);
  if (flags < 0 || ::fcntl(file, F_SETFL, flags | O_DIRECT) != 0) return last_error();
  const std::unique_ptr<void, decltype(&std::free)> block(std::aligned_alloc(kBlock, kBlock), &std::free);
  if (!block) return "no memory";
  std::memset(block.get(), 0, kBlock);
  const auto written = ::pwrite(file, block.get(), kBlock, 0);
  if (written < 0) return last_error();
  return written == static_cast<ssize_t>(kBlock) ? "" : "only a part of a block was written";
}

/// Asked of the kernel as the user itself, in a process of its own: groups and access lists count, too.
bool user_passes(const std::string& folder, const passwd& user) {
  if (::geteuid() != 0) return true;
  const pid_t child = ::fork();
  if (child < 0) return true;
  if (child == 0) {
    const bool is_user = ::setgroups(0, nullptr) == 0 && ::setgid(user.pw_gid) == 0 && ::setuid(user.pw_uid) == 0;
    ::_exit(!is_user || ::access(folder.c_str(), X_OK) == 0 ? 0 : 1);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

std::vector<std::string> strangers_in(const std::string& folder, const std::optional<uid_t>& user) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    struct stat found {};
    const std::string name = at->path().filename().string();
    if (name == "lost+found" || ::lstat(at->path().c_str(), &found) != 0) continue;
    if (user && found.st_uid == *user) continue;
    names.push_back(name);
    if (names.size() == kStrangersShown) break;
  }
  return names;
}

}  // namespace

FolderState state_of_folder(const std::string& path) {
  FolderState state;
  std::error_code error;
  state.there = fs::is_directory(path, error);
  struct statfs system {};
  if (!state.there || ::statfs(path.c_str(), &system) != 0) return state;
  state.in_memory = system.f_type == TMPFS_MAGIC || system.f_type == RAMFS_MAGIC;
  state.free_bytes = static_cast<std::uint64_t>(system.f_bavail) * static_cast<std::uint64_t>(system.f_frsize);
  const passwd* user = ::getpwnam(kUser);
  const std::string above = fs::path(path).parent_path().string();
  if (user != nullptr) state.user_gets_there = user_passes(above, *user);
  struct stat itself {};
  state.is_users = user != nullptr && ::stat(path.c_str(), &itself) == 0 && itself.st_uid == user->pw_uid;
  state.strangers = strangers_in(path, user != nullptr ? std::optional(user->pw_uid) : std::nullopt);
  const Descriptor file(file_in(path));
  if (!file.good())
    state.why_no_writes = last_error();
  else
    state.why_no_direct_io = direct_io_trouble(file.get());
  return state;
}

}  // namespace lockstep::cli::setup
