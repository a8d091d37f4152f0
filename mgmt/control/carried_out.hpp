#pragma once
// Whether both nodes' lockstepds do what the configuration says, for jobs that go on only then.
#include <optional>
#include <string>

#include "mgmt/control/replace_jobs.hpp"

namespace lockstep::mgmt {

/// Nothing when both lockstepds carry out what is in force, looked at afresh; else a sentence.
[[nodiscard]] std::optional<std::string> why_behind(NodeCore& core, const PairHands& hands);

/// Refuses while either node, or its lockstepd, does not answer; `consequence` is the sentence behind the reason.
[[nodiscard]] Outcome<void> both_run(const Configuration& configuration, const PairHands& hands,
                                     const char* consequence);

}  // namespace lockstep::mgmt
