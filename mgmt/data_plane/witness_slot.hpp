#pragma once
// The witness as the mirror holds it: etcd, at addresses that may change while the mirror runs, or none at all.
#include <memory>
#include <string>

#include "engine/runtime/reactor.hpp"
#include "replication/arbiter/etcd_witness.hpp"

namespace lockstep::data_plane {

class WitnessSlot final : public replication::Witness {
 public:
  explicit WitnessSlot(engine::Reactor& reactor) : reactor_(reactor) {}
  ~WitnessSlot() override;

  /// `addresses` are etcd's endpoints, comma separated; empty: no witness, each request ends with an error. What was
  /// outstanding with the old one ends with unknown_outcome. Gives whether anything differs from before. Errc::refused:
  /// other addresses, in the place of some that were not let go of before, which is a management's that was set back.
  [[nodiscard]] engine::Result<bool> use(const engine::Uuid& pair, engine::NodeSide side,
                                         const replication::WitnessSeal& seal, const std::string& addresses,
                                         const replication::WitnessAccess& access);
  [[nodiscard]] bool configured() const { return etcd_ != nullptr; }
  [[nodiscard]] const std::string& addresses() const { return addresses_; }
  /// Asks every few seconds; `changed(reachable, why not)` runs when the answer is another one, also when a witness
  /// that was away is there again and refuses this node.
  void watch(engine::Callback<bool, const std::string&> changed);
  [[nodiscard]] bool reachable() const { return reachable_; }

  void read(const engine::Uuid& volume, engine::Callback<engine::IoResult<replication::WitnessView>> done) override;
  void swap(const engine::Uuid& volume, const replication::WitnessView& seen, const replication::WitnessRecord& record,
            engine::Callback<engine::IoResult<replication::SwapOutcome>> done) override;
  void remove(const engine::Uuid& volume, engine::Callback<std::error_code> done) override;

 private:
  static constexpr engine::Duration kProbeEvery = std::chrono::seconds(2);
  void probe();
  void probe_later();

  engine::Reactor& reactor_;
  std::shared_ptr<replication::EtcdWitness> etcd_;
  std::string addresses_;
  replication::WitnessSeal seal_{};
  replication::WitnessAccess access_;
  engine::Callback<bool, const std::string&> changed_;
  engine::TimerId timer_ = engine::TimerId::none;
  bool reachable_ = false;
  bool told_ = false;    ///< whether `reachable_` was ever found out
  std::string refusal_;  ///< why it refuses this node, if it does
};

}  // namespace lockstep::data_plane
