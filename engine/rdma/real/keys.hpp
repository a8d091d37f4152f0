#pragma once
// The keys of the arenas in one protection domain of a device.
#include <array>
#include <atomic>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

struct ibv_mr;

namespace lockstep::rdma {

/// Written by the control thread, read by reactors at any moment, without locks. An arena that a reactor asks for is
/// neither added nor removed meanwhile; others are, and their entries are used again. So an entry that changes while it
/// is read is not the one that is looked for.
class Keys {
 public:
  static constexpr std::size_t kMost = 256;

  struct Registration {
    std::uint32_t key = 0;     ///< local
    ibv_mr* region = nullptr;  ///< what windows are opened on
    bool operator==(const Registration&) const = default;
  };

  /// Nothing when it is in no arena.
  [[nodiscard]] std::optional<Registration> find(std::span<const std::byte> memory) const {
    const std::size_t count = count_.load(std::memory_order_acquire);
    for (std::size_t i = 0; i < count; ++i) {
      const Entry& entry = entries_[i];
      const std::uint32_t version = entry.version.load(std::memory_order_acquire);
      // Each load keeps those after it behind: what was written later is seen in the version, too.
      const std::byte* const begin = entry.begin.load(std::memory_order_acquire);
      const std::byte* const end = entry.end.load(std::memory_order_acquire);
      if (end == nullptr || memory.data() < begin || memory.data() + memory.size() > end) continue;
      const Registration found{entry.key.load(std::memory_order_acquire), entry.region.load(std::memory_order_acquire)};
      if (is_whole(version) && entry.version.load(std::memory_order_relaxed) == version) return found;
    }
    return {};
  }

  // On the control thread.
  [[nodiscard]] bool is_full() const { return count() == kMost && vacant() == kMost; }
  void add(std::span<std::byte> memory, Registration registration) {
    assert(!is_full() && !memory.empty());
    const std::size_t place = vacant();
    entries_[place].set(memory.data(), memory.data() + memory.size(), registration);
    if (place == count()) count_.store(place + 1, std::memory_order_release);
  }
  void remove(std::span<const std::byte> memory) {
    for (std::size_t i = 0; i < count(); ++i) {
      Entry& entry = entries_[i];
      if (entry.begin == memory.data() && entry.end == memory.data() + memory.size()) entry.set(nullptr, nullptr, {});
    }
  }

 private:
  struct Entry {
    void set(const std::byte* first, const std::byte* last, Registration registration) {
      const std::uint32_t before = version.load(std::memory_order_relaxed);
      version.store(before + 1, std::memory_order_relaxed);
      begin.store(first, std::memory_order_release);
      end.store(last, std::memory_order_release);
      key.store(registration.key, std::memory_order_release);
      region.store(registration.region, std::memory_order_release);
      version.store(before + 2, std::memory_order_release);
    }
    std::atomic<std::uint32_t> version{0};
    std::atomic<const std::byte*> begin{nullptr}, end{nullptr};  ///< both are null when it is vacant
    std::atomic<std::uint32_t> key{0};
    std::atomic<ibv_mr*> region{nullptr};
  };
  [[nodiscard]] static bool is_whole(std::uint32_t version) { return version % 2 == 0; }
  [[nodiscard]] std::size_t count() const { return count_.load(std::memory_order_relaxed); }
  /// The first that holds nothing; kMost when all do.
  [[nodiscard]] std::size_t vacant() const {
    std::size_t place = 0;
    while (place < count() && entries_[place].end.load(std::memory_order_relaxed) != nullptr) ++place;
    return place;
  }

  std::array<Entry, kMost> entries_{};
  std::atomic<std::size_t> count_{0};  ///< that were ever used
};

}  // namespace lockstep::rdma
