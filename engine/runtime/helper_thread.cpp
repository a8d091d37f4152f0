#include "engine/runtime/helper_thread.hpp"

#include <cassert>

#include <pthread.h>

namespace lockstep::engine {

HelperThread::~HelperThread() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    assert(first_ == nullptr);
    stop_ = true;
  }
  some_.notify_one();
  thread_.join();
}

void HelperThread::submit(Task& task) {
  if (!thread_.joinable()) {
    thread_ = std::thread([this] { work(); });
    ::pthread_setname_np(thread_.native_handle(), "helper");
  }
  task.next = nullptr;
  {
    const std::lock_guard lock(mutex_);
    (last_ != nullptr ? last_->next : first_) = &task;
    last_ = &task;
  }
  some_.notify_one();
}

void HelperThread::work() {
  for (;;) {
    Task* task = nullptr;
    {
      std::unique_lock lock(mutex_);
      some_.wait(lock, [this] { return stop_ || first_ != nullptr; });
      if (first_ == nullptr) return;
      task = first_;
      first_ = task->next;
      if (first_ == nullptr) last_ = nullptr;
    }
    task->run(*task);
  }
}

}  // namespace lockstep::engine
