#include "mgmt/data_plane/node_key.hpp"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/stores/descriptor.hpp"
#include "mgmt/data_plane/durable_file.hpp"

namespace lockstep::data_plane {
namespace {

using engine::Descriptor;
using engine::Errc;
using engine::NodeKey;
using engine::Result;

Result<void> keep(const NodeKey& key, const std::string& path) {
  const auto bytes = engine::encode(key);
  return write_durably(path, bytes.span(), "Can't write the node key " + path);
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

}  // namespace lockstep::data_plane
