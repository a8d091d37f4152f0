#pragma once
// Which of a connection's memory windows are open, and by which keys. Without verbs: a window's key has the device's
// number of it in its upper 24 bits, and a count in the lower 8 that each opening raises (ibv_inc_rkey).
#include <algorithm>
#include <cassert>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace lockstep::rdma {

class Windows {
 public:
  struct Opened {
    std::size_t place = 0;  ///< of the window, in the order of the keys that it was made with
    std::uint32_t key = 0;
  };

  Windows() = default;
  /// All are shut; `keys` are those that the device gave them, in ascending order.
  explicit Windows(std::span<const std::uint32_t> keys)
      : windows_(keys.size()), resting_(keys.size()), hiding_(keys.size()) {
    assert(std::ranges::is_sorted(keys));
    for (std::size_t i = 0; i < keys.size(); ++i) {
      windows_[i].key = keys[i];
      resting_.push(i);
    }
  }

  [[nodiscard]] bool may_open() const { return !resting_.empty(); }
  /// The one that was shut longest: a key comes again as late as can be, after 256 openings of each.
  Opened open() {
    assert(may_open());
    const std::size_t place = resting_.pop();
    Window& window = windows_[place];
    window.key = (window.key & ~0xffu) | ((window.key + 1) & 0xffu);
    window.is_open = true;
    return {place, window.key};
  }
  /// False when no window is open by that key.
  [[nodiscard]] bool hide(std::uint32_t key) {
    Window* const window = find(key);
    if (window == nullptr) return false;
    window->is_open = false;
    hiding_.push(static_cast<std::size_t>(window - windows_.data()));
    return true;
  }
  /// The first of those that are being hidden is shut.
  void hidden() { resting_.push(hiding_.pop()); }
  /// By the peer. Nothing where none is open by that key.
  void invalidated(std::uint32_t key) {
    Window* const window = find(key);
    if (window == nullptr) return;
    window->is_open = false;
    resting_.push(static_cast<std::size_t>(window - windows_.data()));
  }

 private:
  struct Window {
    std::uint32_t key = 0;  ///< the last that it was opened by
    bool is_open = false;   ///< neither shut nor being hidden
  };
  /// Of places; holds as many as there are windows.
  class Ring {
   public:
    Ring() = default;
    explicit Ring(std::size_t size) : places_(size) {}
    [[nodiscard]] bool empty() const { return count_ == 0; }
    void push(std::size_t place) {
      assert(count_ < places_.size());
      places_[(first_ + count_++) % places_.size()] = place;
    }
    std::size_t pop() {
      assert(count_ > 0);
      const std::size_t place = places_[first_];
      first_ = (first_ + 1) % places_.size();
      --count_;
      return place;
    }

   private:
    std::vector<std::size_t> places_;
    std::size_t first_ = 0, count_ = 0;
  };

  [[nodiscard]] Window* find(std::uint32_t key) {
    const auto found = std::ranges::lower_bound(windows_, key >> 8, {}, [](const Window& w) { return w.key >> 8; });
    return found != windows_.end() && found->key == key && found->is_open ? &*found : nullptr;
  }

  std::vector<Window> windows_;  // by the upper bits of their keys
  Ring resting_, hiding_;        // in the order in which they were shut, and in which hiding them was asked for
};

}  // namespace lockstep::rdma
