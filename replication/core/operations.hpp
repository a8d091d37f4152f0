#pragma once
// The operations that a mirror holds: the pool that they come from, and those that are at work on this node's store, in
// the order in which they came. Each part keeps its own list of those that wait with it.
#include "replication/core/op.hpp"

namespace lockstep::replication {

struct Operations {
  Pool<Op> pool;
  List<Op> at_work;  ///< the sequencer's
};

}  // namespace lockstep::replication
