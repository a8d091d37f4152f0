// What befalls one path of the link, or the network that two of them share.
#include "tests/simulation/nemesis.hpp"
#include "tests/simulation/world.hpp"

namespace lockstep::simulation {

using engine::NodeSide;

namespace {
constexpr std::uint64_t kChange = 5, kWays = 6, kWaysOfRdma = 9;
}  // namespace

/// Mostly shorter than a lease, so that the others have to carry on. In three of ten cases what goes over the same
/// network by the other transport has the same.
void Nemesis::spoil_path(Host& host) {
  const Scenario& s = world_.scenario;
  const std::size_t path = random_.below(world_.paths_from(host.side()).size());
  const Nanos time = a_while(5 * kMillisecond, 4 * kSecond);
  const bool is_rdma = s.is_rdma(path);
  const std::uint64_t how = random_.below(is_rdma ? kWaysOfRdma : kWays);
  if (how >= kWays) return take_rdma_away(path, how, time);
  if (how == kChange) return usable(host) ? host.program()->change_path(path) : void();
  spoil_path(host, path, how, time);
  const std::size_t twin = s.twin_of(path);
  if (twin != path && random_.chance(300'000)) spoil_path(host, twin, how, time);
}

/// Nothing, or what a node sends, arrives for a while; its requests or answers stand still and then come after all; its
/// sessions break, and perhaps the next path's at the same moment.
void Nemesis::spoil_path(Host& host, std::size_t path, std::uint64_t how, Nanos time) {
  const auto& paths = world_.paths_from(host.side());
  const std::uint64_t of = path << 3 | number(host.side());
  if (how == 0) {
    paths[path]->break_session();
    if (random_.chance(300'000)) paths[(path + 1) % paths.size()]->break_session();
  } else if (how <= 2) {
    world_.cut_path(path, host.side(), false);
    if (how == 2) world_.cut_path(path, engine::other(host.side()), false);
    world_.scheduler.after(time, Owner::world, &Nemesis::on_mend_path, this, of);
  } else {
    const auto flow = static_cast<SimLink::Flow>(how - 3);
    paths[path]->hold(flow, true);
    world_.scheduler.after(time, Owner::world, &Nemesis::on_mend_path, this, of);
  }
}

/// One path loses its network card, or all of them theirs; or nothing comes any more, and neither end is told.
void Nemesis::take_rdma_away(std::size_t path, std::uint64_t how, Nanos time) {
  const bool silently = how == kWays;
  const bool all = how == kWays + 1;
  for (std::size_t one = 0; one < world_.networks.size(); ++one) {
    if (!world_.scenario.is_rdma(one) || (one != path && !all)) continue;
    for (const NodeSide side : {NodeSide::a, NodeSide::b}) {
      SimLink& link = *world_.paths_from(side)[one];
      if (!silently) link.take_device(true);
      for (const auto flow : {SimLink::Flow::requests, SimLink::Flow::answers}) {
        if (silently) link.hold(flow, true);
      }
      world_.scheduler.after(time, Owner::world, &Nemesis::on_mend_path, this, one << 3 | number(side));
    }
  }
}

void Nemesis::on_mend_path(void* self, std::uint64_t of) {
  World& world = static_cast<Nemesis*>(self)->world_;
  const std::size_t path = of >> 3;
  SimLink& link = *world.paths_from(side_of(of & 1))[path];
  for (const NodeSide side : {NodeSide::a, NodeSide::b}) world.cut_path(path, side, true);
  for (const auto flow : {SimLink::Flow::requests, SimLink::Flow::answers}) link.hold(flow, false);
  link.take_device(false);
}

}  // namespace lockstep::simulation
