#pragma once
// Who may log in to the target, and who sees which volume there: both follow from the volumes' access lists.
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "iscsi_target/scsi/lun_map.hpp"
#include "iscsi_target/session/target.hpp"
#include "mgmt/data_plane/desired_state.hpp"
#include "mgmt/data_plane/events.hpp"

namespace lockstep::data_plane {

/// Immutable once made; what it answers changes when the time of credentials of before is over.
class Access final : public iscsi_target::AccessView, public iscsi_target::AccessPolicy {
 public:
  using WallClock = std::function<std::int64_t()>;  ///< ms, called from any reactor

  explicit Access(const std::vector<VolumeSpec>& volumes, WallClock clock = wall_clock_ms);

  [[nodiscard]] bool may_access(const engine::Uuid& volume, std::string_view initiator) const override;
  /// Allowed when there is a volume to see. If any list names credentials for the initiator, one of them must be
  /// proven.
  [[nodiscard]] iscsi_target::AccessAnswer may_log_in(std::string_view initiator,
                                                      std::string_view target) const override;

 private:
  struct Known {
    iscsi::ChapCredentials chap;
    std::int64_t until_ms = 0;  ///< 0: for as long as it is named
  };
  void know(const std::string& initiator, const Authentication& authentication, std::int64_t until_ms);

  WallClock clock_;
  std::set<engine::Uuid> open_;                                       ///< volumes that everybody sees
  std::map<std::string, std::set<engine::Uuid>, std::less<>> lists_;  ///< by initiator
  std::map<std::string, std::vector<Known>, std::less<>> credentials_;
};

/// Nothing when there is no secret to prove.
[[nodiscard]] std::optional<iscsi::ChapCredentials> to_chap(const Authentication& authentication);

}  // namespace lockstep::data_plane
