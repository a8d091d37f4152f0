#pragma once
// A thread for work on files whose disk may hang: whoever asks waits for a while, and then goes on without.
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

namespace lockstep::mgmt {

/// Thread-safe. One piece of work at a time, in the order in which it was asked for.
class FileThread {
 public:
  explicit FileThread(std::chrono::milliseconds patience = std::chrono::seconds(3));
  /// Leaves a thread behind whose disk hangs.
  ~FileThread();
  FileThread(const FileThread&) = delete;
  FileThread& operator=(const FileThread&) = delete;

  /// What `work` gives, or nothing when the disk has not answered within the patience; at once while it still owes an
  /// earlier answer. Work that was not begun by then never is. What was begun goes on, also after this object's end:
  /// `work` owns what it uses, and opens what it reads and writes: it has no descriptors of the process's.
  template <class Work>
  [[nodiscard]] auto ask(Work work) -> std::optional<std::invoke_result_t<Work>> {
    auto task = std::make_shared<std::packaged_task<std::invoke_result_t<Work>()>>(std::move(work));
    auto answer = task->get_future();
    if (!run([task] { (*task)(); })) return std::nullopt;
    return answer.get();
  }

 private:
  struct State;
  /// True when it was run to its end in time.
  [[nodiscard]] bool run(std::function<void()> work);

  const std::chrono::milliseconds patience_;
  const std::shared_ptr<State> state_;
};

}  // namespace lockstep::mgmt
