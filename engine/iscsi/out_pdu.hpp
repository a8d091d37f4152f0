#pragma once
// One PDU on its way out: header, additional headers, digests and padding in a slot, data wherever it lies. Slots come
// from a free list that the sessions of a reactor share.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/iscsi/pdu.hpp"

namespace lockstep::iser {
class SendQueue;
}

namespace lockstep::iscsi {

/// One PDU to send. Fill header (and AHS, data), then PduSender::push(): the lengths in the header are set by it.
class OutPdu {
 public:
  template <Header T>
  void set_header(const T& header) {
    const Bhs bytes = bytes_of(header);
    std::copy(bytes.begin(), bytes.end(), head_.begin());
  }
  /// At most kMaxAhs bytes, a multiple of four.
  void set_ahs(std::span<const std::byte> ahs);
  /// Data that stays valid until `done`; up to two pieces.
  void set_data(std::span<const std::byte> first, std::span<const std::byte> second = {}) { data_ = {first, second}; }
  /// Data that is copied into the slot.
  void copy_data(std::span<const std::byte> data);

  /// Runs when nothing reads the PDU's data any more: it was sent (a stream: handed to the system), or, with `sent`
  /// false, its transport has ended; then the slot is the pool's again. May be null.
  void (*done)(void* owner, bool sent) = nullptr;
  void* owner = nullptr;
  /// iSER: a key of the initiator's memory, which its network card forgets when the PDU has come.
  std::optional<std::uint32_t> invalidates;
  /// iSER: the header that goes ahead of this PDU, where it is not the plain one.
  std::optional<std::array<std::byte, 28>> lead;
  /// iSER, protected: what stands ahead of that.
  std::optional<std::array<std::byte, 40>> protection;

 private:
  friend class TransmitQueue;
  friend class iser::SendQueue;
  friend class OutPduPool;
  std::array<std::byte, kBhsSize + kMaxAhs + kDigestSize> head_;
  std::array<std::byte, 3 + kDigestSize> tail_;
  std::uint16_t ahs_length_ = 0;
  std::uint16_t head_length_ = 0;
  std::uint8_t tail_length_ = 0;
  std::array<std::span<const std::byte>, 2> data_;
  std::vector<std::byte> copy_;
  OutPdu* next_ = nullptr;
};

/// Free slots of one reactor. Grows as needed; every user bounds what it holds.
class OutPduPool {
 public:
  OutPduPool() = default;
  OutPduPool(const OutPduPool&) = delete;
  OutPduPool& operator=(const OutPduPool&) = delete;
  ~OutPduPool();
  [[nodiscard]] OutPdu& get();
  void put(OutPdu& slot);
  [[nodiscard]] std::size_t in_use() const { return in_use_; }

 private:
  OutPdu* free_ = nullptr;
  std::size_t in_use_ = 0;
};

}  // namespace lockstep::iscsi
