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

/// What a completion queue is of. Of receives each wakes the reactor; of what was sent only what is waited for.
enum class QueueKind : std::uint8_t { receives, sends };

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
  [[nodiscard]] engine::IoResult<Place> reserve(QueueKind kind, std::uint32_t entries);
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
    QueueKind kind;
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
  CompletionsCore(RealFabric& fabric, engine::Reactor& reactor) : fabric_(fabric), reactor_(reactor) {}

  [[nodiscard]] engine::Reactor& reactor() const { return reactor_; }
  [[nodiscard]] WorkTag enter(RealQueuePair& pair);
  void leave(WorkTag tag);

  void add(std::shared_ptr<QueueGroup> group);
  void add(const QueueGroup& group, QueueKind kind, ibv_cq* queue);
  /// True if it had it: the group is the control thread's again.
  bool remove(const std::shared_ptr<QueueGroup>& group);
  /// All that it has; nothing is polled any more.
  std::vector<std::shared_ptr<QueueGroup>> close();
  /// An event of this queue was taken: it has to be armed again.
  void disarmed(ibv_cq* queue);
  /// One of these tells of itself, sooner or later.
  [[nodiscard]] bool has_armed(const QueueGroup& group) const;
  /// Of one queue pair: whether completions of what it sent are waited for.
  void note_urgent(bool is_urgent) { is_urgent ? ++urgent_ : --urgent_; }
  /// What was sent is looked after within kLook, whatever happens until then.
  void look_later();

  bool poll() override;
  bool prepare_to_sleep() override;

  bool detached = false;  ///< the control thread's: the reactor is told nothing any more

 private:
  static constexpr int kBatch = 32;
  static constexpr int kATurn = 256;  // of each kind
  static constexpr engine::Duration kLook = std::chrono::milliseconds(5);
  struct Polled {
    const QueueGroup* group;
    QueueKind kind;
    ibv_cq* queue;
    bool armed = false;
    bool has_failed = false;
  };
  struct Slot {
    RealQueuePair* pair = nullptr;
    std::uint16_t generation = 0;
  };
  [[nodiscard]] int take(Polled& polled);
  void hand_out(int count);
  [[nodiscard]] bool poll(QueueKind kind, int& left);
  [[nodiscard]] bool arm(Polled& polled);

  RealFabric& fabric_;
  engine::Reactor& reactor_;
  std::vector<std::shared_ptr<QueueGroup>> groups_;
  std::vector<Polled> queues_;
  std::size_t next_ = 0;  // of the queues, where the next turn begins
  std::vector<Slot> slots_;
  std::vector<std::uint16_t> free_slots_;
  std::size_t pairs_ = 0;
  std::size_t urgent_ = 0;  // of them
  engine::TimerId look_ = engine::TimerId::none;
  bool has_more_ = false;  // than one turn took
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
