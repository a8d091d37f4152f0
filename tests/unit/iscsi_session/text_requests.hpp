#pragma once
// Text requests of a raw initiator, and their answers: '|' stands for the zero that ends a key.
#include <optional>
#include <string>

#include "tests/unit/iscsi_session/raw_initiator.hpp"

namespace lockstep::test {

inline std::string text_of(const std::optional<ReceivedPdu>& pdu) {
  std::string text;
  if (!pdu) return "closed";
  for (const std::byte b : pdu->data) text.push_back(b == std::byte{0} ? '|' : static_cast<char>(b));
  return text;
}

inline iscsi::TextRequestHeader text_request(std::uint32_t tag = 77) {
  auto header = iscsi::make_header<iscsi::TextRequestHeader>(iscsi::Opcode::text_request, iscsi::kFinal);
  header.opcode |= iscsi::kImmediate;
  header.task_tag = tag;
  header.transfer_tag = iscsi::kReservedTag;
  return header;
}

inline std::string ask(RawInitiator& initiator, std::string text) {
  for (char& c : text) {
    if (c == '|') c = '\0';
  }
  initiator.send(text_request(), std::as_bytes(std::span(text)));
  return text_of(initiator.receive());
}

}  // namespace lockstep::test
