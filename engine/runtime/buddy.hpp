#pragma once
// A buddy allocator over page numbers: it never touches the pages. Blocks are powers of two of pages, aligned to their
// size. Blocks just given back are kept whole for a while, because the next request mostly wants the same size.
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

namespace lockstep::engine {

class Buddy {
 public:
  static constexpr unsigned kMaxOrder = 13;
  static constexpr std::size_t kKept = 64;  ///< blocks of an order kept whole before they are merged

  /// `pages` is a multiple of 1 << kMaxOrder.
  explicit Buddy(std::size_t pages);

  /// The first page of a free block of 1 << order pages; nothing when there is none.
  [[nodiscard]] std::optional<std::uint32_t> take(unsigned order);
  void give(std::uint32_t page, unsigned order);

 private:
  static constexpr std::uint32_t kNone = ~0u;
  static constexpr std::uint8_t kNotFree = 0xFF;
  struct Page {
    std::uint32_t prev = kNone;
    std::uint32_t next = kNone;
    std::uint8_t free_order = kNotFree;  // of the free block that begins here
  };
  struct Kept {
    std::array<std::uint32_t, kKept> pages;
    std::size_t count = 0;
  };
  [[nodiscard]] std::optional<std::uint32_t> split_for(unsigned order);
  void merge(std::uint32_t page, unsigned order);
  void merge_kept();
  void push(std::uint32_t page, unsigned order);
  void pull(std::uint32_t page);

  std::vector<Page> pages_;
  std::array<std::uint32_t, kMaxOrder + 1> free_;
  std::array<Kept, kMaxOrder + 1> kept_;
};

}  // namespace lockstep::engine
