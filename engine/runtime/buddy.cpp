#include "engine/runtime/buddy.hpp"

#include <cassert>

namespace lockstep::engine {

Buddy::Buddy(std::size_t pages) : pages_(pages) {
  assert(pages > 0 && pages % (std::size_t{1} << kMaxOrder) == 0 && pages < kNone);
  free_.fill(kNone);
  // From the end, so that the first block is on top.
  for (std::size_t page = pages; page > 0; page -= std::size_t{1} << kMaxOrder) {
    push(static_cast<std::uint32_t>(page - (std::size_t{1} << kMaxOrder)), kMaxOrder);
  }
}

std::optional<std::uint32_t> Buddy::take(unsigned order) {
  if (Kept& kept = kept_[order]; kept.count > 0) return kept.pages[--kept.count];
  if (const auto page = split_for(order)) return page;
  merge_kept();
  return split_for(order);
}

void Buddy::give(std::uint32_t page, unsigned order) {
  assert(page + (std::size_t{1} << order) <= pages_.size() && pages_[page].free_order == kNotFree);
  if (Kept& kept = kept_[order]; kept.count < kKept) {
    kept.pages[kept.count++] = page;
  } else {
    merge(page, order);
  }
}

std::optional<std::uint32_t> Buddy::split_for(unsigned order) {
  unsigned from = order;
  while (from <= kMaxOrder && free_[from] == kNone) ++from;
  if (from > kMaxOrder) return std::nullopt;
  const std::uint32_t page = free_[from];
  pull(page);
  while (from > order) {
    --from;
    push(page + (1u << from), from);
  }
  return page;
}

void Buddy::merge(std::uint32_t page, unsigned order) {
  while (order < kMaxOrder) {
    const std::uint32_t buddy = page ^ (1u << order);
    if (pages_[buddy].free_order != order) break;
    pull(buddy);
    page &= ~(1u << order);
    ++order;
  }
  push(page, order);
}

void Buddy::merge_kept() {
  for (unsigned order = 0; order <= kMaxOrder; ++order) {
    for (Kept& kept = kept_[order]; kept.count > 0;) merge(kept.pages[--kept.count], order);
  }
}

void Buddy::push(std::uint32_t page, unsigned order) {
  Page& entry = pages_[page];
  entry = {kNone, free_[order], static_cast<std::uint8_t>(order)};
  if (entry.next != kNone) pages_[entry.next].prev = page;
  free_[order] = page;
}

void Buddy::pull(std::uint32_t page) {
  Page& entry = pages_[page];
  if (entry.prev != kNone) pages_[entry.prev].next = entry.next;
  if (entry.next != kNone) pages_[entry.next].prev = entry.prev;
  if (free_[entry.free_order] == page) free_[entry.free_order] = entry.next;
  entry = {};
}

}  // namespace lockstep::engine
