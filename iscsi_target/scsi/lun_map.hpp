#pragma once
// Which logical unit stands at which LUN, and who may see it. A map is made whole, never changed, and handed to every
// reactor's TargetDevice.
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "engine/base/result.hpp"
#include "engine/base/uuid.hpp"
#include "iscsi_target/scsi/logical_unit.hpp"

namespace lockstep::iscsi_target {

/// Which initiators may reach which volumes. Immutable: read by several reactors at once.
class AccessView {
 public:
  virtual ~AccessView() = default;
  [[nodiscard]] virtual bool may_access(const engine::Uuid& volume, std::string_view initiator_name) const = 0;
};

constexpr std::uint16_t kMaxLuns = 511;  ///< LUNs are 0 to kMaxLuns - 1; the whole list fits a REPORT LUNS of 4 KiB

struct LunEntry {
  std::uint16_t lun = 0;
  std::shared_ptr<LogicalUnit> unit;
};

class LunMap {
 public:
  LunMap() = default;
  /// Errors: a LUN twice, a LUN too high, a unit twice. `access` null: every initiator sees everything.
  [[nodiscard]] static engine::Result<std::shared_ptr<const LunMap>> make(std::vector<LunEntry> entries,
                                                                          std::shared_ptr<const AccessView> access);
  /// By LUN.
  [[nodiscard]] std::span<const LunEntry> entries() const { return entries_; }
  [[nodiscard]] bool visible(const LunEntry& entry, std::string_view initiator_name) const {
    return !access_ || access_->may_access(entry.unit->volume(), initiator_name);
  }

 private:
  std::vector<LunEntry> entries_;
  std::shared_ptr<const AccessView> access_;
};

/// Peripheral or flat addressing (SAM-5 4.7) of a LUN of ours; nothing for every other form.
[[nodiscard]] std::optional<std::uint16_t> decode_lun(std::uint64_t lun);
/// Peripheral addressing up to 255, flat above.
[[nodiscard]] std::uint64_t encode_lun(std::uint16_t lun);
constexpr std::uint64_t kReportLunsWellKnownLun = 0xC101'0000'0000'0000;

}  // namespace lockstep::iscsi_target
