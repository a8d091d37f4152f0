#pragma once
// PDUs on their way into a byte stream: what is queued is gathered into one send.
#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/iscsi/pdu_sender.hpp"

namespace lockstep::iscsi {

class TransmitQueue final : public PduSender {
 public:
  explicit TransmitQueue(OutPduPool& pool) : PduSender(pool) {}
  ~TransmitQueue() { drop(); }

  /// For what is pushed from now on.
  void set_digests(bool header, bool data) { header_digest_ = header, data_digest_ = data; }
  void push(OutPdu& pdu) override;
  void push_ahead(OutPdu& pdu) override;

  /// As StreamProtocol::gather() and sent().
  std::size_t gather(std::span<std::span<const std::byte>> pieces) const;
  void sent(std::size_t bytes);
  /// Forgets everything; each slot's `done` runs with false.
  void drop();

 private:
  void seal(OutPdu& pdu) const;

  bool header_digest_ = false;
  bool data_digest_ = false;
  OutPdu* first_ = nullptr;
  OutPdu* last_ = nullptr;
  std::size_t first_sent_ = 0;  // bytes of the first PDU that are gone
};

}  // namespace lockstep::iscsi
