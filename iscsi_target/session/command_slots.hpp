#pragma once
// The commands that a session has taken in and not answered, by initiator task tag and by target transfer tag.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "engine/iscsi/opcodes.hpp"
#include "iscsi_target/session/session_command.hpp"

namespace lockstep::iscsi_target {

class CommandSlots {
 public:
  /// At most 256: the slot's number is the transfer tag's low byte.
  explicit CommandSlots(std::size_t count);

  [[nodiscard]] bool full() const { return free_.empty(); }
  [[nodiscard]] std::size_t size() const { return count_ - free_.size(); }
  /// Not when full, and not twice with one task tag. Gives the command its slot and transfer tag.
  void insert(SessionCommand& command);
  void erase(SessionCommand& command);
  /// Null when there is none.
  [[nodiscard]] SessionCommand* find(std::uint32_t task_tag) const {
    // By blocks, which the compiler compares at once: nearly always there is none, and all have to be looked at.
    for (std::size_t begin = 0; begin < used_; begin += kBlock) {
      const std::uint32_t* const tags = &tags_[begin];
      std::uint32_t found = 0;
      for (std::size_t i = 0; i < kBlock; ++i) found |= tags[i] == task_tag ? ~0U : 0U;
      if (found != 0) [[unlikely]]
        return commands_[begin + static_cast<std::size_t>(std::find(tags, tags + kBlock, task_tag) - tags)];
    }
    return nullptr;
  }
  /// Null unless both tags are the same command's.
  [[nodiscard]] SessionCommand* find(std::uint32_t transfer_tag, std::uint32_t task_tag) const;
  /// By position, for walks in which commands may come and go; null where there is none.
  [[nodiscard]] std::size_t capacity() const { return count_; }
  [[nodiscard]] SessionCommand* at(std::size_t slot) const { return commands_[slot]; }

 private:
  static constexpr std::size_t kBlock = 16;

  std::size_t count_;
  std::vector<std::uint32_t> tags_;  // kReservedTag where free; whole blocks, as the next
  std::vector<SessionCommand*> commands_;
  std::vector<std::uint8_t> free_;
  std::size_t used_ = 0;  // slots below this were ever in use
  std::uint32_t generation_ = 0;
};

}  // namespace lockstep::iscsi_target
