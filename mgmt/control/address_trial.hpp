#pragma once
// What one node is asked to try of addresses, its own or its partner's, that nothing relies on yet.
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "mgmt/control/data_plane.hpp"
#include "mgmt/control/node_report.hpp"
#include "mgmt/control/refusal.hpp"

namespace lockstep::mgmt {

class NodeCore;

struct AddressTrial {
  std::vector<std::string> listen;  ///< by its lockstepd: portals, and where the link is to be listened for
  std::string management;           ///< by its lockstep-mgmtd; empty: nowhere
  std::string link_from;            ///< a login at the partner's lockstepd from there …
  std::string link_to;              ///< … to there; empty: none
  std::string partner;              ///< where the partner's lockstep-mgmtd is asked; empty: nowhere
  bool operator==(const AddressTrial&) const = default;
};
/// What failed: the address, and a sentence.
using AddressProblems = std::vector<ApplyProblem>;

[[nodiscard]] std::string to_json_text(const AddressTrial& trial);
[[nodiscard]] Outcome<AddressTrial> address_trial_from(std::string_view json);
[[nodiscard]] std::string to_json_text(const AddressProblems& problems);
[[nodiscard]] Outcome<AddressProblems> address_problems_from(std::string_view json);

/// Whether somebody could listen there now; else a sentence.
[[nodiscard]] std::optional<std::string> why_not_listen(const std::string& address);
/// Whether `listened` ("0.0.0.0:8443") is where a call to `address` arrives.
[[nodiscard]] bool covers(const std::string& listened, const std::string& address);

/// Carries such a trial out on this node. Refusal data_plane_away: lockstepd had to be asked and does not run.
class AddressAgent {
 public:
  AddressAgent(NodeCore& core, DataPlane& data_plane) : core_(core), data_plane_(data_plane) {}
  [[nodiscard]] Outcome<AddressProblems> try_out(const AddressTrial& trial) const;

 private:
  NodeCore& core_;
  DataPlane& data_plane_;
};

}  // namespace lockstep::mgmt
