#pragma once
#include <string>

namespace lockstep::mgmt {

/// A setting of lockstep-mgmtd's configuration file that is not in force, because the pair has another one.
struct FileDifference {
  std::string sentence;  ///< what the file says, and what is in force
  std::string advice;    ///< how to have one or the other
};

}  // namespace lockstep::mgmt
