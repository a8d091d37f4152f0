#pragma once
// The hosts that may use volumes.
#include <string>

#include "mgmt/control/node_core.hpp"

namespace lockstep::mgmt {

constexpr std::size_t kMaxInitiators = 1024;

class InitiatorService {
 public:
  explicit InitiatorService(NodeCore& core) : core_(core) {}
  [[nodiscard]] Outcome<Initiator> create(Initiator wanted);
  [[nodiscard]] Outcome<void> remove(const std::string& iqn);

 private:
  NodeCore& core_;
};

}  // namespace lockstep::mgmt
