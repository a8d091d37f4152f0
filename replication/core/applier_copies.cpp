// What the partner asks of this store beside its orders: space, copies and bits of a resync, flushes, reads.
#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "engine/base/byte_order.hpp"
#include "replication/core/applier.hpp"
#include "replication/core/marks.hpp"

namespace lockstep::replication {

using engine::DiskOpcode;
using engine::Errc;

/// The sequencer holds the range of what it is going to order. The answer tells all that is known from there on.
void Applier::reserve(std::uint64_t session, InboundRequest& request, const Message& m) {
  if (m.extent.empty() || !m.extent.fits(store_.volume_size())) return answer(request, m, Errc::stale);
  Apply& a = make(session, request, m);
  a.stage = Apply::Stage::at_work;
  a.since = clock_.now();
  space_.ensure(m.extent, [this, &a](std::error_code error) {
    if (error == Errc::no_space) mark<"space.none_for_the_partner">();
    if (error && error != Errc::no_space) store_.fail("The store can't set space aside: " + error.message() + ".");
    if (error) return end(a, to_errc(error));
    Message header;
    header.type = MessageType::reserve;
    header.volume = store_.info.id;
    header.extent = space_.known_from(a.message.extent);
    InboundRequest& inbound = *std::exchange(a.request, nullptr);
    let_go(a);
    answer(inbound, header);
    over();
  });
}

/// The source holds the region's lock until this is answered: nothing that came from it overlaps it here. But this
/// node's own store may still be given back what it was told to write when it ordered itself: that must not land on it.
void Applier::copy(std::uint64_t session, InboundRequest& request, const Message& m) {
  Message order = m;
  const bool zeroes = m.opcode == DiskOpcode::unmap || m.opcode == DiskOpcode::write_zeroes;
  order.opcode = zeroes ? m.opcode : DiskOpcode::write;
  if (!is_well_formed(order, request.payload().size())) return answer(request, m, Errc::corrupt);
  start(make(session, request, order));
}

void Applier::flush(std::uint64_t session, InboundRequest& request, const Message& m) {
  Apply& a = make(session, request, m);
  a.stage = Apply::Stage::at_work;
  a.since = clock_.now();
  store_.data.flush([this, &a](std::error_code error) {
    if (error) store_.fail_flush(error);
    end(a, error ? Errc::io_error : Errc::ok);
  });
}

namespace {
/// In regions; in order, and none overlaps another.
using RegionRanges = std::vector<engine::Extent>;

RegionRanges in_order(RegionRanges ranges) {
  std::ranges::sort(ranges, {}, &engine::Extent::offset);
  RegionRanges apart;
  for (const engine::Extent& range : ranges) {
    if (apart.empty() || apart.back().end() < range.offset) {
      apart.push_back(range);
    } else {
      apart.back().length = std::max(apart.back().end(), range.end()) - apart.back().offset;
    }
  }
  return apart;
}

bool has(const RegionRanges& ranges, std::uint64_t region) {
  const auto behind = std::ranges::upper_bound(ranges, region, {}, &engine::Extent::offset);
  return behind != ranges.begin() && region < std::prev(behind)->end();
}
}  // namespace

/// The sequencer saw both flushes. Orders that it sent after this come after it and set their bits again. It may have
/// made room for a larger volume, and tell of bits that this replica does not have.
void Applier::clear(InboundRequest& request, const Message& m) {
  const auto bytes = request.payload();
  if (bytes.size() % 8) return answer(request, m, Errc::corrupt);
  RegionRanges used;
  const std::uint64_t size = store_.region_size();
  applies_.for_each([&](const Apply& a) {
    const engine::Extent& extent = a.message.extent;
    if (a.stage == Apply::Stage::applied || extent.empty()) return;
    const std::uint64_t first = extent.offset / size;
    used.push_back({first, (extent.end() + size - 1) / size - first});
  });
  const RegionRanges in_use = in_order(std::move(used));
  std::vector<std::uint64_t> regions;
  regions.reserve(bytes.size() / 8);
  for (std::size_t at = 0; at < bytes.size(); at += 8) {
    const auto region = engine::load_be<std::uint64_t>(bytes.data() + at);
    if (region < store_.meta->region_count() && !has(in_use, region)) regions.push_back(region);
  }
  store_.meta->clear_dirty(std::move(regions), [](std::error_code) {});
  answer(request, m, Errc::ok);
}

/// The sequencer could not read its own store and holds the range: this node's bytes are the committed ones; of a range
/// that is not equal yet, they are as good as its own (resync.hpp). So it matters not whether this node reads here. But
/// a copy that came by an earlier session, and that the sequencer has given up, would land on what it was told.
void Applier::fetch(std::uint64_t session, InboundRequest& request, const Message& m) {
  const bool member = standing_.in_sync();
  if (!member || m.extent.empty() || !m.extent.fits(store_.volume_size()) || m.extent.length > kMaxPiece ||
      m.extent.length > request.max_answer_payload()) {
    return answer(request, m, Errc::stale);
  }
  bool is_copied_to = false;
  applies_.for_each(
      [&](Apply& a) { is_copied_to |= a.message.type == MessageType::copy && a.message.extent.overlaps(m.extent); });
  if (is_copied_to) {
    mark<"apply.fetched_under_a_copy">();
    return answer(request, m, Errc::resource_exhausted);
  }
  Apply& a = make(session, request, m);
  a.buffer = buffers_.allocate(m.extent.length);
  if (!a.buffer) return end(a, Errc::resource_exhausted);
  a.stage = Apply::Stage::at_work;
  a.since = clock_.now();
  store_.data.read(m.extent.offset, a.buffer.span(), [this, &a](std::error_code error) {
    if (error) return end(a, Errc::io_error);
    InboundRequest& inbound = *std::exchange(a.request, nullptr);
    Message header;
    header.type = MessageType::fetch;
    header.volume = a.message.volume;
    auto bytes = a.buffer.span();
    auto keep = std::make_unique<engine::Buffer>(std::move(a.buffer));
    let_go(a);
    answer(inbound, header, bytes, [keep = std::move(keep)] {});
    over();
  });
}

bool Applier::may_be_resynced() const { return map_is_told_ || standing_.epoch().members.contains(standing_.side()); }

/// Words of the dirty map, big-endian.
void Applier::map(InboundRequest& request, const Message& m) {
  const auto& words = store_.meta->words();
  if (!m.extent.fits(words.size()) || m.extent.length * 8 > request.max_answer_payload() ||
      m.extent.length * 8 > kMaxLinkPayload) {
    return answer(request, m, Errc::out_of_range);
  }
  auto bytes = std::make_unique<std::vector<std::byte>>(m.extent.length * 8);
  for (std::uint64_t i = 0; i < m.extent.length; ++i) {
    engine::store_be<std::uint64_t>(bytes->data() + i * 8, words[m.extent.offset + i]);
  }
  if (m.extent.offset == 0) map_told_ = 0;
  if (m.extent.offset <= map_told_) map_told_ = std::max(map_told_, m.extent.end());
  map_is_told_ |= map_told_ >= (store_.region_count() + 63) / 64;
  Message header;
  header.type = m.type;
  header.volume = m.volume;
  const std::span<const std::byte> payload = *bytes;
  answer(request, header, payload, [keep = std::move(bytes)] {});
}

}  // namespace lockstep::replication
