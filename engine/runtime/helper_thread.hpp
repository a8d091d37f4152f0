#pragma once
// A thread for the few system calls that may block and that io_uring does not know. Nothing of the data path waits for
// it.
#include <condition_variable>
#include <mutex>
#include <thread>

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
  ~HelperThread();  ///< nothing queued or at work
  HelperThread(const HelperThread&) = delete;
  HelperThread& operator=(const HelperThread&) = delete;

  /// Runs the tasks one after the other, in order. One caller's thread at a time; the first call starts the thread.
  void submit(Task& task);

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable some_;
  Task* first_ = nullptr;
  Task* last_ = nullptr;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace lockstep::engine
