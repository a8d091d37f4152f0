#pragma once
// The way in from the partner, over as many sessions as it has paths: the device server of the pair's reserved target.
// Each nexus is a path with a PartnerService of its own; the requests of all of them meet in one PathsService.
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "replication/link/partner_service.hpp"
#include "replication/link/paths_service.hpp"

namespace lockstep::replication {

/// Owned by the pair's reactor, on which every session of the reserved target lives.
class PathsTarget final : public scsi::DeviceServer {
 public:
  /// `buffers` is a reserve of its own, so that initiators' data can't starve the partner's. It has more room
  /// than what the partner has under way takes (PathsLink::kMaxBytesUnderWay): the rest is for forwards that wait for
  /// their orders.
  /// `mirror` outlives this, and answers nothing after this is gone.
  PathsTarget(engine::Clock& clock, engine::BufferPool& buffers, const Hello& ours, LinkEvents& mirror,
              std::vector<PathAddress> addresses = {});
  /// No nexus is open.
  ~PathsTarget() override;

  /// A greeting that was refused, a sentence for a person.
  void on_refused(engine::Callback<const std::string&> handler);

  /// What comes is refused from now on, and the mirror hears of nothing any more.
  void stop();

  void on_nexus_opened(scsi::Nexus& nexus) override;
  void on_nexus_closed(scsi::Nexus& nexus) override;
  void execute(scsi::Command& command) override;
  bool task_management(scsi::Nexus& nexus, scsi::TaskManagement function, std::uint64_t lun) override;

 private:
  class Path;
  [[nodiscard]] Path* place_for(scsi::Nexus& nexus);
  [[nodiscard]] Path* path_of(const scsi::Nexus* nexus);

  engine::Callback<const std::string&> tell_refused_;
  PathsService service_;
  std::vector<std::unique_ptr<Path>> paths_;
};

}  // namespace lockstep::replication
