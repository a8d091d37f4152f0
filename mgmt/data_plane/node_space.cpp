// How much is left for thin volumes: each node looks at its own disks now and then, and tells the operator and the
// unit's state, which is one for both nodes and tells the initiators (engine/scsi/lu_state.hpp).
#include <system_error>

#include "iscsi_target/scsi/space_threshold.hpp"
#include "mgmt/data_plane/node.hpp"
#include "mgmt/log/log.hpp"

namespace lockstep::data_plane {

using mgmt::LogLevel;

struct Node::SpaceSeen {
  engine::Uuid volume;
  std::string path;
  std::optional<Space> space{};
};

namespace {
std::string is_low(const std::string& path, std::uint64_t left) {
  return "only " + std::to_string(left >> 20) + " MiB are left for " + path +
         " on this node, less than a tenth of the volume. When nothing is left, writes that need new space are "
         "refused on both nodes. Free or add space there.";
}

std::string is_too_small(const std::string& path, const Space& space, std::uint64_t size) {
  return "it has " + std::to_string(size >> 20) + " MiB, but the file system of " + path + " on this node has " +
         std::to_string(space.in_all >> 20) +
         " MiB in all: it can never be written as a whole. Enlarge that file system, or move this copy to a larger "
         "one.";
}
}  // namespace

/// A file system may take its time to answer: it is asked on a thread of its own, and the next time when it has.
void Node::look_at_space() {
  std::vector<SpaceSeen> all;
  for (const auto& [id, volume] : volumes_) {
    if (volume->spec.thin && volume->disk && volume->stores.in_files()) all.push_back({id, volume->spec.data});
  }
  if (looker_.joinable()) looker_.join();  // it posted what led here: it has ended, or is about to
  try {
    looker_ = std::thread([this, all = std::move(all)]() mutable {
      for (SpaceSeen& each : all) each.space = space_of(each.path);
      home().post([this, all = std::move(all)] {
        for (const SpaceSeen& each : all) take_space(each);
        home().call_after(kLookAtSpace, [this] { look_at_space(); });
      });
    });
  } catch (const std::system_error&) {  // the system has no thread now
    home().call_after(kLookAtSpace, [this] { look_at_space(); });
  }
}

void Node::take_space(const SpaceSeen& seen) {
  const auto at = volumes_.find(seen.volume);
  if (at == volumes_.end() || !at->second->unit || !seen.space) return;
  Volume& volume = *at->second;
  const std::string name = "Volume " + volume.spec.name + ": ";
  const std::uint64_t size = volume.unit->blocks() << volume.unit->block_shift();
  const std::uint64_t left = seen.space->left;
  const bool low = iscsi_target::is_low_space(left, volume.stores.allocated_bytes(), size, volume.low_space);
  volume.findings.clear();
  if (low) volume.findings.push_back(name + is_low(seen.path, left));
  if (seen.space->in_all < size) volume.findings.push_back(name + is_too_small(seen.path, *seen.space, size));
  if (std::exchange(volume.low_space, low) != low) {
    const std::string message =
        low ? volume.findings.front() : name + "enough space is left again for " + seen.path + " on this node.";
    log(low ? LogLevel::warning : LogLevel::info, message);
    events_.publish({low ? "store.low_space" : "store.enough_space", seen.volume, {}, {}, message});
  }
  tell_low_space(volume);
}

/// Again with every look until the state says so: the volume may not be served now, and forgets when nodes are lost.
void Node::tell_low_space(Volume& volume) {
  const std::uint16_t port = volume.unit->settings().port_group;
  if (volume.tells_space || volume.unit->state()->is_low(port) == volume.low_space) return;
  scsi::LuRequest request;
  request.kind = volume.low_space ? scsi::LuRequestKind::space_low : scsi::LuRequestKind::space_enough;
  request.port = port;
  volume.tells_space = true;
  const bool sent = workers_.front()->device.send(*volume.unit, request, [this, id = volume.spec.id] {
    if (const auto at = volumes_.find(id); at != volumes_.end()) at->second->tells_space = false;
  });
  if (!sent) volume.tells_space = false;  // the map that it is in is being published
}

}  // namespace lockstep::data_plane
