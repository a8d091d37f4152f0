#pragma once
// Objects that live as long as an operation, reused without allocation on the steady path, and the intrusive lists that
// hold them. Owned by one reactor.
#include <cassert>
#include <cstddef>
#include <memory>
#include <new>
#include <vector>

namespace lockstep::replication {

/// Membership in one list at a time.
template <class T>
struct Hook {
  T* prev = nullptr;
  T* next = nullptr;
  bool linked = false;
};

/// First in, first out; removal from the middle costs nothing. Holds, does not own.
template <class T, Hook<T> T::*Member = &T::hook>
class List {
 public:
  [[nodiscard]] bool empty() const { return !first_; }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] T* front() const { return first_; }
  [[nodiscard]] static T* next(T* at) { return (at->*Member).next; }

  void push_back(T& item) {
    Hook<T>& h = item.*Member;
    assert(!h.linked);
    h = {last_, nullptr, true};
    (last_ ? (last_->*Member).next : first_) = &item;
    last_ = &item;
    ++size_;
  }
  void remove(T& item) {
    Hook<T>& h = item.*Member;
    assert(h.linked);
    (h.prev ? (h.prev->*Member).next : first_) = h.next;
    (h.next ? (h.next->*Member).prev : last_) = h.prev;
    h = {};
    --size_;
  }
  T* pop_front() {
    T* item = first_;
    if (item) remove(*item);
    return item;
  }
  /// Visits each; `visit` may remove the item it is given, but no other.
  template <class Visit>
  void for_each(Visit&& visit) {
    for (T* at = first_; at;) {
      T* following = (at->*Member).next;
      visit(*at);
      at = following;
    }
  }
  /// Moves what `pred` is true of to the end of `to`.
  template <class Pred>
  void move_to(List& to, Pred&& pred) {
    for_each([&](T& item) {
      if (!pred(item)) return;
      remove(item);
      to.push_back(item);
    });
  }
  /// Moves everything here to the end of `to`.
  void splice_to(List& to) {
    while (T* item = pop_front()) to.push_back(*item);
  }

 private:
  T* first_ = nullptr;
  T* last_ = nullptr;
  std::size_t size_ = 0;
};

/// Grows by chunks and never shrinks: as many objects as were ever in use at once.
template <class T>
class Pool {
 public:
  Pool() = default;
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  /// Memory of an object, new or used before, constructed from `args`.
  template <class... Args>
  [[nodiscard]] T& make(Args&&... args) {
    if (free_.empty()) grow();
    Slot* slot = free_.back();
    free_.pop_back();
    return *new (slot->bytes) T(std::forward<Args>(args)...);
  }
  void destroy(T& object) {
    object.~T();
    free_.push_back(reinterpret_cast<Slot*>(&object));
  }
  [[nodiscard]] std::size_t in_use() const { return chunks_.size() * kChunk - free_.size(); }

 private:
  static constexpr std::size_t kChunk = 32;
  struct Slot {
    alignas(T) std::byte bytes[sizeof(T)];
  };
  void grow() {
    chunks_.push_back(std::make_unique<Slot[]>(kChunk));
    free_.reserve(chunks_.size() * kChunk);
    for (std::size_t i = kChunk; i-- > 0;) free_.push_back(&chunks_.back()[i]);
  }
  std::vector<std::unique_ptr<Slot[]>> chunks_;
  std::vector<Slot*> free_;
};

}  // namespace lockstep::replication
