#pragma once
// The partner's forwards at the node that orders. A forward that comes again is answered from its entry and not carried
// out again (forward_entries.hpp).
//
// Callers: the mirror, for requests of the partner's.
#include "replication/core/forward_entries.hpp"
#include "replication/core/front.hpp"
#include "replication/core/local_store.hpp"
#include "replication/core/lu_state_keeper.hpp"
#include "replication/core/standing.hpp"

namespace lockstep::replication {

class ForwardServer {
 public:
  ForwardServer(engine::BufferPool& buffers, Partner& partner, const Standing& standing, const LocalStore& store,
                Operations& operations, ForwardEntries& entries, LuStateKeeper& lu, Front& front)
      : buffers_(buffers),
        partner_(partner),
        standing_(standing),
        store_(store),
        operations_(operations),
        entries_(entries),
        lu_(lu),
        front_(front) {}

  void take(InboundRequest& request, const Message& message);
  /// The partner gave this forward up. Answered unknown_outcome when it is under way none the less.
  void take_cancel(InboundRequest& request, const Message& message);

 private:
  void begin(InboundRequest& request, const Message& message);
  void refuse_tag(InboundRequest& request, const Message& message);
  [[nodiscard]] bool is_well_formed(const InboundRequest& request, const Message& message) const;

  engine::BufferPool& buffers_;
  Partner& partner_;
  const Standing& standing_;
  const LocalStore& store_;
  Operations& operations_;
  ForwardEntries& entries_;
  LuStateKeeper& lu_;
  Front& front_;
};

}  // namespace lockstep::replication
