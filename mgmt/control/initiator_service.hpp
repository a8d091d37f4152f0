#pragma once
// The hosts that may use volumes.
#include <string>

#include "mgmt/control/credentials_change.hpp"
#include "mgmt/control/node_core.hpp"

namespace lockstep::mgmt {

constexpr std::size_t kMaxInitiators = 1024;

class InitiatorService {
 public:
  explicit InitiatorService(NodeCore& core) : core_(core) {}
  [[nodiscard]] Outcome<Initiator> create(Initiator wanted);
  [[nodiscard]] Outcome<void> remove(const std::string& iqn);
  [[nodiscard]] Outcome<Initiator> change_credentials(const CredentialsChange& change);
  /// From now on only those in force are accepted.
  [[nodiscard]] Outcome<void> end_old_credentials(const std::string& iqn);

 private:
  NodeCore& core_;
};

}  // namespace lockstep::mgmt
