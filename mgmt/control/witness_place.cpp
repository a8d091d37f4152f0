#include "mgmt/control/witness_place.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "mgmt/control/address.hpp"
#include "replication/arbiter/http_endpoint.hpp"

namespace lockstep::mgmt {
namespace {

std::optional<Address> numeric_host(const std::string& host) {
  return parse_address(host.contains(':') ? fmt::format("[{}]:1", host) : fmt::format("{}:1", host));
}

bool is_loopback_address(const Address& address) {
  constexpr std::array<unsigned char, 16> kLoopback6{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  return address.v6 ? bytes_of(address) == kLoopback6 : bytes_of(address)[0] == 127;
}

std::vector<std::string> hosts_and_ports_of(const Node& node) {
  std::vector<std::string> all = node.portals;
  all.insert(all.end(),
             {node.link_address, node.management_address, node.beside.link_address, node.beside.management_address});
  all.insert(all.end(), node.more_link_addresses.begin(), node.more_link_addresses.end());
  all.insert(all.end(), node.last_link_addresses.begin(), node.last_link_addresses.end());
  return all;
}

bool is_on(const Node& node, const std::string& host) {
  const auto wanted = numeric_host(host);
  if (!wanted) return host == node.name;
  return std::ranges::any_of(hosts_and_ports_of(node), [&](const std::string& text) {
    const auto address = parse_address(text);
    return address && !is_wildcard(text) && address->v6 == wanted->v6 && bytes_of(*address) == bytes_of(*wanted);
  });
}

bool is_on_loopback(const Node& node) {
  const auto address = parse_address(node.management_address);
  return address && is_loopback_address(*address);
}

/// Empty: it is none of the pair's own, or not known to be.
std::string own_machine_of(const std::string& endpoint, const std::vector<Node>& nodes) {
  const auto parsed = replication::HttpEndpoint::parse(endpoint);
  if (!parsed) return "";
  const auto address = numeric_host(parsed->host);
  if (parsed->host == "localhost" || (address && is_loopback_address(*address))) return "each node itself";
  const auto node = std::ranges::find_if(nodes, [&](const Node& n) { return is_on(n, parsed->host); });
  return node == nodes.end() ? "" : node->name;
}

}  // namespace

std::optional<std::string> own_machines_of(const Arbiter& arbiter, const std::vector<Node>& nodes) {
  if (!arbiter.witness || arbiter.endpoints.empty() || std::ranges::any_of(nodes, is_on_loopback)) return std::nullopt;
  std::string places;
  for (const auto& endpoint : arbiter.endpoints) {
    const std::string machine = own_machine_of(endpoint, nodes);
    if (machine.empty()) return std::nullopt;
    places += fmt::format("{}{} on {}", places.empty() ? "" : ", ", endpoint, machine);
  }
  return places;
}

std::vector<FieldProblem> problems_of_place(const Arbiter& arbiter, const std::vector<Node>& nodes) {
  const auto places = own_machines_of(arbiter, nodes);
  if (!places) return {};
  return {{"/arbiter/endpoints",
           fmt::format("Would be on the machines that it decides about ({}): with one of them the witness is lost, and "
                       "the other node stops. It has to be on a third machine, or a cluster with a member on one.",
                       *places)}};
}

}  // namespace lockstep::mgmt
