#pragma once
// A thread for the few system calls that may block and that io_uring does not know. Writes wait for what it answers,
// and a disk that hangs holds it up for as long as it hangs: each store has one of its own (engine/stores), so that a
// disk holds up nobody else.
#include <condition_variable>
#include <mutex>

#include <pthread.h>

namespace lockstep::engine {

class HelperThread {
 public:
  /// Embedded in whoever asks, and bounded by their number.
  struct Task {
    void (*run)(Task&) = nullptr;  ///< on the helper's thread; the task may be gone afterwards
    void* owner = nullptr;
    Task* next = nullptr;  ///< the helper's
  };

  HelperThread() = default;
  /// Nothing is queued or at work: it waits for the thread's end, which a call that hangs would put off.
  ~HelperThread();
  HelperThread(const HelperThread&) = delete;
  HelperThread& operator=(const HelperThread&) = delete;

  /// Runs the tasks one after the other, in order. One caller's thread at a time; the first call starts the thread.
  /// False, and the task is not run: the system gives no thread now.
  [[nodiscard]] bool submit(Task& task);

 private:
  [[nodiscard]] bool start();
  void work();

  std::mutex mutex_;
  std::condition_variable some_;
  Task* first_ = nullptr;
  Task* last_ = nullptr;
  bool stop_ = false;
  bool started_ = false;
  pthread_t thread_{};
};

}  // namespace lockstep::engine
