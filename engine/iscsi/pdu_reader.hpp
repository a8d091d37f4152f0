#pragma once
// Bytes in, PDUs out. One receive may bring many PDUs or a piece of one. Data segments go straight to where the sink
// wants them: large ones by the receive itself, small ones by one copy out of the receive buffer. Keeps nothing but
// one header between calls.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/iscsi/pdu.hpp"
#include "engine/net/stream.hpp"

namespace lockstep::iscsi {

enum class ReadError : std::uint8_t { header_digest, data_digest, header_too_long, data_too_long };
[[nodiscard]] const char* to_string(ReadError error);

class PduSink {
 public:
  /// A header with its additional segments; its digest was good. `header` is valid until the next one,
  /// `ahs` during the call.
  virtual void on_header(const Bhs& header, std::span<const std::byte> ahs, std::uint32_t data_length) = 0;
  /// Where the data segment's bytes from `offset` on go. What does not fit is asked for again; an empty span discards
  /// what is at hand. Asked anew for every piece, so the answer need only hold until the next call of anything here.
  virtual std::span<std::byte> data_place(std::uint32_t offset) = 0;
  /// The PDU is whole and its data digest good. Follows every on_header() unless an error comes first.
  virtual void on_pdu() = 0;
  /// The stream cannot be followed any further; no other call follows.
  virtual void on_read_error(ReadError error) = 0;

 protected:
  ~PduSink() = default;
};

struct ReadLimits {
  std::uint32_t data = 8192;  ///< bytes a data segment may have: our declared MaxRecvDataSegmentLength
  std::size_t ahs = kMaxAhs;  ///< bytes
  bool header_digest = false;
  bool data_digest = false;
};

class PduReader {
 public:
  /// Below this a data segment's rest is taken from the receive buffer rather than received in place.
  static constexpr std::size_t kDirectMin = 4096;
  /// From this size on data segments are worth keeping out of the receive buffer: while they keep coming, it takes no
  /// more than kTailAfterDirect bytes at a time, a header and a little more.
  static constexpr std::uint32_t kLargeSegment = 16 << 10;
  static constexpr std::size_t kTailAfterDirect = 4096;

  PduReader() = default;  ///< then start()
  explicit PduReader(PduSink& sink) : sink_(&sink) {}
  /// Before the first byte.
  void start(PduSink& sink) { sink_ = &sink; }

  /// Takes effect with the next header: call it between PDUs (from on_pdu(), or before the first byte).
  void set_limits(const ReadLimits& limits) { limits_ = limits; }
  [[nodiscard]] const ReadLimits& limits() const { return limits_; }

  [[nodiscard]] engine::ReceivePlace receive_place();
  /// `direct` bytes landed in the place's direct part, then `scratch` came. May be called with any split of the stream.
  void received(std::size_t direct, std::span<const std::byte> scratch);
  /// Everything that comes from now on is thrown away. May be called from the sink.
  void stop() { part_ = Part::stopped; }
  [[nodiscard]] bool stopped() const { return part_ == Part::stopped; }
  /// A PDU has begun and is not whole.
  [[nodiscard]] bool midway() const { return part_ == Part::header ? have_ != 0 : part_ != Part::stopped; }
  /// The header of the PDU under way, or the last one.
  [[nodiscard]] const Bhs& header() const { return header_; }

 private:
  enum class Part : std::uint8_t { header, data, trailer, stopped };

  std::span<const std::byte> take_header(std::span<const std::byte> bytes);
  std::span<const std::byte> take_data(std::span<const std::byte> bytes);
  std::span<const std::byte> take_trailer(std::span<const std::byte> bytes);
  void header_whole();
  void data_advanced(std::span<const std::byte> bytes);
  void data_whole();
  void finish();
  void fail(ReadError error);

  PduSink* sink_ = nullptr;
  ReadLimits limits_;
  Part part_ = Part::header;
  std::uint8_t large_lately_ = 0;  // counts down the PDUs since the last large segment
  std::uint32_t have_ = 0;         // bytes of the current part
  std::uint32_t header_need_ = kBhsSize;
  std::uint32_t data_length_ = 0;
  std::uint32_t data_crc_ = 0;
  std::uint32_t trailer_need_ = 0;
  std::span<std::byte> direct_;  // what receive_place() gave last
  Bhs header_{};
  std::array<std::byte, kMaxAhs + kDigestSize> ahs_{};
  std::array<std::byte, 3 + kDigestSize> trailer_{};
};

}  // namespace lockstep::iscsi
