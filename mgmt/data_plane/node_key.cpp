#include "mgmt/data_plane/node_key.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/stores/descriptor.hpp"

namespace lockstep::mgmt {
namespace {

using engine::Descriptor;
using engine::Errc;
using engine::NodeKey;
using engine::Result;

std::unexpected<engine::Error> system_failure(const std::string& what) {
  const int error = errno;
  return engine::fail(error == ENOSPC ? Errc::no_space : Errc::io_error,
                      what + ": " + std::generic_category().message(error) + ".");
}

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

Result<void> keep(const NodeKey& key, const std::string& path) {
  const std::string fresh = path + ".new";
  const Descriptor file(::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file.valid()) return system_failure("Can't make the node key " + path);
  const auto bytes = engine::encode(key);
  const bool kept = ::fchmod(file.get(), 0600) == 0 && write_all(file.get(), bytes.span()) &&
                    ::fsync(file.get()) == 0 && ::rename(fresh.c_str(), path.c_str()) == 0 && sync_folder_of(path);
  if (kept) return {};
  auto failed = system_failure("Can't write the node key " + path);
  ::unlink(fresh.c_str());
  return failed;
}

}  // namespace

Result<NodeKey> NodeKeyFile::load() const {
  const Descriptor file(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid() && errno == ENOENT) {
    return engine::fail(Errc::io_error, "The node key " + path_ +
                                            " is missing: without it no encrypted replica of this node can be read. "
                                            "Put it back from a backup.");
  }
  if (!file.valid()) return system_failure("Can't open the node key " + path_);
  engine::SecretBytes<engine::kNodeKeyBytes + 1> bytes;  // one more than it may have
  const ssize_t count = ::read(file.get(), bytes.span().data(), bytes.span().size());
  if (count < 0) return system_failure("Can't read the node key " + path_);
  auto key = engine::decode_node_key(std::span(bytes.span()).first(static_cast<std::size_t>(count)));
  if (!key) return engine::fail(Errc::corrupt, "The node key " + path_ + " " + key.error().message);
  return key;
}

Result<NodeKey> NodeKeyFile::load_or_make() const {
  struct stat found {};
  if (::stat(path_.c_str(), &found) == 0 || errno != ENOENT) return load();
  auto key = NodeKey::make();
  if (!key) return key;
  if (auto kept = keep(*key, path_); !kept) return std::unexpected(kept.error());
  return key;
}

}  // namespace lockstep::mgmt
