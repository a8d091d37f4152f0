#pragma once
// The witness that a node's shards share. Another one may take its place while they use it.
#include <cstdint>

#include "replication/core/arbiter.hpp"

namespace lockstep::data_plane {

class SharedWitness : public replication::Witness {
 public:
  /// How often another witness, or none, took the place of the one before.
  [[nodiscard]] virtual std::uint64_t uses() const = 0;
};

}  // namespace lockstep::data_plane
