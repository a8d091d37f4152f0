#include "mgmt/process/secrecy.hpp"

#include <cerrno>
#include <cstring>

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>

namespace lockstep::mgmt {

void forbid_dumps() {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  (void)::prctl(PR_SET_DUMPABLE, 0);
#endif
}

std::optional<std::string> keep_in_memory() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur != RLIM_INFINITY) {
    return "Memory may be swapped out, keys with it: the limit of locked memory (ulimit -l) is not unlimited.";
  }
  if (::mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) != 0) {
    return std::string("Memory may be swapped out, keys with it: ") + std::strerror(errno) + ".";
  }
  return {};
}

}  // namespace lockstep::mgmt
