#include "mgmt/control/carried_out.hpp"

#include <fmt/format.h>

namespace lockstep::mgmt {

std::optional<std::string> why_behind(NodeCore& core, const PairHands& hands) {
  const auto configuration = core.configuration();
  const std::int64_t revision = core.revisions.state().head.n;
  for (const NodeSide side : {NodeSide::a, NodeSide::b}) {
    const Node* node = configuration->node(side);
    if (!node) return "The pair has one node.";
    const auto seen = hands.look(side);
    if (!seen) return seen.error().detail;
    if (!seen->running || !seen->status) return fmt::format("lockstepd does not run on {}.", node->name);
    if (seen->status->revision < revision)
      return fmt::format("lockstepd on {} does not carry out the newest configuration yet.", node->name);
  }
  return std::nullopt;
}

Outcome<void> both_run(const Configuration& configuration, const PairHands& hands, const char* consequence) {
  for (const NodeSide side : {NodeSide::a, NodeSide::b}) {
    const auto seen = hands.look(side);
    if (!seen) return refuse(seen.error().kind, fmt::format("{} {}", seen.error().detail, consequence));
    if (!seen->running)
      return refuse(RefusalKind::data_plane_away,
                    fmt::format("lockstepd does not run on {}. {}", configuration.node(side)->name, consequence));
  }
  return {};
}

}  // namespace lockstep::mgmt
