#pragma once
// One volume of a pair: its parts, wired. Each part holds what it needs of those below; what it tells upwards arrives
// here and goes on to the part that it concerns. docs/developer/mirror.md lists them.
#include <functional>
#include <memory>

#include "replication/core/applier.hpp"
#include "replication/core/cleaner.hpp"
#include "replication/core/completions.hpp"
#include "replication/core/forward_entries.hpp"
#include "replication/core/forward_server.hpp"
#include "replication/core/forwarder.hpp"
#include "replication/core/front.hpp"
#include "replication/core/generations.hpp"
#include "replication/core/local_store.hpp"
#include "replication/core/lu_state_in_force.hpp"
#include "replication/core/lu_state_keeper.hpp"
#include "replication/core/membership.hpp"
#include "replication/core/operations.hpp"
#include "replication/core/outbound.hpp"
#include "replication/core/read_repair.hpp"
#include "replication/core/regions.hpp"
#include "replication/core/resync.hpp"
#include "replication/core/sequencer.hpp"
#include "replication/core/space.hpp"
#include "replication/core/standing.hpp"
#include "replication/core/witnessing.hpp"
#include "replication/core/write_cache_switch.hpp"

namespace lockstep::replication {

/// What a mirror asks of its node.
struct MirrorNotices {
  std::function<void()> changed;         ///< tells the observer
  std::function<void()> close_sessions;  ///< of all initiators of this node
};

class Mirror final : public engine::Disk,
                     StoreUser,
                     ForwarderUser,
                     ResyncUser,
                     SequencerUser,
                     ApplierUser,
                     GenerationsUser,
                     WitnessingUser,
                     LuStateUser {
 public:
  Mirror(const NodeSettings& settings, NodeSeams& seams, Partner& partner, engine::DiskInfo info, engine::Store& data,
         std::unique_ptr<engine::MetadataArea> meta, MirrorNotices notices);
  ~Mirror() override;

  [[nodiscard]] const engine::DiskInfo& info() const override { return store_.info; }
  [[nodiscard]] engine::AccessState access_state() const override;
  void submit(engine::DiskRequest& request) override;
  void cancel(engine::DiskRequest& request) override;
  void set_state_listener(std::shared_ptr<scsi::LuStateListener> listener) override;

  [[nodiscard]] Membership& membership() { return membership_; }
  [[nodiscard]] Forwarder& forwarder() { return forwarder_; }
  [[nodiscard]] Completions& completions() { return completions_; }
  [[nodiscard]] const Standing& standing() const { return standing_; }
  [[nodiscard]] const LocalStore& store() const { return store_; }
  void look_at_witness_again() { witnessing_.look_again(); }
  [[nodiscard]] VolumeStatus status() const;
  void take(std::uint64_t session, InboundRequest& request, const Message& message);
  void set_write_cache(bool on, engine::Callback<> told) { write_cache_.set(on, std::move(told)); }
  void tick() {
    membership_.tick();
    write_cache_.tick();
  }

 private:
  void on_store_failed() override { membership_.on_store_failed(); }
  void on_metadata_failed(const std::string& why) override { membership_.fail_metadata(why); }
  void route(Op& op) override { front_.route(op); }
  void forward(Op& op) override { forwarder_.start(op); }
  void on_none_given_up() override { applier_.release_answers(); }
  void on_dropped_ended() override { lu_.pump(); }
  void on_both_have(std::uint64_t tag) override { applier_.show(tag); }
  void on_read_elsewhere(engine::Extent extent, std::span<const std::byte> bytes) override {
    read_repair_.start(extent, bytes);
  }
  void on_equal(Op& op) override { sequencer_.lock(op); }
  void on_target_equal() override { membership_.join(); }
  void on_partner_refused() override { membership_.on_partner_refused(); }
  void lose_lease() override { membership_.lose_lease(); }
  void on_stores_equal() override { membership_.on_equal(); }
  void on_number_used_twice(const engine::Uuid& process) override { partner_.found_partner_set_back(process); }
  void on_memory_set_back() override {
    partner_.found_set_back("The partner knows of a later generation of volume " + info().name +
                            " than this process has reached: this machine was set back to a snapshot with its memory.");
  }
  void on_mended() override { membership_.look_again(); }
  [[nodiscard]] bool witness_holds_this_epoch() const override { return witnessing_.raised(); }
  [[nodiscard]] ReplicaState state() const override { return membership_.state(); }
  [[nodiscard]] bool agreed() const override { return membership_.agreed(); }
  void tell_partner() override { membership_.look_again(); }
  void end_unstarted(const Selection& which) override { front_.end_unstarted(which); }

  const MirrorNotices notices_;
  Partner& partner_;
  Standing standing_;
  LocalStore store_;
  Outbound outbound_;
  Operations operations_;
  LuStateInForce in_force_;
  ForwardEntries forward_entries_;
  Completions completions_;
  Regions regions_;
  Space space_;
  Forwarder forwarder_;
  Resync resync_;
  Sequencer sequencer_;
  Applier applier_;
  Generations generations_;
  Cleaner cleaner_;
  WitnessAgreement witness_agreement_;
  Witnessing witnessing_;
  LuStateKeeper lu_;
  Front front_;
  ForwardServer forward_server_;
  ReadRepair read_repair_;
  Membership membership_;
  WriteCacheSwitch write_cache_;
};

}  // namespace lockstep::replication
