#pragma once
// Asks the pair's arbiter whether this node may change the configuration without its partner, and keeps the witness's
// record of the configuration right while both are of one mind. Decisions: configuration_epoch.hpp. Thread-safe.
#include <chrono>
#include <functional>
#include <mutex>
#include <optional>

#include "mgmt/control/configuration_epoch.hpp"
#include "mgmt/control/event_log.hpp"
#include "mgmt/control/revisions.hpp"

namespace lockstep::mgmt {

/// The node as ConfigurationWitness sees it.
class WitnessSurroundings {
 public:
  virtual ~WitnessSurroundings() = default;
  [[nodiscard]] virtual std::optional<engine::NodeSide> side() = 0;
  /// What is known in that pair; nothing is known of another one. It throws if it can't be kept.
  [[nodiscard]] virtual ConfigurationKnowledge known(const engine::Uuid& pair) = 0;
  virtual void keep(const engine::Uuid& pair, const ConfigurationKnowledge& known) = 0;  ///< durable when it returns

  /// The pair's own record, at this witness and no other. A refusal says why it can't be asked.
  [[nodiscard]] virtual Outcome<replication::WitnessView> read(const Arbiter& witness) = 0;
  struct Swapped {
    bool known = false;  ///< the witness answered
    bool won = false;
    replication::WitnessView view{};
  };
  /// Writes `record` if what stands there is still what was `seen`.
  [[nodiscard]] virtual Swapped swap(const Arbiter& witness, const replication::WitnessView& seen,
                                     const replication::WitnessRecord& record) = 0;

  [[nodiscard]] virtual std::chrono::steady_clock::time_point now() = 0;
  virtual void tell(const std::string& kind, Severity severity, const std::string& message) = 0;  ///< an event
  /// Work that this node began alone, and that needs more changes, is not at its end: it decides alone until then.
  [[nodiscard]] virtual bool is_at_work_alone() { return false; }
};

class ConfigurationWitness final : public ConfigurationArbiter {
 public:
  static constexpr auto kLookEvery = std::chrono::seconds(20);
  static constexpr auto kLookAgain = std::chrono::seconds(5);  ///< where the witness could not be put right

  /// Both outlive this.
  ConfigurationWitness(Revisions& revisions, WitnessSurroundings& node) : revisions_(revisions), node_(node) {}

  Outcome<ConfigurationEpoch> claim(const ConfigurationEpoch& mine, const RevisionId& newest,
                                    const Configuration& configuration) override;
  int partner_reads() override;
  /// To be called when the two nodes have just compared notes, and found that they agree.
  void on_agreement(RevisionPeer& peer);

 private:
  Outcome<ConfigurationEpoch> claim_at_witness(engine::NodeSide me, const ConfigurationEpoch& mine,
                                               const RevisionId& newest, const Pair& pair);
  Outcome<ConfigurationEpoch> claim_by_preference(engine::NodeSide me, const ConfigurationEpoch& mine,
                                                  const RevisionId& newest, const Pair& pair);
  ConfigurationEpoch go_on_forced(engine::NodeSide me, const ConfigurationEpoch& mine, const RevisionId& newest);
  void tell_if_lost(const replication::WitnessRecord& there, std::int64_t n, std::int64_t about_to);
  void join(const RevisionState& state, RevisionPeer& peer);
  [[nodiscard]] bool is_time_to_look(const RevisionState& state) const;
  [[nodiscard]] std::optional<Mend> look(engine::NodeSide me, const RevisionState& state, const Pair& pair);

  Revisions& revisions_;
  WitnessSurroundings& node_;
  std::mutex mutex_;      ///< guards what follows and what is known; held while the witness is asked
  bool agreed_ = false;   ///< with the partner, in an epoch of both, since this process started
  engine::Uuid begun_;    ///< the last epoch of this node alone that this process began
  RevisionId looked_at_;  ///< the revision that the witness was last seen to have
  bool look_failed_ = false;
  std::chrono::steady_clock::time_point look_after_{};  ///< not before, unless there is a newer revision
};

}  // namespace lockstep::mgmt
