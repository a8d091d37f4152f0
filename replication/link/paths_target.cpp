#include "replication/link/paths_target.hpp"

#include <algorithm>
#include <utility>

#include "engine/scsi/sense.hpp"

namespace lockstep::replication {

class PathsTarget::Path final : public LinkEvents {
 public:
  Path(engine::Clock& clock, engine::BufferPool& buffers, const Hello& ours, PathsService& all, std::size_t slot)
      : service(clock, buffers, ours, *this), all_(all), slot_(static_cast<PathSlot>(slot)) {}

  PartnerService service;
  scsi::Nexus* nexus = nullptr;  ///< null: free

 private:
  void on_link_up() override {}
  void on_link_down() override {}
  void on_inbound_up(std::uint64_t) override { all_.on_path_up(slot_); }
  void on_inbound_down(std::uint64_t) override { all_.on_path_down(slot_); }
  void on_request(std::uint64_t, InboundRequest& request) override { all_.on_request(slot_, request); }

  PathsService& all_;
  PathSlot slot_;
};

PathsTarget::PathsTarget(engine::Clock& clock, engine::BufferPool& buffers, const Hello& ours, LinkEvents& mirror,
                         std::vector<PathAddress> addresses)
    : service_(clock, ours.process, mirror, std::move(addresses)) {
  service_.ask_for_starving(
      [this] { return std::ranges::any_of(paths_, [](const auto& path) { return path->service.starves(); }); });
  for (std::size_t slot = 0; slot < kMaxPaths; ++slot) {
    paths_.push_back(std::make_unique<Path>(clock, buffers, ours, service_, slot));
    paths_.back()->service.on_refused([this](const std::string& why) {
      if (tell_refused_) tell_refused_(why);
    });
  }
}

PathsTarget::~PathsTarget() = default;

void PathsTarget::on_refused(engine::Callback<const std::string&> handler) { tell_refused_ = std::move(handler); }

void PathsTarget::stop() {
  for (const auto& path : paths_) path->service.stop();
  service_.stop();
}

PathsTarget::Path* PathsTarget::path_of(const scsi::Nexus* nexus) {
  const auto path = std::ranges::find_if(paths_, [&](const auto& p) { return p->nexus == nexus; });
  return path == paths_.end() ? nullptr : path->get();
}

/// It has a place from its first command on: who only tries whether a login succeeds sends none, and takes none.
void PathsTarget::on_nexus_opened(scsi::Nexus&) {}

PathsTarget::Path* PathsTarget::place_for(scsi::Nexus& nexus) {
  Path* const path = path_of(nullptr);
  if (path == nullptr) return nullptr;
  path->nexus = &nexus;
  path->service.on_nexus_opened(nexus);
  return path;
}

void PathsTarget::on_nexus_closed(scsi::Nexus& nexus) {
  Path* const path = path_of(&nexus);
  if (path == nullptr) return;
  path->service.on_nexus_closed(nexus);
  path->nexus = nullptr;
}

void PathsTarget::execute(scsi::Command& command) {
  Path* path = path_of(command.nexus);
  if (path == nullptr) path = place_for(*command.nexus);
  if (path != nullptr) return path->service.execute(command);
  const scsi::Sense sense{scsi::SenseKey::illegal_request, scsi::asc::kInvalidFieldInCdb};
  command.status = scsi::Status::check_condition;
  command.sense_length = scsi::build_sense(sense, scsi::SenseFormat::fixed, command.sense);
  command.complete();
}

bool PathsTarget::task_management(scsi::Nexus&, scsi::TaskManagement, std::uint64_t) { return true; }

}  // namespace lockstep::replication
