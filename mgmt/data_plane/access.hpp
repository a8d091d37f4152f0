#pragma once
// Who may log in to the target, and who sees which volume there: both follow from the volumes' access lists.
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "iscsi_target/scsi/lun_map.hpp"
#include "iscsi_target/session/target.hpp"
#include "mgmt/data_plane/desired_state.hpp"

namespace lockstep::mgmt {

/// Immutable once made.
class Access final : public iscsi_target::AccessView, public iscsi_target::AccessPolicy {
 public:
  explicit Access(const std::vector<VolumeSpec>& volumes);

  [[nodiscard]] bool may_access(const engine::Uuid& volume, std::string_view initiator) const override;
  /// Allowed when there is a volume to see. If any list names credentials for the initiator, one of them must be
  /// proven.
  [[nodiscard]] iscsi_target::AccessAnswer may_log_in(std::string_view initiator,
                                                      std::string_view target) const override;

 private:
  std::set<engine::Uuid> open_;                                       ///< volumes that everybody sees
  std::map<std::string, std::set<engine::Uuid>, std::less<>> lists_;  ///< by initiator
  std::map<std::string, std::vector<iscsi::ChapCredentials>, std::less<>> credentials_;
};

/// Nothing when there is no secret to prove.
[[nodiscard]] std::optional<iscsi::ChapCredentials> to_chap(const Authentication& authentication);

}  // namespace lockstep::mgmt
