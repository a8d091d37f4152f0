#pragma once
// Where a thread takes work from others: its reactor in production, a queue that is emptied late under the simulator.
#include "engine/base/result.hpp"

namespace lockstep::engine {

class Executor {
 public:
  virtual ~Executor() = default;
  /// Any thread: runs `work` once on this one's, never from inside this call, in the order in which one thread posted;
  /// and what was posted before something else is posted that knows of it, ahead of that. Dropped when the thread ends.
  virtual void post(Callback<> work) = 0;
};

}  // namespace lockstep::engine
