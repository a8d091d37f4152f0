#pragma once
// The witness as the mirror holds it: etcd, at addresses that may change while the mirror runs, or none at all.
#include <memory>
#include <optional>
#include <string>

#include "engine/runtime/reactor.hpp"
#include "mgmt/data_plane/shared_witness.hpp"
#include "replication/arbiter/etcd_witness.hpp"

namespace lockstep::data_plane {

class WitnessSlot final : public SharedWitness {
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
  [[nodiscard]] std::uint64_t uses() const override { return uses_; }
  [[nodiscard]] const std::string& addresses() const { return addresses_; }
  /// Asks every few seconds; `reachable(is it, why not)` runs when the answer is another one, also when a witness
  /// that was away is there again and refuses this node. `slow(is it)` when its line has become so, or is no more;
  /// `open(is it)` when it has come to answer everybody though this node has a user for it, or does no more.
  void watch(engine::Callback<bool, const std::string&> reachable, engine::Callback<bool> slow,
             engine::Callback<bool> open);
  [[nodiscard]] bool reachable() const { return reachable_; }
  /// It was asked, and did not answer, or refused.
  [[nodiscard]] bool lost() const { return told_ && !reachable_; }
  /// What is known of its line, where that is slow.
  [[nodiscard]] std::optional<replication::LineEstimate> slow_line() const;
  /// Its authentication is off, though this node has a user for it.
  [[nodiscard]] bool takes_everybody() const { return etcd_ && reachable_ && open_; }

  void read(const engine::Uuid& volume, engine::Callback<engine::IoResult<replication::WitnessView>> done) override;
  void swap(const engine::Uuid& volume, const replication::WitnessView& seen, const replication::WitnessRecord& record,
            engine::Callback<engine::IoResult<replication::SwapOutcome>> done) override;
  void remove(const engine::Uuid& volume, engine::Callback<std::error_code> done) override;

 private:
  /// A connection that ends is noticed at once, and whatever else is answered is as good as a probe.
  static constexpr engine::Duration kProbeEvery = std::chrono::seconds(5);
  static constexpr engine::Duration kProbeAgain = std::chrono::seconds(2);  ///< one that does not answer
  /// Of one of which nothing is known: a connection, TLS, a token and the answer over a slow line that loses packets.
  static constexpr engine::Duration kFirstProbe = std::chrono::seconds(45);
  static constexpr engine::Duration kProbeSoon = std::chrono::milliseconds(200);
  /// Whether it would take a write, as a failover is one: etcd may answer, and be full. And whether it would answer
  /// somebody without a password: etcd that has lost its data takes everybody, also who has a token of before.
  static constexpr engine::Duration kTryWriteEvery = std::chrono::minutes(2);
  void probe();
  void on_probed(const replication::EtcdProbe& found);
  [[nodiscard]] bool is_to_try_write() const;
  void probe_after(engine::Duration delay);
  void probe_if_silent();
  void on_connection_ended();
  void note_line();
  void ask_as_nobody();
  void on_asked_as_nobody(bool answers);

  engine::Reactor& reactor_;
  std::shared_ptr<replication::EtcdWitness> etcd_;
  std::uint64_t uses_ = 0;
  std::string addresses_;
  replication::WitnessSeal seal_{};
  replication::WitnessAccess access_;
  engine::Callback<bool, const std::string&> changed_;
  engine::Callback<bool> slow_changed_;
  engine::Callback<bool> open_changed_;
  engine::TimerId timer_ = engine::TimerId::none;
  bool probing_ = false;
  bool slow_ = false;  ///< as it was told
  bool open_ = false;  ///< the same
  bool reachable_ = false;
  engine::TimePoint tried_write_;
  bool tries_write_ = false;  ///< with the probe that is under way
  bool told_ = false;         ///< whether `reachable_` was ever found out
  std::string refusal_;       ///< why it refuses this node, if it does
};

}  // namespace lockstep::data_plane
