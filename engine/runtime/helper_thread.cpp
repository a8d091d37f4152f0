#include "engine/runtime/helper_thread.hpp"

#include <cassert>
#include <cstddef>

namespace lockstep::engine {
namespace {
constexpr std::size_t kStack = std::size_t{256} << 10;  // bytes: its calls need little, and there are many of it
}

HelperThread::~HelperThread() {
  if (!started_) return;
  {
    const std::lock_guard lock(mutex_);
    assert(first_ == nullptr);
    stop_ = true;
  }
  some_.notify_one();
  ::pthread_join(thread_, nullptr);
}

bool HelperThread::start() {
  pthread_attr_t attributes;
  if (::pthread_attr_init(&attributes) != 0) return false;
  ::pthread_attr_setstacksize(&attributes, kStack);
  const auto run = [](void* self) -> void* {
    static_cast<HelperThread*>(self)->work();
    return nullptr;
  };
  started_ = ::pthread_create(&thread_, &attributes, run, this) == 0;
  ::pthread_attr_destroy(&attributes);
  if (started_) ::pthread_setname_np(thread_, "helper");
  return started_;
}

bool HelperThread::submit(Task& task) {
  if (!started_ && !start()) return false;
  task.next = nullptr;
  {
    const std::lock_guard lock(mutex_);
    (last_ != nullptr ? last_->next : first_) = &task;
    last_ = &task;
  }
  some_.notify_one();
  return true;
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
