#include "mgmt/data_plane/version.hpp"

namespace lockstep::mgmt {

const char* const kVersion = LOCKSTEP_VERSION;

}  // namespace lockstep::mgmt
