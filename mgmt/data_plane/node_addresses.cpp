// Where the node listens: portals come and go in use, and an address is tried before anything relies on it.
#include <algorithm>

#include "engine/net/socket_address.hpp"
#include "engine/net/tcp.hpp"
#include "mgmt/data_plane/node.hpp"
#include "mgmt/log/log.hpp"

namespace lockstep::data_plane {

using mgmt::log_info;

/// Added ones are opened before removed ones are closed. The initiators of those are asked to log out.
std::vector<Problem> Node::set_portals(const std::vector<SocketAddress>& portals) {
  std::vector<Problem> problems;
  std::vector<std::string> wanted;
  wanted.reserve(portals.size());
  for (const auto& portal : portals) wanted.push_back(portal.to_string());
  for (const auto& address : wanted) {
    if (std::ranges::find(listening_, address) != listening_.end()) continue;
    if (auto listens = server_.listen(address); !listens) {
      problems.push_back({"portal " + address, listens.error().message});
      continue;
    }
    listening_.push_back(address);
    const std::string why_no_rdma = server_.why_no_rdma(address);
    log_info("Serving at " + address + (why_no_rdma.empty() ? ", over TCP and RDMA." : "."));
    if (options_.rdma && !why_no_rdma.empty()) log_info("Over TCP alone at " + address + ": " + why_no_rdma);
  }
  const auto removed = std::ranges::partition(
      listening_, [&](const std::string& address) { return std::ranges::find(wanted, address) != wanted.end(); });
  if (removed.empty()) return problems;
  for (const auto& address : removed) {
    server_.stop_listening(address);
    log_info("Serves at " + address + " no more. Initiators that came by it are asked to log out.");
  }
  listening_.erase(removed.begin(), removed.end());
  server_.retire_unlistened(kPortalGrace);
  return problems;
}

std::vector<Problem> Node::try_to_listen(const std::vector<SocketAddress>& addresses) {
  std::vector<Problem> problems;
  for (const auto& address : addresses) {
    const std::string text = address.to_string();
    const bool mine = std::ranges::find(listening_, text) != listening_.end() || (pair_ && pair_->listens_at(address));
    if (mine) continue;
    const auto listener = engine::TcpListener::open(home(), text, [](const engine::TcpSocket&) {});
    if (!listener) problems.push_back({text, listener.error().message});
  }
  return problems;
}

void Node::try_link(const LinkTry& way, engine::Callback<const std::string&> done) {
  if (!pair_ || stopping_) return done("lockstepd here has no pair yet, or is stopping.");
  pair_->try_way(way, std::move(done));
}

void Node::measure_path(const LinkTest& which, engine::Callback<engine::Result<replication::PathMeasured>> done) {
  if (!pair_ || stopping_) {
    return done(engine::fail(engine::Errc::refused, "lockstepd here has no pair yet, or is stopping."));
  }
  pair_->measure_path(which, std::move(done));
}

}  // namespace lockstep::data_plane
