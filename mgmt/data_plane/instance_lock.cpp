#include "mgmt/data_plane/instance_lock.hpp"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/file.h>

namespace lockstep::data_plane {

using engine::Errc;

engine::Result<InstanceLock> InstanceLock::take(const std::string& socket_path) {
  const std::string path = socket_path + ".lock";
  engine::Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!file.valid()) {
    const int reason = errno;
    const std::string folder = socket_path.substr(0, std::max<std::size_t>(socket_path.rfind('/'), 1));
    std::string message = "Can't make the control socket " + socket_path + ": " + std::strerror(reason) + ".";
    if (reason == ENOENT) message += " Make the folder " + folder + " first, or set rpc_socket in the configuration.";
    if (reason == EACCES || reason == EROFS) message += " lockstepd needs to write in " + folder + ".";
    return engine::fail(Errc::io_error, message);
  }
  if (::flock(file.get(), LOCK_EX | LOCK_NB) == 0) return InstanceLock(socket_path, std::move(file));
  return engine::fail(Errc::refused, "Another lockstepd is running with the control socket " + socket_path +
                                         ". Stop it first, or set another rpc_socket in the configuration.");
}

}  // namespace lockstep::data_plane
