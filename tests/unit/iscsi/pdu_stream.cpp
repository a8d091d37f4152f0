// The reader and the transmit queue against each other, over every split of the stream.
#include <algorithm>
#include <cstring>
#include <random>

#include <gtest/gtest.h>

#include "engine/iscsi/pdu_reader.hpp"
#include "engine/iscsi/transmit_queue.hpp"

namespace lockstep::iscsi {
namespace {

using Bytes = std::vector<std::byte>;

Bytes pattern(std::size_t size, unsigned seed) {
  Bytes out(size);
  for (std::size_t i = 0; i < size; ++i) out[i] = static_cast<std::byte>(seed * 31 + i * 7 + i / 251);
  return out;
}

struct Seen {
  Bhs header;
  Bytes ahs, data;
};

class Collector final : public PduSink {
 public:
  void on_header(const Bhs& header, std::span<const std::byte> ahs, std::uint32_t length) override {
    current = {header, Bytes(ahs.begin(), ahs.end()), Bytes(length)};
  }
  std::span<std::byte> data_place(std::uint32_t offset) override {
    if (discards) return {};
    const auto rest = std::span(current.data).subspan(offset);
    return rest.first(std::min(rest.size(), piece));
  }
  void on_pdu() override { seen.push_back(std::move(current)); }
  void on_read_error(ReadError e) override { error = e; }

  Seen current;
  std::vector<Seen> seen;
  std::optional<ReadError> error;
  std::size_t piece = SIZE_MAX;  // how much of the place is shown at once
  bool discards = false;
};

OutPdu& make_pdu(TransmitQueue& queue, std::uint32_t tag, std::span<const std::byte> data,
                 std::span<const std::byte> ahs = {}) {
  auto header = make_header<AnyHeader>(Opcode::scsi_data_out);
  header.task_tag = tag;
  OutPdu& pdu = queue.make();
  pdu.set_header(header);
  pdu.set_ahs(ahs);
  pdu.set_data(data.first(data.size() / 3), data.subspan(data.size() / 3));
  return pdu;
}

Bytes drain(TransmitQueue& queue, std::size_t pieces_at_once, std::size_t sent_at_once) {
  Bytes out;
  while (!queue.empty()) {
    std::vector<std::span<const std::byte>> pieces(pieces_at_once);
    const std::size_t n = queue.gather(pieces);
    std::size_t gone = 0;
    for (std::size_t i = 0; i < n && gone < sent_at_once; ++i) {
      const auto part = pieces[i].first(std::min(pieces[i].size(), sent_at_once - gone));
      out.insert(out.end(), part.begin(), part.end());
      gone += part.size();
    }
    queue.sent(gone);
  }
  return out;
}

// Feeds as a stream would: in place what may go in place, the rest through a receive buffer of `chunk` bytes.
void feed(PduReader& reader, std::span<const std::byte> bytes, std::size_t chunk) {
  while (!bytes.empty() && !reader.stopped()) {
    const auto place = reader.receive_place();
    const std::size_t direct = std::min({place.direct.size(), bytes.size(), chunk});
    if (direct != 0) std::memcpy(place.direct.data(), bytes.data(), direct);
    std::size_t scratch = 0;
    if (direct == place.direct.size()) scratch = std::min({place.scratch, bytes.size() - direct, chunk - direct});
    reader.received(direct, bytes.subspan(direct, scratch));
    bytes = bytes.subspan(direct + scratch);
  }
}

struct Wire {
  std::vector<Bytes> datas;
  Bytes stream;
};

Wire make_wire(bool header_digest, bool data_digest, std::size_t pieces = 64, std::size_t sent = SIZE_MAX) {
  OutPduPool pool;
  TransmitQueue queue(pool);
  queue.set_digests(header_digest, data_digest);
  Wire wire;
  const Bytes ahs = pattern(20, 9);
  for (const std::size_t size : {0u, 1u, 2u, 3u, 4u, 511u, 4096u, 20000u, 0u, 70001u, 5u, 16384u, 0u}) {
    wire.datas.push_back(pattern(size, static_cast<unsigned>(size)));
  }
  for (std::size_t i = 0; i < wire.datas.size(); ++i) {
    queue.push(make_pdu(queue, static_cast<std::uint32_t>(i), wire.datas[i],
                        i % 3 == 1 ? std::span<const std::byte>(ahs) : std::span<const std::byte>{}));
  }
  wire.stream = drain(queue, pieces, sent);
  EXPECT_EQ(pool.in_use(), 0u);
  return wire;
}

void expect_all(const Wire& wire, const Collector& sink) {
  ASSERT_FALSE(sink.error);
  ASSERT_EQ(sink.seen.size(), wire.datas.size());
  for (std::size_t i = 0; i < wire.datas.size(); ++i) {
    EXPECT_EQ(header_as<AnyHeader>(sink.seen[i].header).task_tag, i);
    EXPECT_EQ(sink.seen[i].data, wire.datas[i]) << i;
    EXPECT_EQ(sink.seen[i].ahs.size(), i % 3 == 1 ? 20u : 0u);
  }
}

TEST(PduStream, SurvivesEverySplitWithAndWithoutDigests) {
  for (const bool header_digest : {false, true}) {
    for (const bool data_digest : {false, true}) {
      const Wire wire = make_wire(header_digest, data_digest);
      for (const std::size_t chunk : {1u, 3u, 47u, 48u, 49u, 1000u, 5000u, 1000000u}) {
        Collector sink;
        PduReader reader(sink);
        reader.set_limits({.data = 1 << 20, .header_digest = header_digest, .data_digest = data_digest});
        feed(reader, wire.stream, chunk);
        expect_all(wire, sink);
      }
    }
  }
}

TEST(PduStream, WhatIsSentDoesNotDependOnHowItIsGathered) {
  const Wire all = make_wire(true, true);
  for (const std::size_t pieces : {4u, 5u, 7u}) {
    for (const std::size_t sent : {1u, 13u, 4097u}) EXPECT_EQ(make_wire(true, true, pieces, sent).stream, all.stream);
  }
}

TEST(PduStream, PlacesMayComeInPieces) {
  const Wire wire = make_wire(false, true);
  Collector sink;
  sink.piece = 5000;
  PduReader reader(sink);
  reader.set_limits({.data = 1 << 20, .data_digest = true});
  feed(reader, wire.stream, 100000);
  expect_all(wire, sink);
}

TEST(PduStream, ADiscardedSegmentDoesNotLoseTheStream) {
  const Wire wire = make_wire(true, true);
  Collector sink;
  sink.discards = true;
  PduReader reader(sink);
  reader.set_limits({.data = 1 << 20, .header_digest = true, .data_digest = true});
  feed(reader, wire.stream, 777);
  EXPECT_FALSE(sink.error);
  EXPECT_EQ(sink.seen.size(), wire.datas.size());
}

TEST(PduStream, LargeSegmentsAreReceivedInPlaceButForTheirFirstBytes) {
  OutPduPool pool;
  TransmitQueue queue(pool);
  const Bytes data = pattern(262144, 1);
  for (std::uint32_t i = 0; i < 8; ++i) queue.push(make_pdu(queue, i, data));
  const Bytes stream = drain(queue, 64, SIZE_MAX);
  Collector sink;
  PduReader reader(sink);
  reader.set_limits({.data = 1 << 20});
  std::size_t copied = 0;
  for (std::span<const std::byte> rest = stream; !rest.empty();) {
    const auto place = reader.receive_place();
    const std::size_t direct = std::min(place.direct.size(), rest.size());
    if (direct != 0) std::memcpy(place.direct.data(), rest.data(), direct);
    const std::size_t scratch = std::min({place.scratch, rest.size() - direct, std::size_t{131072}});
    copied += scratch;
    reader.received(direct, rest.subspan(direct, scratch));
    rest = rest.subspan(direct + scratch);
  }
  EXPECT_EQ(sink.seen.size(), 8u);
  EXPECT_EQ(sink.seen.back().data, data);
  // The first PDU finds an empty reader; from then on a header and a little more go through the receive buffer.
  EXPECT_LT(copied, 131072 + 8 * 2 * PduReader::kTailAfterDirect);
}

TEST(PduStream, AFlippedBitIsFoundByTheDigests) {
  const Wire wire = make_wire(true, true);
  for (const std::size_t at : {0u, 20u, 47u, 50u}) {
    Bytes bad = wire.stream;
    bad[at] ^= std::byte{1};
    Collector sink;
    PduReader reader(sink);
    reader.set_limits({.data = 1 << 20, .header_digest = true, .data_digest = true});
    feed(reader, bad, 4096);
    // A flipped AHS length makes the header longer than is allowed or checks out wrong: either way it ends here.
    ASSERT_TRUE(sink.error) << at;
    EXPECT_EQ(*sink.error, ReadError::header_digest);
    EXPECT_TRUE(sink.seen.empty());
    EXPECT_TRUE(reader.stopped());
  }
  // The second PDU: header 48 + AHS 20 + digest 4, then one byte of data, padding and its digest.
  const std::size_t second = 52;
  for (const std::size_t at : {second + 72, second + 73, second + 76}) {
    Bytes bad = wire.stream;
    bad[at] ^= std::byte{0x80};
    Collector sink;
    PduReader reader(sink);
    reader.set_limits({.data = 1 << 20, .header_digest = true, .data_digest = true});
    feed(reader, bad, 4096);
    ASSERT_TRUE(sink.error) << at;
    EXPECT_EQ(*sink.error, ReadError::data_digest);
    EXPECT_EQ(sink.seen.size(), 1u);
  }
}

TEST(PduStream, LengthsBeyondTheLimitsEndTheStream) {
  auto header = make_header<AnyHeader>(Opcode::nop_out);
  header.data_length = 8193;
  Collector sink;
  PduReader reader(sink);
  feed(reader, bytes_of(header), 48);
  EXPECT_EQ(sink.error, ReadError::data_too_long);

  header.data_length = 0;
  header.ahs_words = 255;
  Collector other;
  PduReader second(other);
  feed(second, bytes_of(header), 48);
  EXPECT_EQ(other.error, ReadError::header_too_long);
}

TEST(PduStream, DigestOfTheStandardsExampleGoesOutLeastSignificantByteFirst) {
  // RFC 7143 appendix A.4: 32 bytes of zeros have the digest aa 36 91 8a on the wire.
  OutPduPool pool;
  TransmitQueue queue(pool);
  queue.set_digests(false, true);
  const Bytes zeros(32);
  queue.push(make_pdu(queue, 0, zeros));
  const Bytes stream = drain(queue, 8, SIZE_MAX);
  ASSERT_EQ(stream.size(), 48u + 32 + 4);
  const Bytes digest(stream.end() - 4, stream.end());
  EXPECT_EQ(digest, (Bytes{std::byte{0xAA}, std::byte{0x36}, std::byte{0x91}, std::byte{0x8A}}));
}

TEST(PduStream, ADroppedQueueTellsEveryOwner) {
  OutPduPool pool;
  TransmitQueue queue(pool);
  int unsent = 0;
  for (std::uint32_t i = 0; i < 3; ++i) {
    OutPdu& pdu = make_pdu(queue, i, {});
    pdu.owner = &unsent;
    pdu.done = [](void* owner, bool sent) { *static_cast<int*>(owner) += sent ? 100 : 1; };
    queue.push(pdu);
  }
  queue.sent(48);
  queue.drop();
  EXPECT_EQ(unsent, 102);
  EXPECT_EQ(pool.in_use(), 0u);
}

}  // namespace
}  // namespace lockstep::iscsi
