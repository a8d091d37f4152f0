// An encrypted replica's key, between its metadata and the node's key.
#include "mgmt/data_plane/replica.hpp"

namespace lockstep::data_plane {

using engine::Errc;
using engine::Result;

Result<void> unlock(engine::IoUring& ring, engine::BufferPool& buffers, OpenedReplica& replica, bool encrypted,
                    const NodeKeyFile& keys) {
  const std::string& name = replica.stores.data->info().name;
  const auto& sealed = replica.area->identity().key;
  if (sealed.has_value() != encrypted) {
    return engine::fail(Errc::foreign, name + (encrypted ? " is not encrypted, and the volume is to be."
                                                         : " is encrypted, and the volume is not to be."));
  }
  if (!sealed) return {};
  const auto node = keys.load();
  if (!node) return std::unexpected(node.error());
  const auto key = engine::unseal(*sealed, *node);
  if (!key) return engine::fail(static_cast<Errc>(key.error().code.value()), name + ": " + key.error().message);
  auto save = [&reactor = ring.reactor(), area = replica.area.get(), node = *node](const engine::VolumeKey& next,
                                                                                   engine::IoCallback done) {
    // In a later turn: what the area refuses it refuses at once.
    reactor.post([area, sealed = engine::seal(next, node), done = std::move(done)]() mutable {
      area->write_key(sealed, std::move(done));
    });
  };
  replica.stores.cipher = std::make_unique<engine::CipherStore>(*replica.stores.data, buffers, *key, std::move(save));
  return {};
}

}  // namespace lockstep::data_plane
