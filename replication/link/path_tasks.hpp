#pragma once
// What PathsLink keeps of each Link::send(), and what goes by several paths of it.
#include <array>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "engine/runtime/buffer_pool.hpp"
#include "engine/seams/clock.hpp"
#include "replication/core/link.hpp"
#include "replication/link/channel/channel_sender.hpp"
#include "replication/link/channel/window_bytes.hpp"

namespace lockstep::replication {

/// One Link::send() from the call to its callback, and beyond it while copies of it are out.
struct PathTask {
  struct Copy {  ///< what a path has of it
    PathTask* task = nullptr;
    PathSlot path{};
    bool out = false;
  };
  FrameKind kind{};
  RequestNumber number;
  std::array<std::byte, kMaxNumberedHeader> header;
  std::size_t header_size = 0;
  std::span<const std::byte> payload_out;
  std::span<std::byte> payload_in;
  std::vector<std::byte> own_out, own_in;  ///< of one that goes by every path: its sender's are not for so many
  engine::Callback<engine::IoResult<LinkAnswer>> done;
  std::array<Copy, kMaxPaths> copies;
  unsigned copies_out = 0;
  bool ended = false;            ///< called back
  unsigned losses = 0;           ///< paths that it was lost with, of a numbered one;
  engine::TimePoint lost_since;  ///< … if there are any, the first
  engine::Errc failure{};

  [[nodiscard]] std::size_t bytes() const { return payload_out.size() + payload_in.size(); }
  [[nodiscard]] RequestBytes in_window() const {
    return {payload_out.empty() ? 0 : engine::BufferPool::block_size(payload_out.size()), payload_in.size()};
  }
};

/// Numbered requests, or heartbeats.
struct PathTaskStream {
  PathTaskStream(FrameKind k, std::size_t window, Copies copies) : kind(k), sender(window, copies) {}
  FrameKind kind;
  ChannelSender sender;
  std::vector<PathTask*> tasks;  ///< with a number, unanswered
  std::deque<PathTask*> waiting;
};

/// Owns all of them, for as long as the link lives.
class PathTaskPool {
 public:
  explicit PathTaskPool(std::size_t reserved) { tasks_.reserve(reserved); }

  [[nodiscard]] PathTask& take() {
    if (free_.empty()) return *tasks_.emplace_back(std::make_unique<PathTask>());
    PathTask& task = *free_.back();
    free_.pop_back();
    return task;
  }
  /// Called back, and no path has a copy of it.
  void give_back(PathTask& task) { free_.push_back(&task); }
  [[nodiscard]] std::size_t in_use() const { return tasks_.size() - free_.size(); }
  /// None is called back any more.
  void forget_all() {
    for (const auto& task : tasks_) task->done = nullptr;
  }

 private:
  std::vector<std::unique_ptr<PathTask>> tasks_;
  std::vector<PathTask*> free_;
};

}  // namespace lockstep::replication
