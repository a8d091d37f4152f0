#pragma once
// Where the ids and queue pairs of connections that are over are destroyed: a thread of its own. The kernel may wait in
// there, as for packets that an interface holds on to while it is down (Soft-RoCE waits 0.8 s for those of a queue
// pair), and the control thread has other connections to end meanwhile.
#include <condition_variable>
#include <cstddef>
#include <list>
#include <mutex>

#include <rdma/rdma_cma.h>

#include "engine/base/result.hpp"
#include "engine/runtime/helper_thread.hpp"

namespace lockstep::rdma {

class Control;

/// On the control thread, but for its own.
class Graveyard {
 public:
  explicit Graveyard(Control& control) : control_(control) {}
  /// After wait().
  ~Graveyard();
  Graveyard(const Graveyard&) = delete;
  Graveyard& operator=(const Graveyard&) = delete;

  /// Destroys the id, and its queue pair where it has one. Nothing is told to the id's user any more, and then `buried`
  /// runs, perhaps in here.
  void bury(rdma_cm_id* id, engine::Callback<> buried);
  /// Until there is nothing left to destroy, and all was called back.
  void wait();

 private:
  struct Grave : engine::HelperThread::Task {
    rdma_cm_id* id = nullptr;
    engine::Callback<> buried;
  };
  void dug();  ///< on its thread
  void tell_of_buried();

  Control& control_;
  std::list<Grave> graves_;
  std::mutex mutex_;
  std::condition_variable one_more_;
  std::size_t dug_ = 0;  ///< of the first graves: in their order
  engine::HelperThread thread_;
};

}  // namespace lockstep::rdma
