#include "iscsi_target/session/command_slots.hpp"

#include <algorithm>
#include <cassert>

namespace lockstep::iscsi_target {

CommandSlots::CommandSlots(std::size_t count)
    : count_(count), tags_((count + kBlock - 1) / kBlock * kBlock, iscsi::kReservedTag), commands_(tags_.size()) {
  assert(count <= 256);
  free_.reserve(count);
  for (std::size_t i = count; i > 0; --i) free_.push_back(static_cast<std::uint8_t>(i - 1));
}

void CommandSlots::insert(SessionCommand& command) {
  assert(!full() && command.task_tag != iscsi::kReservedTag);
  const std::uint8_t slot = free_.back();
  free_.pop_back();
  tags_[slot] = command.task_tag;
  commands_[slot] = &command;
  used_ = std::max<std::size_t>(used_, slot + 1u);
  generation_ = (generation_ + 1) & 0x7FFFFF;  // so that no transfer tag is the reserved one
  command.slot = slot;
  command.transfer_tag = generation_ << 8 | slot;
}

void CommandSlots::erase(SessionCommand& command) {
  assert(commands_[command.slot] == &command);
  tags_[command.slot] = iscsi::kReservedTag;
  commands_[command.slot] = nullptr;
  free_.push_back(static_cast<std::uint8_t>(command.slot));
}

SessionCommand* CommandSlots::find(std::uint32_t transfer_tag, std::uint32_t task_tag) const {
  const std::size_t slot = transfer_tag & 0xFF;
  if (slot >= commands_.size() || commands_[slot] == nullptr) return nullptr;
  SessionCommand* const command = commands_[slot];
  return command->transfer_tag == transfer_tag && command->task_tag == task_tag ? command : nullptr;
}

}  // namespace lockstep::iscsi_target
