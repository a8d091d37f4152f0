#pragma once
// The volume as initiators see it: requests are checked, cut into pieces and sent the way that the role asks for.
//
// Callers: the mirror, for requests; the parts below, through their users, for what goes its way anew; membership, when
// the gate opens or something is given up.
#include "replication/core/completions.hpp"
#include "replication/core/forwarder.hpp"
#include "replication/core/local_store.hpp"
#include "replication/core/lu_state_keeper.hpp"
#include "replication/core/sequencer.hpp"
#include "replication/core/standing.hpp"

namespace lockstep::replication {

class Front {
 public:
  /// A COMPARE AND WRITE is one message each way, so that it stays one operation: 512 KiB compared, 512 KiB written.
  static constexpr std::uint64_t kMaxCompareAndWrite = kMaxPiece / 2;

  Front(const NodeSettings& settings, Partner& partner, const Standing& standing, const LocalStore& store,
        Operations& operations, Completions& completions, LuStateKeeper& lu, Sequencer& sequencer, Forwarder& forwarder)
      : settings_(settings),
        partner_(partner),
        standing_(standing),
        store_(store),
        operations_(operations),
        completions_(completions),
        lu_(lu),
        sequencer_(sequencer),
        forwarder_(forwarder) {}

  void submit(engine::DiskRequest& request);
  void cancel(engine::DiskRequest& request);
  /// Starts `op` the way that the present role asks for, holds it, or refuses it.
  void route(Op& op);
  /// What was held goes its way; the gate is open.
  void release_held();
  /// Of `which`, what was held and never started ends with not_serving.
  void drop_held(const Selection& which);
  /// Nothing of `which` is started any more: what waits ends now, what is being read, or was sent to the partner, when
  /// it comes back.
  void end_unstarted(const Selection& which);
  std::uint64_t reads = 0, writes = 0;

 private:
  void start_here(Op& op);
  [[nodiscard]] bool says_the_size() const;
  [[nodiscard]] std::error_code check(const engine::DiskRequest& request) const;
  [[nodiscard]] bool is_too_old(const engine::DiskRequest& request, const Receipt& receipt) const;
  Op& piece(Parent& parent, std::uint64_t offset, std::uint64_t length);

  const NodeSettings& settings_;
  Partner& partner_;
  const Standing& standing_;
  const LocalStore& store_;
  Operations& operations_;
  Completions& completions_;
  LuStateKeeper& lu_;
  Sequencer& sequencer_;
  Forwarder& forwarder_;
};

}  // namespace lockstep::replication
