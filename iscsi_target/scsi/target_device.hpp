#pragma once
// The device server of the target on one reactor: finds the logical unit, reports unit attentions, makes the checks
// that the command table asks for, and hands the command to its handler.
//
// One object a reactor, used on that reactor only. Volumes and access lists change by adopt(), which the owner calls on
// every reactor with the same map; the data path reads its own copy and takes no lock.
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/runtime/buffer_pool.hpp"
#include "engine/scsi/command.hpp"
#include "engine/seams/clock.hpp"
#include "iscsi_target/scsi/lun_map.hpp"
#include "iscsi_target/scsi/unit_attention.hpp"

namespace lockstep::iscsi_target {

class Sanitizer;

/// A logical unit on this reactor, with how many of this reactor's commands are at work on it.
struct UnitUse {
  std::shared_ptr<LogicalUnit> unit;
  std::size_t in_flight = 0;
  std::uint64_t retired = 0;  ///< the adopt() that took it away, 0: in the map
  // What the device itself has the disk do, which may take as long as it likes.
  std::map<std::string, std::size_t> resets;  ///< by who asked for them, through whatever sessions
  std::size_t losses = 0;                     ///< of nexuses
  Sanitizer* sanitizer = nullptr;             ///< at work on the unit, on this reactor
};

/// What one nexus sees at one LUN.
struct NexusUnit {
  UnitUse* use = nullptr;  ///< null: nothing there
  PendingAttentions attentions;
  bool has_echo = false;  ///< wrote to the unit's echo buffer; another may have since
  /// Asked for a change of the unit's state, and never heard what became of it; or one of the same names before it did.
  bool may_hold = false;
};

/// What RECEIVE COPY STATUS tells about an EXTENDED COPY that is over.
struct CopyResult {
  std::uint8_t list_id = 0;
  const UnitUse* use = nullptr;
  bool failed = false;
  std::uint16_t segments = 0;  ///< processed
  std::uint64_t bytes = 0;
};

/// Kept at Nexus::device_state.
struct NexusState {
  scsi::Nexus* nexus = nullptr;
  scsi::NexusKey key;            ///< its names; the target port is that of the units
  std::vector<NexusUnit> units;  ///< by LUN, up to the highest that the nexus may see
  std::size_t in_flight = 0;     ///< commands
  static constexpr std::size_t kMaxCopies = 16;
  std::deque<CopyResult> copies;  ///< the last ones
  [[nodiscard]] NexusUnit* find(std::uint16_t lun) {
    return lun < units.size() && units[lun].use ? &units[lun] : nullptr;
  }
};

class TargetDevice final : public scsi::DeviceServer {
 public:
  /// Resets of a unit that one initiator has under way on a reactor; more fail. Its sessions may end and come again
  /// meanwhile.
  static constexpr std::size_t kMostResets = 32;
  /// Losses of nexuses that are under way to a unit from a reactor; more are due later.
  static constexpr std::size_t kMostLosses = 64;

  /// `buffers` and `clock` belong to the same reactor and outlive this.
  TargetDevice(engine::BufferPool& buffers, engine::Clock& clock);
  /// No nexus is open and no command in flight.
  ~TargetDevice() override;

  /// The map from now on. Nexuses whose view changed are told (REPORTED LUNS DATA HAS CHANGED); commands that are at
  /// work on a unit that is gone are finished, and what sanitizes it stops. `drained`: none of this reactor's commands
  /// uses a unit any more that an earlier map had and `map` has not; may be called from inside.
  void adopt(std::shared_ptr<const LunMap> map, engine::Callback<> drained);
  /// `done` runs when none of this reactor's commands uses a unit of the volume that earlier maps had and the present
  /// one has not, whatever becomes of other volumes' commands; may be called from inside.
  void when_unused(const engine::Uuid& volume, engine::Callback<> done);

  void on_nexus_opened(scsi::Nexus& nexus) override;
  void on_nexus_closed(scsi::Nexus& nexus) override;
  void execute(scsi::Command& command) override;
  [[nodiscard]] std::size_t data_bytes(const scsi::Command& command) const override;
  void abort(scsi::Command& command) override;
  [[nodiscard]] std::vector<std::uint64_t> units(const scsi::Nexus& nexus) const override;
  [[nodiscard]] std::optional<std::uint64_t> unit_at(const scsi::Nexus& nexus, std::uint64_t lun) const override;
  bool task_management(scsi::Nexus& nexus, scsi::TaskManagement function, std::uint64_t lun) override;
  void manage(scsi::Nexus& nexus, scsi::TaskManagement function, std::uint64_t lun,
              engine::Callback<scsi::Managed> done) override;

  [[nodiscard]] engine::BufferPool& buffers() { return buffers_; }
  [[nodiscard]] engine::Clock& clock() { return clock_; }
  /// Has the unit's disk carry out a step that no command waits for; `done` runs when it is in force, or failed.
  void send(UnitUse& use, const scsi::LuRequest& request, engine::Callback<> done);
  /// The same, for whoever keeps the units. False: it is in no map, nothing happens.
  [[nodiscard]] bool send(const LogicalUnit& unit, const scsi::LuRequest& request, engine::Callback<> done);
  /// What ended nexuses owe to the unit since the disk could not carry it out.
  void send_due_losses(UnitUse& use);
  /// Called by the task when it is over.
  void finished(UnitUse* use);

 private:
  struct Errand;
  struct Drain {
    std::uint64_t adoption = 0;
    std::optional<engine::Uuid> volume;  ///< nothing: of all that there were
    engine::Callback<> done;
  };
  static std::vector<NexusUnit> view_of(const LunMap& map, const scsi::Nexus& nexus,
                                        const std::vector<std::unique_ptr<UnitUse>>& uses);
  void refresh_view(NexusState& state);
  void lose(UnitUse& use, const scsi::NexusKey& nexus);
  void send_loss(UnitUse& use, const OwedLosses::Loss& loss);
  void reset(UnitUse& use, const scsi::LuRequest& request, engine::IoCallback done);
  void start_errand(UnitUse& use, const scsi::LuRequest& request, engine::IoCallback done);
  void stop_sanitizing_what_is_gone();
  void sweep();
  [[nodiscard]] bool is_over(const Drain& drain) const;

  engine::BufferPool& buffers_;
  engine::Clock& clock_;
  std::shared_ptr<const LunMap> map_;
  std::vector<std::unique_ptr<UnitUse>> uses_;     // in the order of the map's entries
  std::vector<std::unique_ptr<UnitUse>> retired_;  // until their last command is over
  std::deque<Drain> drains_;
  std::vector<std::unique_ptr<NexusState>> nexuses_;
  std::uint64_t adoptions_ = 0;
};

}  // namespace lockstep::iscsi_target
