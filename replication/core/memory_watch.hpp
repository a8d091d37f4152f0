#pragma once
// How a process of a machine that was set back to a snapshot with its memory is known for what it is: it has the id
// that it had, and numbers anew what it had numbered already, while its partner remembers both.
//
// Each process counts what it says in hello, heartbeats and their answers, and tells the highest count of its partner's
// that it has heard. The count is in the process's memory, so that it goes back with that for certain. No clock does:
// CLOCK_BOOTTIME, which stamps are of, goes back with a virtual machine's memory as a rule, but runs again meanwhile,
// may be past what the partner heard before the two meet again, and may be set forward by who resumes the machine. So a
// stamp that went back tells, too (a partner of an earlier version counts nothing), and one that did not tells nothing.
//
// Which of two counts was said later is known only where one was heard before the other can have been said: answers are
// said after their questions, what a session brings after all that the sessions before it brought. Answers and
// questions overtake one another.
#include <algorithm>
#include <cstdint>

#include "replication/core/messages.hpp"

namespace lockstep::replication {

class MemoryWatch {
 public:
  enum class Finding : std::uint8_t {
    nothing,
    this_process,  ///< was set back: the partner has heard of it what it has yet to say
    partner,       ///< was
  };
  /// What had been heard when a question was sent, and of which process.
  struct Heard {
    engine::Uuid process;
    std::uint64_t count = 0, stamp = 0;
  };

  explicit MemoryWatch(const engine::Uuid& process) : process_(process) {}

  /// In every hello, heartbeat, and answer to one, at its sending.
  void tell(Message& message);
  [[nodiscard]] Heard heard() const { return {partner_, heard_, stamp_}; }
  /// That process is the partner's.
  void meet(const engine::Uuid& partner);
  /// Another session of the partner's begins.
  void on_inbound_up() { before_session_ = questions_; }
  // Of the partner's process, and by its present session. What is told of one that is not known yet is of no interest
  // but for what it heard of this one.
  [[nodiscard]] Finding hear_question(const Message& question);
  [[nodiscard]] Finding hear_answer(const Message& answer, const Heard& before);

 private:
  [[nodiscard]] bool is_ahead_of_this(const Message& message) const {
    return message.volume == process_ && message.lowest_tag > said_;
  }

  const engine::Uuid process_;
  engine::Uuid partner_;
  std::uint64_t said_ = 0;            ///< the latest count of this process
  std::uint64_t heard_ = 0;           ///< the highest of the partner's, of all that it said,
  std::uint64_t questions_ = 0;       ///< … in questions,
  std::uint64_t before_session_ = 0;  ///< … before its present session
  std::uint64_t stamp_ = 0;           ///< the highest of the partner's clock, in answers
};

}  // namespace lockstep::replication
