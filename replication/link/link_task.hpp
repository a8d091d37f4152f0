#pragma once
// One Link::send() from the call to its callback. Kept in a pool that grows to the most that was ever under way, so
// that sending allocates nothing.
#include <array>
#include <cstdint>
#include <span>
#include <system_error>

#include "engine/iser/format.hpp"
#include "engine/runtime/buffer_pool.hpp"
#include "replication/core/link.hpp"
#include "replication/link/link_format.hpp"

namespace lockstep::replication {

struct LinkTask {
  LinkOpcode opcode = LinkOpcode::request;
  std::array<std::byte, kMaxLinkHeader> header;
  std::size_t header_size = 0;
  std::span<const std::byte> payload_out;
  std::span<std::byte> payload_in;
  bool goes_ahead = false;  ///< of everything that waits, on either side
  engine::Callback<engine::IoResult<LinkAnswer>> done;

  // The session's, while the task is on it.
  std::uint32_t tag = 0;
  std::uint32_t received = 0;  ///< bytes of the answer
  std::uint32_t unsent = 0;    ///< PDUs that may still be read from payload_out
  bool answered = false;
  bool is_behind = false;  ///< it is answered, and may still be read from
  AnswerPrefix prefix;     ///< the answer's header is at kAnswerFixed when that has come
  AnswerStart answer;
  std::uint32_t seal = 0;  ///< of the request, over RDMA
  // Over RDMA: by how many windows the partner is let at its memory, and the copies that these may be of.
  unsigned windows = 0;
  engine::Buffer copy_out, copy_in;
  iser::PayloadSeal seal_in;  ///< of what the partner has written, where that is encrypted

  engine::Errc failure{};  ///< what to call back with, when it never got as far as a session

  LinkTask* next = nullptr;  ///< of whoever holds it
};

/// First in, first out, through LinkTask::next.
class LinkTaskList {
 public:
  [[nodiscard]] bool empty() const { return first_ == nullptr; }
  [[nodiscard]] LinkTask* front() const { return first_; }
  [[nodiscard]] std::size_t size() const { return size_; }
  void push(LinkTask& task) {
    task.next = nullptr;
    (last_ ? last_->next : first_) = &task;
    last_ = &task;
    ++size_;
  }
  LinkTask* pop() {
    LinkTask* task = first_;
    if (!task) return nullptr;
    first_ = task->next;
    if (!first_) last_ = nullptr;
    --size_;
    return task;
  }

 private:
  LinkTask* first_ = nullptr;
  LinkTask* last_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace lockstep::replication
