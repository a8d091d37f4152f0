#pragma once
// Whether a witness is one that a pair could have: what can be seen in what was said of it, and what it answers itself.
#include <string>
#include <string_view>
#include <vector>

#include "mgmt/control/configuration.hpp"
#include "mgmt/control/data_plane.hpp"

namespace lockstep::mgmt {

/// With JSON pointers below /arbiter. Asks nobody.
[[nodiscard]] std::vector<FieldProblem> problems_of(const Arbiter& arbiter);

/// What came of asking one endpoint.
struct EndpointTrial {
  std::string endpoint;
  bool answers = false;
  bool refused = false;  ///< somebody answered, but not as a witness does
  std::string problem;   ///< a sentence without a full stop; empty when it answers
  std::string cluster;   ///< etcd's id of it, as lockstepd gives it; empty: it was not told
};
using WitnessTrial = std::vector<EndpointTrial>;  ///< by one node: of each endpoint, in their order

/// Has lockstepd ask each endpoint for something of `pair`, all at a time. Refusal data_plane_away: it can't be asked
/// to.
[[nodiscard]] Outcome<WitnessTrial> try_endpoints(DataPlane& data_plane, const Uuid& pair, const Arbiter& arbiter);
[[nodiscard]] std::string to_json_text(const WitnessTrial& trial);
[[nodiscard]] Outcome<WitnessTrial> witness_trial_from(std::string_view json);

/// Before a pair is made. Refusal invalid when an endpoint answers as a witness does not (the wrong certificate, a
/// wrong password, no etcd), or is of another cluster than the others. One that is not reached now is no refusal, and
/// none can be asked while lockstepd is away: the pair then shows that its witness is lost.
[[nodiscard]] Outcome<void> try_witness(DataPlane& data_plane, const Uuid& pair, const Arbiter& arbiter);

struct NodeTrial {
  std::string node;  ///< its name
  WitnessTrial trial;
};
/// Why a pair may not go over to this witness, endpoint by endpoint, with JSON pointers below /endpoints: some node
/// reaches none, or one answers as none should, or they are of several clusters. Empty: it may. Pure.
[[nodiscard]] std::vector<FieldProblem> problems_of(const std::vector<NodeTrial>& trials);

/// The cluster that answered; empty when none did, or several.
[[nodiscard]] std::string cluster_of(const WitnessTrial& trial);

}  // namespace lockstep::mgmt
