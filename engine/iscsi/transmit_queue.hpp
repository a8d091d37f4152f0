#pragma once
// PDUs on their way out: header, additional headers, digests and padding in a slot, data wherever it lies. What is
// queued is gathered into one send; slots come from a free list that sessions of a reactor share.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/iscsi/pdu.hpp"

namespace lockstep::iscsi {

/// One PDU to send. Fill header (and AHS, data), then TransmitQueue::push(), which sets the lengths in the header.
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

  /// Runs when the last byte was handed to the system, or with `sent` false when the queue was dropped; then the slot
  /// is the pool's again. May be null.
  void (*done)(void* owner, bool sent) = nullptr;
  void* owner = nullptr;

 private:
  friend class TransmitQueue;
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

class TransmitQueue {
 public:
  explicit TransmitQueue(OutPduPool& pool) : pool_(pool) {}
  TransmitQueue(const TransmitQueue&) = delete;
  TransmitQueue& operator=(const TransmitQueue&) = delete;
  ~TransmitQueue() { drop(); }

  /// For what is pushed from now on.
  void set_digests(bool header, bool data) { header_digest_ = header, data_digest_ = data; }
  /// A slot of the pool to fill and push.
  [[nodiscard]] OutPdu& make() { return pool_.get(); }
  void push(OutPdu& pdu);
  /// Before everything of which no byte was sent yet.
  void push_ahead(OutPdu& pdu);

  /// As StreamProtocol::gather() and sent().
  std::size_t gather(std::span<std::span<const std::byte>> pieces) const;
  void sent(std::size_t bytes);
  /// Forgets everything; each slot's `done` runs with false.
  void drop();

  [[nodiscard]] bool empty() const { return first_ == nullptr; }
  [[nodiscard]] std::size_t size() const { return size_; }  ///< PDUs

 private:
  void seal(OutPdu& pdu) const;

  OutPduPool& pool_;
  bool header_digest_ = false;
  bool data_digest_ = false;
  OutPdu* first_ = nullptr;
  OutPdu* last_ = nullptr;
  std::size_t size_ = 0;
  std::size_t first_sent_ = 0;  // bytes of the first PDU that are gone
};

}  // namespace lockstep::iscsi
