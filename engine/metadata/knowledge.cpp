#include "engine/metadata/knowledge.hpp"

namespace lockstep::engine {

bool Knowledge::may_become(const Knowledge& next) const {
  if (next.generation < generation || next.partner_generation < partner_generation) return false;
  if (next.witness_repairs < witness_repairs) return false;
  if (next.witness_cluster == 0) return witness_cluster == 0;
  const bool same_line = next.witness_cluster == witness_cluster && next.witness_repairs == witness_repairs;
  return !same_line || next.witness_revision >= witness_revision;
}

}  // namespace lockstep::engine
