#pragma once
// Tasks from many threads to one, without locks or allocation: posters push onto a stack, the owner takes it whole and
// turns it round.
#include <atomic>

#include "engine/runtime/reactor.hpp"

namespace lockstep::engine {

class TaskQueue {
 public:
  /// Any thread.
  void push(ReactorTask& task) {
    ReactorTask* head = head_.load(std::memory_order_relaxed);
    do {
      task.next = head;
    } while (!head_.compare_exchange_weak(head, &task, std::memory_order_seq_cst, std::memory_order_relaxed));
  }
  [[nodiscard]] bool empty() const { return head_.load(std::memory_order_seq_cst) == nullptr; }
  /// The owner: everything pushed so far, linked by `next` in the order in which it came.
  [[nodiscard]] ReactorTask* take_all() {
    ReactorTask* newest = head_.exchange(nullptr, std::memory_order_acquire);
    ReactorTask* oldest = nullptr;
    while (newest != nullptr) {
      ReactorTask* next = newest->next;
      newest->next = oldest;
      oldest = newest;
      newest = next;
    }
    return oldest;
  }

 private:
  std::atomic<ReactorTask*> head_{nullptr};
};

}  // namespace lockstep::engine
