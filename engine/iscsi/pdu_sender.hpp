#pragma once
// Where a session puts the PDUs that it has to send: make one, fill it, push it. How they leave is the transport's.
#include <cstddef>

#include "engine/iscsi/out_pdu.hpp"

namespace lockstep::iscsi {

class PduSender {
 public:
  PduSender(const PduSender&) = delete;
  PduSender& operator=(const PduSender&) = delete;

  /// A slot of the pool to fill and push.
  [[nodiscard]] OutPdu& make() { return pool_.get(); }
  virtual void push(OutPdu& pdu) = 0;
  /// Before everything of which no byte was sent yet.
  virtual void push_ahead(OutPdu& pdu) = 0;

  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] std::size_t size() const { return size_; }  ///< PDUs that were pushed and may still be read

 protected:
  explicit PduSender(OutPduPool& pool) : pool_(pool) {}
  ~PduSender() = default;

  OutPduPool& pool_;
  std::size_t size_ = 0;
};

}  // namespace lockstep::iscsi
