#include "mgmt/control/file_thread.hpp"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include <linux/close_range.h>
#include <unistd.h>

namespace lockstep::mgmt {
namespace {

struct FileWork {
  std::function<void()> work;
  bool done = false;
};

}  // namespace

struct FileThread::State {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::shared_ptr<FileWork>> queue;  ///< the first one is under way while `busy`
  bool busy = false;
  bool hangs = false;  ///< the one under way was given up
  bool stopping = false;
  bool ended = false;

  void serve() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [this] { return stopping || !queue.empty(); });
      if (stopping) break;
      busy = true;
      const auto task = queue.front();
      lock.unlock();
      task->work();
      lock.lock();
      task->done = true;
      busy = hangs = false;
      queue.pop_front();
      changed.notify_all();
    }
    ended = true;
    changed.notify_all();
  }
};

FileThread::FileThread(std::chrono::milliseconds patience) : patience_(patience), state_(std::make_shared<State>()) {
  std::thread([state = state_] {
    // Descriptors of its own: a disk that holds it in the kernel, also after the process's end, holds none of those
    // that the rest of the process has, as those that listen.
    (void)::close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_UNSHARE);
    state->serve();
  }).detach();
}

FileThread::~FileThread() {
  std::unique_lock lock(state_->mutex);
  state_->stopping = true;
  state_->changed.notify_all();
  state_->changed.wait_for(lock, state_->hangs ? std::chrono::milliseconds(0) : patience_,
                           [this] { return state_->ended; });
}

bool FileThread::run(std::function<void()> work) {
  const auto task = std::make_shared<FileWork>(FileWork{std::move(work)});
  std::unique_lock lock(state_->mutex);
  if (state_->hangs) return false;
  state_->queue.push_back(task);
  state_->changed.notify_all();
  if (state_->changed.wait_for(lock, patience_, [&] { return task->done; })) return true;
  auto& queue = state_->queue;
  const bool is_under_way = state_->busy && queue.front() == task;
  if (is_under_way)
    state_->hangs = true;
  else
    std::erase(queue, task);
  return false;
}

}  // namespace lockstep::mgmt
