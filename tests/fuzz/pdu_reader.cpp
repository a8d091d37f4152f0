// Any bytes, cut into any pieces, with any digests: the reader gives whole PDUs or one error, and never a byte too
// many.
#include "engine/iscsi/pdu_reader.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstdint>
#include <span>

namespace {

class Sink final : public lockstep::iscsi::PduSink {
 public:
  void on_header(const lockstep::iscsi::Bhs&, std::span<const std::byte>, std::uint32_t data_length) override {
    assert(!open_ && !failed_);
    assert(data_length <= limit);
    open_ = true;
    length_ = data_length;
  }
  std::span<std::byte> data_place(std::uint32_t offset) override {
    assert(open_ && offset < length_);
    // Every third place is refused: what is at hand is to be thrown away then.
    if (++asked_ % 3 == 0) return {};
    return std::span(room_).first(std::min<std::size_t>(room_.size(), length_ - offset));
  }
  void on_pdu() override {
    assert(open_ && !failed_);
    open_ = false;
  }
  void on_read_error(lockstep::iscsi::ReadError) override {
    assert(!failed_);
    failed_ = true;
  }
  static constexpr std::uint32_t limit = 65536;

 private:
  std::array<std::byte, 1024> room_{};
  std::uint32_t length_ = 0;
  unsigned asked_ = 0;
  bool open_ = false, failed_ = false;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  Sink sink;
  lockstep::iscsi::PduReader reader(sink);
  reader.set_limits({.data = Sink::limit, .header_digest = (data[0] & 1) != 0, .data_digest = (data[0] & 2) != 0});
  const std::size_t piece = data[1] + 1u;
  auto rest = std::as_bytes(std::span(data, size)).subspan(2);
  while (!rest.empty() && !reader.stopped()) {
    const auto place = reader.receive_place();
    const auto direct = std::min({place.direct.size(), rest.size(), piece});
    std::copy_n(rest.begin(), direct, place.direct.begin());
    rest = rest.subspan(direct);
    const auto scratch = rest.first(std::min({place.scratch, rest.size(), piece}));
    if (direct == 0 && scratch.empty()) break;
    rest = rest.subspan(scratch.size());
    reader.received(direct, scratch);
  }
  return 0;
}
