#pragma once
// PERSISTENT RESERVE OUT (SPC-4 6.16, 5.12) as a step of a logical unit's state.
#include "engine/scsi/lu_state.hpp"

namespace lockstep::scsi {

enum class ReserveOut : std::uint8_t {  // service actions, SPC-4 table 221
  register_key = 0x00,
  reserve = 0x01,
  release = 0x02,
  clear = 0x03,
  preempt = 0x04,
  preempt_and_abort = 0x05,
  register_and_ignore = 0x06,
  register_and_move = 0x07,
};

/// Sets outcome.answer, outcome.next and outcome.events; outcome.next is the state before. Where the answer is not GOOD
/// nothing else was changed.
void reserve_out(LuOutcome& outcome, const LuRequest& request);

}  // namespace lockstep::scsi
