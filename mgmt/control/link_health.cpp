#include "mgmt/control/link_health.hpp"

#include <algorithm>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "mgmt/control/address.hpp"
#include "mgmt/control/link_paths.hpp"

namespace lockstep::mgmt {
namespace {

bool has_volumes(const DataPlaneStatus& status, const ShardStatus& shard) {
  return std::ranges::any_of(status.volumes, [&](const auto& v) { return v.shard == shard.number; });
}

/// The link's that is down although the first shard's stands: that of volumes that live on another core.
const ShardStatus* lost_shard(const NodeView& n) {
  const auto& shards = n.report.status->shards;
  if (shards.empty() || !shards.front().connected) return nullptr;
  const auto down = std::ranges::find_if(
      shards, [&](const ShardStatus& shard) { return !shard.connected && has_volumes(*n.report.status, shard); });
  return down == shards.end() ? nullptr : &*down;
}

HealthProblem without_shard(const Node& mine, const Node& other, const ShardStatus& shard) {
  const auto port_of = [&](const Node& n) {
    const auto address = parse_address(n.link_address);
    return address ? address->port + shard.number : 0;
  };
  return {
      Severity::warning,
      "link",
      mine.side,
      {},
      fmt::format("{} has no replication link to {} for the volumes of shard {}.", mine.name, other.name, shard.number),
      fmt::format("They are mirrored through port {} of {} and port {} of {}: check that no firewall is in the way "
                  "and that no other program has that port.{}",
                  port_of(mine), mine.name, port_of(other), other.name,
                  shard.problem.empty() ? "" : " It says: " + shard.problem)};
}

/// Why the path is down, as that node says; empty while it is not, or not known to be.
std::string why_down(const LinkPathView::End& end) {
  if (!end.status || end.status->state != "down") return "";
  std::string why = end.status->problem;
  while (why.ends_with('.')) why.pop_back();
  return why;
}

/// The same, as either node says.
std::string why_down(const LinkPathView& path) {
  const std::string why = why_down(path.ends[0]);
  return why.empty() ? why_down(path.ends[1]) : why;
}

/// What both nodes say of each path, since the reason may be known to one of them only: the other one hears that it was
/// refused. Each sentence is followed by a blank.
std::string why_all_are_down(const std::vector<LinkPathView>& paths) {
  std::string sentences;
  for (const auto& path : paths)
    for (const auto& end : path.ends)
      if (const std::string why = why_down(end); !why.empty())
        sentences += paths.size() < 2 ? fmt::format("{} says: {}. ", end.node->node->name, why)
                                      : fmt::format("Of path {} {} says: {}. ", path.number, end.node->node->name, why);
  return sentences;
}

/// The first shard with volumes that does not have the path, though the first of all has it.
std::optional<std::int64_t> shard_without(const LinkPathView& path) {
  for (std::size_t i = 0; i < path.ends.size(); ++i) {
    const auto& end = path.ends[i];
    if (end.node == nullptr || !end.node->current()) continue;
    const std::string& there = path.ends[1 - i].address;
    for (const ShardStatus& shard : end.node->report.status->shards) {
      const bool lacks =
          std::ranges::any_of(shard.paths_down, [&](const auto& to) { return is_same_address(to, there); });
      if (lacks && has_volumes(*end.node->report.status, shard)) return shard.number;
    }
  }
  return std::nullopt;
}

HealthProblem path_of_shard(const LinkPathView& path, std::int64_t shard) {
  return {Severity::warning,
          "link",
          {},
          {},
          fmt::format("Path {} of the link, between {} and {}, is down for the volumes of shard {}.", path.number,
                      path.ends[0].address, path.ends[1].address, shard),
          fmt::format("They use a port of their own, {} above that one: check that no firewall is in the way on that "
                      "network.",
                      shard)};
}

/// The first shard's: its figures are those of the paths.
bool link_stands(const DataPlaneStatus& status) {
  return status.shards.empty() ? status.partner_connected : status.shards.front().connected;
}

}  // namespace

void judge_link(const PairView& view, std::vector<HealthProblem>& problems) {
  const NodeView& a = view.at(NodeSide::a);
  const NodeView& b = view.at(NodeSide::b);
  if (!a.node || !b.node) return;
  for (const NodeView* n : {&a, &b}) {
    if (!n->current() || n->report.status->partner_connected) continue;
    const NodeView& other = n == &a ? b : a;
    if (other.reachable && !other.report.running && other.asked) return;  // said already
    if (const ShardStatus* shard = lost_shard(*n))
      return problems.push_back(without_shard(*n->node, *other.node, *shard));
    problems.push_back(
        {Severity::warning,
         "link",
         n->node->side,
         {},
         fmt::format("{} has no replication link to {}.", n->node->name, other.node->name),
         fmt::format("{}Check the network between {} and {}; `lockstep link` shows what each node sees of each path.",
                     why_all_are_down(link_paths_of(view)), n->node->link_address, other.node->link_address)});
    return;  // one side's word is enough
  }
}

void judge_link_paths(const PairView& view, std::vector<HealthProblem>& problems) {
  for (const auto& n : view.nodes)
    if (!n.node || (n.current() && !link_stands(*n.report.status))) return;
  const auto paths = link_paths_of(view);
  if (paths.size() < 2) return;
  for (const auto& path : paths) {
    if (const auto shard = shard_without(path)) problems.push_back(path_of_shard(path, *shard));
    const std::string why = why_down(path);
    if (why.empty()) continue;
    problems.push_back(
        {Severity::warning,
         "link",
         {},
         {},
         fmt::format("Path {} of the link, between {} and {}, is down: {}.", path.number, path.ends[0].address,
                     path.ends[1].address, why),
         "The link goes on over its other paths. Check that network between the two nodes; `lockstep link` shows what "
         "each of them sees, and `lockstep link remove` takes a path away for good."});
  }
}

}  // namespace lockstep::mgmt
