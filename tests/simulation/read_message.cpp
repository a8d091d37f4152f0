#include "tests/simulation/read_message.hpp"

#include "replication/core/messages.hpp"
#include "replication/link/channel/channel_frames.hpp"

namespace lockstep::simulation {
namespace {

/// Of requests and answers: their frames begin alike.
std::string read_frame(std::span<const std::byte> header) {
  if (replication::is_join(header) && replication::decode_join(header)) return "join";
  if (const auto frame = replication::decode_request_frame(header);
      frame && header.size() > replication::kRequestFrame) {
    const auto rest = header.subspan(replication::kRequestFrame);
    if (replication::decode(rest)) {
      return "#" + std::to_string(frame->number.value) + " (has answer " + std::to_string(frame->acknowledged.value) +
             ") " + read_message(rest);
    }
  }
  if (const auto frame = replication::decode_answer_frame(header); frame && header.size() > replication::kAnswerFrame) {
    const auto rest = header.subspan(replication::kAnswerFrame);
    if (replication::decode(rest)) return "answer " + std::to_string(frame->number.value) + ": " + read_message(rest);
  }
  return "a frame of the link session";
}

}  // namespace

std::string read_message(std::span<const std::byte> header) {
  if (replication::is_channel_frame(header)) return read_frame(header);
  const auto m = replication::decode(header);
  if (!m) return "a header that makes no sense";
  static constexpr const char* kTypes[] = {
      "?",     "hello", "heartbeat", "state", "propose", "resume",   "replicate", "forward", "watermark", "flush",
      "clear", "map",   "copy",      "fetch", "equal",   "lu_state", "reserve",   "cancel",  "generation"};
  const auto type = static_cast<std::size_t>(m->type);
  std::string text = type < std::size(kTypes) ? kTypes[type] : "message " + std::to_string(type);
  if (m->answer) text += " answered " + make_error_code(m->status).message();
  const auto value = [&](const char* name, std::uint64_t v) {
    if (v != 0) text += std::string(" ") + name + "=" + std::to_string(v);
  };
  value("number", m->number);
  value("opcode", static_cast<std::uint64_t>(m->opcode));
  value("sequence", m->sequence);
  value("watermark", m->watermark);
  value("tag", m->tag);
  value("offset", m->extent.offset);
  value("length", m->extent.length);
  value("stamp", m->stamp);
  return text;
}

}  // namespace lockstep::simulation
