#include "replication/core/memory_watch.hpp"

namespace lockstep::replication {

void MemoryWatch::tell(Message& message) {
  message.watermark = ++said_;
  message.lowest_tag = heard_;
  message.volume = partner_;
}

void MemoryWatch::meet(const engine::Uuid& partner) {
  if (partner == partner_) return;
  partner_ = partner;
  heard_ = questions_ = before_session_ = stamp_ = 0;
}

MemoryWatch::Finding MemoryWatch::hear_question(const Message& question) {
  if (is_ahead_of_this(question)) return Finding::this_process;
  const std::uint64_t count = question.watermark;
  if (question.process != partner_ || count == 0) return Finding::nothing;
  if (count <= before_session_) return Finding::partner;
  questions_ = std::max(questions_, count);
  heard_ = std::max(heard_, count);
  return Finding::nothing;
}

MemoryWatch::Finding MemoryWatch::hear_answer(const Message& answer, const Heard& before) {
  if (is_ahead_of_this(answer)) return Finding::this_process;
  if (answer.process != partner_) return Finding::nothing;
  const std::uint64_t count = answer.watermark;
  const bool went_back = (count != 0 && count <= before.count) || answer.stamp < before.stamp;
  if (went_back && answer.process == before.process) return Finding::partner;
  heard_ = std::max(heard_, count);
  stamp_ = std::max(stamp_, answer.stamp);
  return Finding::nothing;
}

}  // namespace lockstep::replication
