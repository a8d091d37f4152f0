#pragma once
// What a daemon has in memory, the keys of volumes and of the pair among it, stays there.
#include <optional>
#include <string>

namespace lockstep::mgmt {

/// From now on no core dump is written of this process, and no other process of its user can look into its memory or
/// trace it (prctl(2), PR_SET_DUMPABLE). A build with sanitizers is left as it is: the leak checker traces itself.
void forbid_dumps();

/// From now on no memory of this process is swapped out, so that no key reaches a disk and nobody waits for a page to
/// come back; memory that nobody has used yet takes none (mlockall(2), MCL_ONFAULT). Does nothing, and says why, where
/// the limit (RLIMIT_MEMLOCK) is less than unlimited: with such a one memory would run out at it.
[[nodiscard]] std::optional<std::string> keep_in_memory();

}  // namespace lockstep::mgmt
