#include "mgmt/data_plane/version.hpp"

namespace lockstep::data_plane {

const char* const kVersion = LOCKSTEP_VERSION;

}  // namespace lockstep::data_plane
