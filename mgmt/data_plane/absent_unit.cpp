#include "mgmt/data_plane/absent_unit.hpp"

#include <utility>

namespace lockstep::data_plane {
namespace {

class AbsentDisk final : public engine::Disk {
 public:
  explicit AbsentDisk(engine::DiskInfo info) : info_(std::move(info)) {}
  [[nodiscard]] const engine::DiskInfo& info() const override { return info_; }
  [[nodiscard]] engine::AccessState access_state() const override { return engine::AccessState::unavailable; }
  void submit(engine::DiskRequest& request) override {
    request.status = engine::Errc::not_serving;
    request.done(request);
  }

 private:
  const engine::DiskInfo info_;
};

struct AbsentDiskAndUnit {
  AbsentDiskAndUnit(engine::DiskInfo info, iscsi_target::UnitSettings settings)
      : disk(std::move(info)), unit(disk, std::move(settings)) {}
  AbsentDisk disk;
  iscsi_target::LogicalUnit unit;
};

}  // namespace

std::shared_ptr<iscsi_target::LogicalUnit> absent_unit(engine::DiskInfo info, iscsi_target::UnitSettings settings) {
  const auto both = std::make_shared<AbsentDiskAndUnit>(std::move(info), std::move(settings));
  return {both, &both->unit};
}

}  // namespace lockstep::data_plane
