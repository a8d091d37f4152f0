#include "engine/metadata/identity.hpp"

#include <algorithm>

namespace lockstep::engine {

bool EpochRecord::descends_from(const EpochRecord& older) const {
  return id == older.id || std::ranges::find(ancestors, older.id) != ancestors.end();
}

}  // namespace lockstep::engine
