#include "engine/locks/range_lock.hpp"

#include <cassert>

namespace lockstep::engine {
namespace {

template <class Link>
void insert_before(Link& position, Link& link) {
  link.prev = position.prev;
  link.next = &position;
  position.prev->next = &link;
  position.prev = &link;
}

template <class Link>
void take_out(Link& link) {
  link.prev->next = link.next;
  link.next->prev = link.prev;
  link.prev = link.next = nullptr;
}

bool conflict(LockMode a, LockMode b) { return a == LockMode::exclusive || b == LockMode::exclusive; }

}  // namespace

RangeLock::Node::~Node() { assert(state_ == State::idle); }

RangeLock::RangeLock() {
  const auto make_empty = [](Link& head) { head.prev = head.next = &head; };
  make_empty(all_);
  make_empty(wide_);
  make_empty(notify_);
  for (Link& bucket : buckets_) make_empty(bucket);
}

RangeLock::~RangeLock() { forget_all(); }

void RangeLock::forget_all() {
  while (all_.next != &all_) {
    Node& node = *all_.next->node;
    unlink(node);
    node.state_ = Node::State::idle;
  }
  held_ = waiting_ = 0;
}

/// Visits each lock that overlaps once, in no particular order. Two locks may share two buckets: they meet in the one
/// where their overlap begins.
template <class Visit>
void RangeLock::for_each_overlapping(const Extent& extent, Visit&& visit) const {
  const std::uint64_t first = extent.offset / kStripe;
  const std::uint64_t last = (extent.end() - 1) / kStripe;
  if (last - first > 1) {
    for (const Link* at = all_.next; at != &all_; at = at->next) {
      if (at->node->extent_.overlaps(extent)) visit(*at->node);
    }
    return;
  }
  for (std::uint64_t stripe = first; stripe <= last; ++stripe) {
    const Link& bucket = buckets_[stripe % kBuckets];
    for (const Link* at = bucket.next; at != &bucket; at = at->next) {
      const Extent& other = at->node->extent_;
      const std::uint64_t begin = other.offset > extent.offset ? other.offset : extent.offset;
      if (other.overlaps(extent) && begin / kStripe == stripe) visit(*at->node);
    }
  }
  for (const Link* at = wide_.next; at != &wide_; at = at->next) {
    if (at->node->extent_.overlaps(extent)) visit(*at->node);
  }
}

bool RangeLock::acquire(Node& node, Extent extent, LockMode mode) {
  assert(node.idle() && !extent.empty() && extent.end() > extent.offset);
  node.extent_ = extent;
  node.mode_ = mode;
  node.arrival_ = next_arrival_++;
  node.blockers_ = 0;
  for_each_overlapping(extent, [&](const Node& earlier) { node.blockers_ += conflict(earlier.mode_, mode); });
  link(node);
  if (node.blockers_ == 0) {
    node.state_ = Node::State::held;
    ++held_;
    return true;
  }
  assert(node.granted != nullptr);
  node.state_ = Node::State::waiting;
  ++waiting_;
  return false;
}

void RangeLock::release(Node& node) {
  assert(node.held());
  --held_;
  remove(node);
  notify();
}

void RangeLock::cancel(Node& node) {
  if (node.idle()) return;
  --(node.held() ? held_ : waiting_);
  remove(node);
  notify();
}

void RangeLock::link(Node& node) {
  node.all_.node = node.bucket_[0].node = node.bucket_[1].node = node.notify_.node = &node;
  insert_before(all_, node.all_);
  const std::uint64_t first = node.extent_.offset / kStripe;
  const std::uint64_t last = (node.extent_.end() - 1) / kStripe;
  if (last - first > 1) return insert_before(wide_, node.bucket_[0]);
  insert_before(buckets_[first % kBuckets], node.bucket_[0]);
  if (last != first) insert_before(buckets_[last % kBuckets], node.bucket_[1]);
}

void RangeLock::unlink(Node& node) {
  take_out(node.all_);
  take_out(node.bucket_[0]);
  if (node.bucket_[1].next != nullptr) take_out(node.bucket_[1]);
  if (node.to_notify_) take_out(node.notify_);
  node.to_notify_ = false;
}

/// Takes the lock out and counts it off from every later one that it held up; those with nobody left before them are
/// held from now on, and told so by notify() in order of arrival.
void RangeLock::remove(Node& node) {
  unlink(node);
  node.state_ = Node::State::idle;
  for_each_overlapping(node.extent_, [&](Node& later) {
    if (later.arrival_ < node.arrival_ || !conflict(later.mode_, node.mode_)) return;
    assert(later.waiting() && later.blockers_ > 0);
    if (--later.blockers_ > 0) return;
    later.state_ = Node::State::held;
    --waiting_;
    ++held_;
    later.to_notify_ = true;
    Link* position = &notify_;
    while (position->prev != &notify_ && position->prev->node->arrival_ > later.arrival_) position = position->prev;
    insert_before(*position, later.notify_);
  });
}

void RangeLock::notify() {
  if (notifying_) return;  // the outer call goes on with what was added: no recursion, however long the queue
  notifying_ = true;
  while (notify_.next != &notify_) {
    Node& node = *notify_.next->node;
    take_out(node.notify_);
    node.to_notify_ = false;
    node.granted(node);
  }
  notifying_ = false;
}

bool RangeLock::would_grant(Extent extent, LockMode mode) const {
  bool free = true;
  for_each_overlapping(extent, [&](const Node& other) { free &= !conflict(other.mode_, mode); });
  return free;
}

bool RangeLock::is_held_against(Extent extent, LockMode mode) const {
  bool held = false;
  for_each_overlapping(extent, [&](const Node& other) { held |= other.held() && conflict(other.mode_, mode); });
  return held;
}

}  // namespace lockstep::engine
