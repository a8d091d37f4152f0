// What a leaving job does to both nodes: by the partner's management, the witness and lockstepd.
#include <algorithm>

#include <fmt/format.h>

#include "mgmt/control/https_client.hpp"
#include "mgmt/control/leave_jobs.hpp"
#include "mgmt/control/leave_verdict.hpp"
#include "mgmt/control/pair_members.hpp"

namespace lockstep::mgmt {

Outcome<void> retire_copies(NodeCore& core, NodeSide side, bool retired) {
  const auto changed = core.change(retired ? "A node's copies out of service" : "A node's copies in service again",
                                   [&](Configuration& c) -> Outcome<void> {
                                     for (auto& v : c.volumes) {
                                       if (const auto why = why_not_settled(v); why && retired)
                                         return refuse(RefusalKind::conflict, *why);
                                       v.copy(side).retired = retired || v.copy(side).unmade;
                                     }
                                     return {};
                                   });
  if (!changed) return std::unexpected(changed.error());
  return {};
}

bool lets_go(const NodeCore& core, const Uuid& runner) {
  return std::ranges::any_of(core.jobs.unfinished(), [&](const Job& job) {
    return job.runner == runner && (job.kind == kLeaveKind || job.kind == kDissolveKind);
  });
}

LeaveHands hands_of(NodeCore& core, DataPlane& data_plane, PairService& pair, PairHands pair_hands) {
  const auto away = [](const Refusal& refusal) -> std::unexpected<Refusal> {
    return refuse(refusal.kind, fmt::format("The partner {}.", trouble_with_partner(refusal)));
  };
  LeaveHands hands;
  // A copy that could not be attached is told by the last orders' outcome alone.
  hands.look = [look = std::move(pair_hands.look),
                last_seen = std::move(pair_hands.last_seen)](NodeSide side) -> Outcome<NodeReport> {
    auto seen = look(side);
    const auto last = last_seen(side);
    if (seen && last) seen->problems = last->problems;
    return seen;
  };
  hands.carry_out = std::move(pair_hands.carry_out);
  hands.change = std::move(pair_hands.change);
  hands.ask_partner = [&core, away]() -> Outcome<CurrentRevision> {
    const auto peer = core.peer();
    if (!peer) return refuse(RefusalKind::conflict, "That node is not in the pair.");
    auto theirs = peer->ask();
    if (!theirs) return away(theirs.error());
    return theirs;
  };
  hands.retire = [&core, away](NodeSide side, bool retired) -> Outcome<void> {
    if (core.orders_changes()) return retire_copies(core, side, retired);
    const auto peer = core.peer();
    if (!peer) return refuse(RefusalKind::conflict, "That node is not in the pair.");
    if (auto done = peer->retire(retired); !done) return away(done.error());
    return {};
  };
  hands.delete_cut_off = [&pair] { pair.begin_deleting_cut_off_volumes(); };
  hands.look_for_lost = [&pair](const Node& node) { return pair.look_for_lost(node, ShutOut::let_go); };
  hands.release = [&core](const Node& node, const Uuid& id) {
    Peer peer(core.identity, {node.management_address, node.fingerprint,
                              fmt::format("{} {}", core.node_id.to_string(), node.id.to_string())});
    return peer.release(id);
  };
  hands.forget = [&data_plane](const std::string& endpoint, const Configuration& c) -> Outcome<void> {
    constexpr auto kPatience = std::chrono::seconds(20);
    const auto done =
        data_plane.call("witness.forget", forget_parameters(endpoint, c.pair->arbiter.access, "", c), kPatience);
    if (!done) return std::unexpected(done.error());
    return {};
  };
  hands.end_lockstepd = [&data_plane]() -> Outcome<void> {
    constexpr auto kPatience = std::chrono::seconds(8);
    const auto done = data_plane.call("node.shutdown", "{}", kPatience);
    if (!done) return std::unexpected(done.error());
    return {};
  };
  return hands;
}

}  // namespace lockstep::mgmt
