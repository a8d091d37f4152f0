#include "engine/iscsi/pdu_reader.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "engine/base/crc32c.hpp"

namespace lockstep::iscsi {
namespace {

constexpr std::uint8_t kLargeMemory = 8;  // PDUs

// RFC 7143 13.1: the digest goes out least significant byte first.
std::uint32_t load_digest(const std::byte* at) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < kDigestSize; ++i) value |= std::to_integer<std::uint32_t>(at[i]) << (8 * i);
  return value;
}

}  // namespace

const char* to_string(ReadError error) {
  switch (error) {
    case ReadError::header_digest:
      return "header digest does not match";
    case ReadError::data_digest:
      return "data digest does not match";
    case ReadError::header_too_long:
      return "additional headers are too long";
    case ReadError::data_too_long:
      return "data segment is longer than declared acceptable";
  }
  return "unknown";
}

engine::ReceivePlace PduReader::receive_place() {
  direct_ = {};
  const std::size_t scratch = large_lately_ != 0 ? kTailAfterDirect : SIZE_MAX;
  if (part_ != Part::data) return {{}, scratch};
  const std::size_t rest = data_length_ - have_;
  if (rest < kDirectMin) return {{}, scratch};
  const auto place = sink_->data_place(have_);
  if (place.size() < kDirectMin) return {{}, scratch};
  direct_ = place.first(std::min(place.size(), rest));
  // Only when the whole rest fits the place may what follows it go to the receive buffer.
  return {direct_, direct_.size() == rest ? scratch : 0};
}

void PduReader::received(std::size_t direct, std::span<const std::byte> scratch) {
  if (direct != 0 && part_ == Part::data) {
    assert(direct <= direct_.size());
    data_advanced(direct_.first(direct));
  }
  while (!scratch.empty() && part_ != Part::stopped) {
    switch (part_) {
      case Part::header:
        scratch = take_header(scratch);
        break;
      case Part::data:
        scratch = take_data(scratch);
        break;
      case Part::trailer:
        scratch = take_trailer(scratch);
        break;
      case Part::stopped:
        return;
    }
  }
}

std::span<const std::byte> PduReader::take_header(std::span<const std::byte> bytes) {
  const std::size_t n = std::min<std::size_t>(bytes.size(), header_need_ - have_);
  std::byte* const to = have_ < kBhsSize ? header_.data() + have_ : ahs_.data() + (have_ - kBhsSize);
  std::memcpy(to, bytes.data(), n);
  have_ += static_cast<std::uint32_t>(n);
  if (have_ < header_need_) return bytes.subspan(n);
  if (header_need_ == kBhsSize) {
    const std::size_t ahs = 4 * std::to_integer<std::size_t>(header_[4]);
    if (ahs > std::min(limits_.ahs, kMaxAhs)) return fail(ReadError::header_too_long), bytes.subspan(n);
    header_need_ += static_cast<std::uint32_t>(ahs + (limits_.header_digest ? kDigestSize : 0));
    if (header_need_ != kBhsSize) return bytes.subspan(n);
  }
  header_whole();
  return bytes.subspan(n);
}

void PduReader::header_whole() {
  const std::size_t ahs = 4 * std::to_integer<std::size_t>(header_[4]);
  const std::span<const std::byte> additional(ahs_.data(), ahs);
  if (limits_.header_digest && engine::crc32c(additional, engine::crc32c(header_)) != load_digest(ahs_.data() + ahs)) {
    return fail(ReadError::header_digest);
  }
  data_length_ = header_as<AnyHeader>(header_).data_length;
  if (data_length_ > limits_.data) return fail(ReadError::data_too_long);
  if (data_length_ >= kLargeSegment) {
    large_lately_ = kLargeMemory;
  } else if (large_lately_ != 0) {
    --large_lately_;
  }
  have_ = 0;
  data_crc_ = 0;
  trailer_need_ = data_length_ == 0
                      ? 0
                      : static_cast<std::uint32_t>(padding_of(data_length_) + (limits_.data_digest ? kDigestSize : 0));
  part_ = Part::data;
  sink_->on_header(header_, additional, data_length_);
  if (data_length_ == 0 && part_ == Part::data) finish();
}

std::span<const std::byte> PduReader::take_data(std::span<const std::byte> bytes) {
  const std::size_t n = std::min<std::size_t>(bytes.size(), data_length_ - have_);
  for (std::size_t done = 0; done < n;) {
    const auto place = sink_->data_place(have_ + static_cast<std::uint32_t>(done));
    if (place.empty()) break;
    const std::size_t part = std::min(place.size(), n - done);
    std::memcpy(place.data(), bytes.data() + done, part);
    done += part;
  }
  data_advanced(bytes.first(n));
  return bytes.subspan(n);
}

void PduReader::data_advanced(std::span<const std::byte> bytes) {
  if (limits_.data_digest) data_crc_ = engine::crc32c(bytes, data_crc_);
  have_ += static_cast<std::uint32_t>(bytes.size());
  if (have_ == data_length_) data_whole();
}

void PduReader::data_whole() {
  if (trailer_need_ == 0) return finish();
  have_ = 0;
  part_ = Part::trailer;
}

std::span<const std::byte> PduReader::take_trailer(std::span<const std::byte> bytes) {
  const std::size_t n = std::min<std::size_t>(bytes.size(), trailer_need_ - have_);
  std::memcpy(trailer_.data() + have_, bytes.data(), n);
  have_ += static_cast<std::uint32_t>(n);
  if (have_ < trailer_need_) return bytes.subspan(n);
  const std::size_t padding = padding_of(data_length_);
  if (limits_.data_digest) {  // covers the padding too, RFC 7143 11.2.3
    const auto crc = engine::crc32c(std::span(trailer_).first(padding), data_crc_);
    if (crc != load_digest(trailer_.data() + padding)) return fail(ReadError::data_digest), bytes.subspan(n);
  }
  finish();
  return bytes.subspan(n);
}

void PduReader::finish() {
  part_ = Part::header;
  have_ = 0;
  header_need_ = kBhsSize;
  sink_->on_pdu();
}

void PduReader::fail(ReadError error) {
  stop();
  sink_->on_read_error(error);
}

}  // namespace lockstep::iscsi
