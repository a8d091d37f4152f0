#pragma once
// Shared and exclusive locks on extents of one volume, first come first served among those that conflict: a queued
// exclusive lock holds back every later overlapping lock, so nobody starves. Pure, owned by one reactor, allocates
// nothing: the caller's operation embeds the RangeLock::Node.
#include <array>
#include <cstddef>
#include <cstdint>

#include "engine/base/extent.hpp"

namespace lockstep::engine {

enum class LockMode : std::uint8_t { shared, exclusive };

class RangeLock {
 public:
  /// One lock of one extent, waited for or held. Stays where it is from acquire() until release() or cancel().
  class Node {
   public:
    Node() = default;
    ~Node();
    Node(const Node&) = delete;
    Node& operator=(const Node&) = delete;

    /// Called when a lock that had to wait is granted; set it and `owner` before acquire().
    void (*granted)(Node&) = nullptr;
    void* owner = nullptr;  ///< for the caller

    [[nodiscard]] bool idle() const { return state_ == State::idle; }
    [[nodiscard]] bool waiting() const { return state_ == State::waiting; }
    [[nodiscard]] bool held() const { return state_ == State::held; }
    [[nodiscard]] const Extent& extent() const { return extent_; }
    [[nodiscard]] LockMode mode() const { return mode_; }

   private:
    friend class RangeLock;
    enum class State : std::uint8_t { idle, waiting, held };
    struct Link {
      Link* prev = nullptr;
      Link* next = nullptr;
      Node* node = nullptr;
    };

    Extent extent_;
    std::uint64_t arrival_ = 0;
    std::uint32_t blockers_ = 0;  // earlier locks, held or waiting, that conflict with this one
    LockMode mode_ = LockMode::shared;
    State state_ = State::idle;
    bool to_notify_ = false;
    Link all_, bucket_[2], notify_;
  };

  RangeLock();
  ~RangeLock();  ///< forgets every lock
  RangeLock(const RangeLock&) = delete;
  RangeLock& operator=(const RangeLock&) = delete;

  /// True: held now, granted() is not called. False: queued; granted() is called from inside a later release() or
  /// cancel(), when the lock's state is consistent again (it may acquire, release and cancel, its own node included).
  /// `extent` is not empty, does not wrap, and `node` is idle.
  [[nodiscard]] bool acquire(Node& node, Extent extent, LockMode mode);
  /// Lets go of a held lock. The node is idle and may be destroyed or used again at once.
  void release(Node& node);
  /// Takes a waiting lock out of the queue; granted() will not be called. A held lock is released; an idle one ignored.
  void cancel(Node& node);

  /// Everything ends here: every lock becomes idle, nobody is called.
  void forget_all();

  /// True when acquire() of this would be granted at once.
  [[nodiscard]] bool would_grant(Extent extent, LockMode mode) const;
  /// True when a *held* lock conflicts.
  [[nodiscard]] bool is_held_against(Extent extent, LockMode mode) const;
  [[nodiscard]] std::size_t held_count() const { return held_; }
  [[nodiscard]] std::size_t waiting_count() const { return waiting_; }

  /// Calls `visit(Node&)` for every held (waiting) lock in order of arrival; visit must not acquire, release or cancel.
  template <class Visit>
  void for_each_held(Visit&& visit) const {
    for_each(true, visit);
  }
  template <class Visit>
  void for_each_waiting(Visit&& visit) const {
    for_each(false, visit);
  }

 private:
  // Locks within one or two stripes of the volume are found through hash buckets of stripes; the few that span more
  // are in one list that every search walks.
  static constexpr std::uint64_t kStripe = std::uint64_t{256} << 10;
  static constexpr std::size_t kBuckets = 64;
  using Link = Node::Link;

  template <class Visit>
  void for_each(bool held, Visit&& visit) const {
    for (const Link* at = all_.next; at != &all_; at = at->next) {
      if (at->node->held() == held) visit(*at->node);
    }
  }
  template <class Visit>
  void for_each_overlapping(const Extent& extent, Visit&& visit) const;
  void link(Node& node);
  void unlink(Node& node);
  void remove(Node& node);
  void notify();

  Link all_, wide_, notify_;
  std::array<Link, kBuckets> buckets_;
  std::uint64_t next_arrival_ = 1;
  std::size_t held_ = 0;
  std::size_t waiting_ = 0;
  bool notifying_ = false;
};

}  // namespace lockstep::engine
