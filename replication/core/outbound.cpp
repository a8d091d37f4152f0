#include "replication/core/outbound.hpp"

namespace lockstep::replication {

Message Outbound::message(MessageType type) const {
  const engine::EpochRecord& epoch = store_.meta->epoch();
  Message m;
  m.type = type;
  m.volume = store_.info.id;
  m.epoch = epoch.id;
  m.number = epoch.number;
  m.watermark = sequences.watermark();
  return m;
}

std::uint16_t Outbound::flags_of(const Op& op) const {
  const bool durable = store_.durability(op.fua) == engine::Durability::durable;
  return static_cast<std::uint16_t>((durable ? kFlagFua : 0) | (op.may_unmap ? kFlagMayUnmap : 0));
}

}  // namespace lockstep::replication
