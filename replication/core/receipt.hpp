#pragma once
#include "engine/seams/clock.hpp"

namespace lockstep::replication {

/// When an initiator's command came. A program that stood still gets to see commands that waited in its machine, and
/// that their hosts may have given up meanwhile. So how old a command is, and whether something happened after it came,
/// are two questions.
struct Receipt {
  engine::TimePoint since;  ///< it came no earlier
  engine::TimePoint taken;  ///< it came no later: when this program took it
};

}  // namespace lockstep::replication
