#pragma once
// What the parts of one volume's mirror share: its stores, its locks, where it stands in its epoch, and its parts.
//
// Membership alone changes the phase, and checks each that follows against the durable record (phase.hpp). The other
// parts ask:
//  1. Nothing is started while gated, and nothing at all in a phase that serves nothing.
//  2. A local read is answered only alone, or in sync with a valid lease and reads_here().
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "replication/core/local_store.hpp"
#include "replication/core/marks.hpp"
#include "replication/core/operations.hpp"
#include "replication/core/outbound.hpp"
#include "replication/core/partner.hpp"
#include "replication/core/replica_state.hpp"
#include "replication/core/standing.hpp"
#include "replication/core/volume_status.hpp"

namespace lockstep::replication {

class Front;
class Sequencer;
class Applier;
class Forwarder;
class ForwardServer;
class Regions;
class Cleaner;
class Resync;
class Membership;
class Witnessing;
class LuStateKeeper;
class Space;
class Generations;

struct Core : StoreUser {
  Core(const NodeSettings& settings_in, NodeSeams& seams_in, Partner& partner_in, engine::DiskInfo info_in,
       engine::Store& data_in, std::unique_ptr<engine::MetadataArea> meta_in);
  ~Core() override;

  const NodeSettings& settings;
  NodeSeams& seams;
  Partner& partner;
  Standing standing;
  LocalStore store;
  Outbound outbound;
  Operations operations;
  std::function<void()> changed;  ///< tells the observer
  std::function<void()> fence;    ///< closes the initiators' sessions

  std::unique_ptr<Front> front;
  std::unique_ptr<Sequencer> sequencer;
  std::unique_ptr<Applier> applier;
  std::unique_ptr<Forwarder> forwarder;
  std::unique_ptr<ForwardServer> forwards;
  std::unique_ptr<Regions> regions;
  std::unique_ptr<Space> space;
  std::unique_ptr<Cleaner> cleaner;
  std::unique_ptr<Resync> resync;
  std::unique_ptr<Generations> generations;
  std::unique_ptr<Witnessing> witnessing;
  std::unique_ptr<LuStateKeeper> lu;
  std::unique_ptr<Membership> membership;

  /// From now on; when it is put off, what this store holds unflushed is made durable.
  void set_write_cache(bool on);
  /// Nothing of `which` is started any more: what waits ends now, what is being read, or was sent to the partner, when
  /// it comes back.
  void end_unstarted(const Selection& which);

 private:
  void on_store_failed() override;
  void on_metadata_failed(const std::string& why) override;
};

/// What the parts share, by the names that they use.
struct Shared {
  explicit Shared(Core& core)
      : settings_(core.settings),
        clock_(core.seams.clock),
        random_(core.seams.random),
        buffers_(core.seams.buffers),
        witness_(core.seams.witness),
        left_records_(core.seams.left_records),
        partner_(core.partner),
        standing_(core.standing),
        store_(core.store),
        outbound_(core.outbound),
        operations_(core.operations),
        changed_(core.changed),
        close_sessions_(core.fence) {}
  const NodeSettings& settings_;
  engine::Clock& clock_;
  engine::Random& random_;
  engine::BufferPool& buffers_;
  Witness* witness_;
  LeftRecords* left_records_;
  Partner& partner_;
  Standing& standing_;
  LocalStore& store_;
  Outbound& outbound_;
  Operations& operations_;
  const std::function<void()>& changed_;
  const std::function<void()>& close_sessions_;
};

}  // namespace lockstep::replication
