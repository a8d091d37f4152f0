#include "engine/rdma/real/graveyard.hpp"

#include <cassert>
#include <iterator>
#include <utility>

#include "engine/rdma/real/control.hpp"

namespace lockstep::rdma {
namespace {

void destroy(rdma_cm_id* id) {
  if (id->qp != nullptr) rdma_destroy_qp(id);
  rdma_destroy_id(id);
}

}  // namespace

Graveyard::~Graveyard() { assert(graves_.empty()); }

void Graveyard::bury(rdma_cm_id* id, engine::Callback<> buried) {
  // To an event channel of its own, which nobody reads: no two threads have to do with one id.
  if (rdma_migrate_id(id, nullptr) == 0) {
    Grave& grave = graves_.emplace_back();
    grave.id = id;
    grave.buried = std::move(buried);
    grave.owner = this;
    grave.run = [](engine::HelperThread::Task& task) {
      destroy(static_cast<Grave&>(task).id);
      static_cast<Graveyard*>(task.owner)->dug();
    };
    if (thread_.submit(grave)) return;
    buried = std::move(grave.buried);
    graves_.pop_back();
  }
  destroy(id);
  buried();
}

void Graveyard::dug() {
  // Posted before wait() can end, after which the control thread may be no more.
  const std::lock_guard lock(mutex_);
  ++dug_;
  control_.reactor().post(engine::Callback<>([this] { tell_of_buried(); }));
  one_more_.notify_one();
}

void Graveyard::wait() {
  {
    std::unique_lock lock(mutex_);
    one_more_.wait(lock, [this] { return dug_ == graves_.size(); });
  }
  tell_of_buried();
}

void Graveyard::tell_of_buried() {
  std::list<Grave> done;
  {
    const std::lock_guard lock(mutex_);
    done.splice(done.end(), graves_, graves_.begin(),
                std::next(graves_.begin(), static_cast<std::ptrdiff_t>(std::exchange(dug_, 0))));
  }
  for (Grave& grave : done) grave.buried();
}

}  // namespace lockstep::rdma
