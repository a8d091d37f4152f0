#pragma once
// The completion queues of one reactor: polled once a turn, armed when it is about to sleep.
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <infiniband/verbs.h>

#include "engine/rdma/real/flow.hpp"
#include "engine/rdma/verbs.hpp"
#include "engine/runtime/reactor.hpp"

namespace lockstep::rdma {

class CompletionsCore;
class RealFabric;
class RealQueuePair;

/// The completion queues of one reactor on one device. A queue holds what all its queue pairs may complete at once;
/// where there is no room another is made, twice as long. Made and destroyed on the control thread, polled on the
/// reactor, which it is lent to.
class QueueGroup {
 public:
  QueueGroup(ibv_context* context, int max_entries) : context_(context), max_entries_(max_entries) {}
  ~QueueGroup();
  QueueGroup(const QueueGroup&) = delete;
  QueueGroup& operator=(const QueueGroup&) = delete;

  struct Place {
    ibv_cq* queue = nullptr;
    bool is_new = false;  ///< the reactor does not know it yet
  };
  // On the control thread.
  [[nodiscard]] std::error_code open();
  [[nodiscard]] engine::IoResult<Place> reserve(std::uint32_t entries);
  /// It tells nothing any more: no other connection gets it.
  void failed(const ibv_cq* queue);
  void give_back(ibv_cq* queue, std::uint32_t entries);
  /// The reactor has let go of it.
  void close();

  // On the reactor.
  void watch(engine::Reactor& reactor, CompletionsCore& core);
  void unwatch();

  std::weak_ptr<CompletionsCore> core;

 private:
  static constexpr std::uint32_t kFirst = 8192;
  /// Beside what is reserved: for what a queue pair leaves behind when it is destroyed.
  static constexpr std::uint32_t kSpare = 256;
  struct Queue {
    ibv_cq* queue;
    std::uint32_t capacity, reserved;
    bool has_failed = false;
  };
  struct Watch;

  ibv_context* context_;
  int max_entries_;
  ibv_comp_channel* channel_ = nullptr;
  std::vector<Queue> queues_;
  std::shared_ptr<Watch> watch_;
};

/// What the seam's Completions is inside; lives on as long as the control thread has something for it. On the reactor.
class CompletionsCore final : public engine::TurnPoller, public std::enable_shared_from_this<CompletionsCore> {
 public:
  explicit CompletionsCore(engine::Reactor& reactor) : reactor_(reactor) {}

  [[nodiscard]] engine::Reactor& reactor() const { return reactor_; }
  [[nodiscard]] WorkTag enter(RealQueuePair& pair);
  void leave(WorkTag tag);

  void add(std::shared_ptr<QueueGroup> group);
  void add(const QueueGroup& group, ibv_cq* queue);
  /// True if it had it: the group is the control thread's again.
  bool remove(const std::shared_ptr<QueueGroup>& group);
  /// All that it has; nothing is polled any more.
  std::vector<std::shared_ptr<QueueGroup>> close();
  /// An event of this queue was taken: it has to be armed again.
  void disarmed(ibv_cq* queue);

  bool poll() override;
  bool prepare_to_sleep() override;

  bool detached = false;  ///< the control thread's: the reactor is told nothing any more

 private:
  static constexpr int kBatch = 32;
  static constexpr int kATurn = 256;
  struct Polled {
    const QueueGroup* group;
    ibv_cq* queue;
    bool armed = false;
  };
  struct Slot {
    RealQueuePair* pair = nullptr;
    std::uint16_t generation = 0;
  };
  void hand_out(int count);

  engine::Reactor& reactor_;
  std::vector<std::shared_ptr<QueueGroup>> groups_;
  std::vector<Polled> queues_;
  std::size_t next_ = 0;  // of the queues, where the next turn begins
  std::vector<Slot> slots_;
  std::vector<std::uint16_t> free_slots_;
  std::size_t pairs_ = 0;
  std::array<ibv_wc, kBatch> batch_{};
  int kept_ = 0;  // of the batch: found when it was about to sleep
};

class RealCompletions final : public Completions {
 public:
  RealCompletions(RealFabric& fabric, engine::Reactor& reactor);
  ~RealCompletions() override;
  [[nodiscard]] const std::shared_ptr<CompletionsCore>& core() const { return core_; }

 private:
  RealFabric& fabric_;
  std::shared_ptr<CompletionsCore> core_;
};

}  // namespace lockstep::rdma
