#include "mgmt/data_plane/durable_file.hpp"

#include <cerrno>
#include <cstdio>
#include <system_error>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/stores/descriptor.hpp"

namespace lockstep::data_plane {
namespace {

using engine::Descriptor;
using engine::Errc;
using engine::Result;

bool write_all(int file, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(file, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  return true;
}

bool sync_folder_of(const std::string& path) {
  const Descriptor folder(::open(path.substr(0, path.rfind('/')).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return folder.valid() && ::fsync(folder.get()) == 0;
}

}  // namespace

std::unexpected<engine::Error> system_failure(const std::string& what) {
  const int error = errno;
  return engine::fail(error == ENOSPC ? Errc::no_space : Errc::io_error,
                      what + ": " + std::generic_category().message(error) + ".");
}

Result<void> write_durably(const std::string& path, std::span<const std::byte> bytes, const std::string& what) {
  const std::string fresh = path + ".new";
  const Descriptor file(::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file.valid()) return system_failure(what);
  const bool kept = ::fchmod(file.get(), 0600) == 0 && write_all(file.get(), bytes) && ::fsync(file.get()) == 0 &&
                    ::rename(fresh.c_str(), path.c_str()) == 0 && sync_folder_of(path);
  if (kept) return {};
  auto failed = system_failure(what);
  ::unlink(fresh.c_str());
  return failed;
}

Result<void> make_folder_durably(const std::string& path) {
  const bool made = ::mkdir(path.c_str(), 0777) == 0 || errno == EEXIST;  // less what the umask takes
  if (!made || !sync_folder_of(path)) return system_failure("Can't make the folder " + path);
  return {};
}

Result<void> remove_durably(const std::string& path) {
  if (::unlink(path.c_str()) != 0) {
    if (errno == ENOENT) return {};
    return system_failure("Can't remove " + path);
  }
  if (!sync_folder_of(path)) return system_failure("Can't make the removal of " + path + " durable");
  return {};
}

}  // namespace lockstep::data_plane
