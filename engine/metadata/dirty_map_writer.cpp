#include "engine/metadata/dirty_map_writer.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace lockstep::engine {
namespace {

std::uint64_t word_on_disk(const layout::Blocks& block, std::size_t word) {
  return load_be<std::uint64_t>(block[0].data() + sizeof(layout::Header) + word * 8);
}

}  // namespace

DirtyMapWriter::DirtyMapWriter(Store& store, DirtyMap& map, layout::Key key, std::uint64_t generation)
    : store_(store), map_(map), key_(key), generation_(generation), active_(map.blocks()) {}

void DirtyMapWriter::grown() {
  active_.resize(map_.blocks());
  for (std::uint64_t block = 0; block < active_.size(); ++block) {  // of one: the block that was the last
    if (active_[block]) active_[block]->durable.resize(map_.words_of(block).size());
  }
}

bool DirtyMapWriter::is_durable(std::uint64_t first, std::uint64_t last) const {
  for (std::uint64_t block = DirtyMap::block_of(first); block <= DirtyMap::block_of(last); ++block) {
    const std::uint64_t from = std::max(first, map_.first_of(block)), to = std::min(last, map_.end_of(block) - 1);
    if (!is_durable_in(block, from, to)) return false;
  }
  return true;
}

bool DirtyMapWriter::is_durable_in(std::uint64_t block, std::uint64_t first, std::uint64_t last) const {
  const Active* active = active_[block].get();
  const auto durable = active != nullptr ? std::span<const std::uint64_t>(active->durable) : map_.words_of(block);
  const std::uint64_t begin = map_.first_of(block) / 64;
  return for_each_word(first, last, [&](std::uint64_t word, std::uint64_t bits) {
    return (map_.words()[word] & durable[word - begin] & bits) == bits;
  });
}

/// Whether the write in flight will make every one of these regions durable.
bool DirtyMapWriter::carried_by_flight(const Active& active, std::uint64_t block, std::uint64_t first,
                                       std::uint64_t last) const {
  if (!active.in_flight || !active.in_flight_durable) return false;
  const std::uint64_t begin = map_.first_of(block) / 64;
  return for_each_word(first, last, [&](std::uint64_t word, std::uint64_t bits) {
    return ((active.durable[word - begin] | word_on_disk(*active.in_flight, word - begin)) & bits) == bits;
  });
}

DirtyMapWriter::Active& DirtyMapWriter::activate(std::uint64_t block) {
  auto& active = active_[block];
  if (!active) {
    active = std::make_unique<Active>();
    const auto words = map_.words_of(block);
    active->durable.assign(words.begin(), words.end());
  }
  return *active;
}

void DirtyMapWriter::set(std::uint64_t first, std::uint64_t last, IoCallback done) {
  const auto request = std::make_shared<Request>(std::move(done));
  for (std::uint64_t block = DirtyMap::block_of(first); block <= DirtyMap::block_of(last); ++block) {
    const std::uint64_t from = std::max(first, map_.first_of(block)), to = std::min(last, map_.end_of(block) - 1);
    if (is_durable_in(block, from, to)) continue;
    Active& active = activate(block);
    map_.set(from, to);
    ++request->blocks_left;
    if (carried_by_flight(active, block, from, to)) {
      active.current.push_back(request);
    } else {
      wait_for_next(block, request, true);
    }
  }
  if (request->blocks_left == 0) return std::exchange(request->done, nullptr)({});
  pump();
}

void DirtyMapWriter::unite(std::span<const std::uint64_t> words, IoCallback done) {
  const auto request = std::make_shared<Request>(std::move(done));
  for (std::uint64_t block = 0; block * layout::kWordsPerBlock < words.size(); ++block) {
    const auto wanted =
        words.subspan(block * layout::kWordsPerBlock)
            .first(std::min<std::size_t>(layout::kWordsPerBlock, words.size() - block * layout::kWordsPerBlock));
    const auto known = active_[block] ? std::span<const std::uint64_t>(active_[block]->durable) : map_.words_of(block);
    if (std::ranges::equal(wanted, known.first(wanted.size()), [](auto w, auto k) { return (w & ~k) == 0; })) continue;
    activate(block);
    for (std::size_t w = 0; w < wanted.size(); ++w) map_.set_word(map_.first_of(block) / 64 + w, wanted[w]);
    ++request->blocks_left;
    wait_for_next(block, request, true);
  }
  if (request->blocks_left == 0) return std::exchange(request->done, nullptr)({});
  pump();
}

void DirtyMapWriter::clear(std::span<const std::uint64_t> regions, IoCallback done) {
  const auto request = std::make_shared<Request>(std::move(done));
  for (const std::uint64_t region : regions) {
    if (!map_.test(region)) continue;
    const std::uint64_t block = DirtyMap::block_of(region), i = region - map_.first_of(block);
    Active& active = activate(block);
    map_.clear(region);
    active.durable[i / 64] &= ~(std::uint64_t{1} << (i % 64));
    if (!active.waiting.empty() && active.waiting.back() == request) continue;  // this block is counted
    ++request->blocks_left;
    wait_for_next(block, request, false);
  }
  if (request->blocks_left == 0) return std::exchange(request->done, nullptr)({});
  pump();
}

void DirtyMapWriter::wait_for_next(std::uint64_t block, const std::shared_ptr<Request>& request, bool durable) {
  Active& active = *active_[block];
  active.waiting.push_back(request);
  active.waiting_durable |= durable;
  if (active.in_flight || active.queued) return;
  active.queued = true;
  ready_.push_back(block);
}

void DirtyMapWriter::pump() {
  while (writes_ < kMaxWrites && !ready_.empty()) {
    const std::uint64_t block = ready_.front();
    ready_.pop_front();
    start(block);
  }
}

void DirtyMapWriter::start(std::uint64_t block) {
  Active& active = *active_[block];
  assert(active.queued && !active.in_flight && active.current.empty());
  active.queued = false;
  active.current = std::exchange(active.waiting, {});
  active.in_flight_durable = std::exchange(active.waiting_durable, false);
  if (spare_.empty()) spare_.push_back(std::make_unique<layout::Blocks>(1));
  active.in_flight = std::move(spare_.back());
  spare_.pop_back();
  const layout::Block buffer = (*active.in_flight)[0];
  map_.store(block, buffer);
  layout::seal(buffer, layout::Kind::map, key_, block, ++generation_);
  ++writes_;
  const auto durability = active.in_flight_durable ? Durability::durable : Durability::cached;
  store_.write(layout::kMapAt + block * layout::kBlock, buffer, durability,
               [this, block](std::error_code error) { finish(block, error); });
}

void DirtyMapWriter::finish(std::uint64_t block, std::error_code error) {
  Active& active = *active_[block];
  --writes_;
  const auto words = map_.words_of(block);
  if (!error && active.in_flight_durable) {
    // A bit cleared and set again while this was on its way is durable all the same: the disk has it set.
    for (std::size_t w = 0; w < words.size(); ++w) {
      active.durable[w] |= word_on_disk(*active.in_flight, w) & words[w];
    }
  }
  spare_.push_back(std::move(active.in_flight));
  const Requests ended = std::exchange(active.current, {});
  if (!active.waiting.empty()) {
    active.queued = true;
    ready_.push_back(block);
  } else if (std::ranges::equal(active.durable, words)) {
    active_[block].reset();
  }
  pump();
  for (const auto& request : ended) {  // nothing of this object is touched any more: a callback may be its end
    if (error) request->error = error;
    if (--request->blocks_left == 0) std::exchange(request->done, nullptr)(request->error);
  }
}

}  // namespace lockstep::engine
