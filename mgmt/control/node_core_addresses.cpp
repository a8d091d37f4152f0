// Where the two nodes' management is reached.
#include <algorithm>

#include <fmt/format.h>

#include "mgmt/control/address.hpp"
#include "mgmt/control/address_trial.hpp"
#include "mgmt/control/node_core.hpp"

namespace lockstep::mgmt {
namespace {

/// Where the partner was found by hand: "ID ADDRESS".
constexpr const char* kFoundPartner = "partner.found_at";

}  // namespace

std::vector<HttpsTarget> NodeCore::targets() const {
  const auto c = configuration();
  const Node* n = partner(*c);
  if (!n) return {};
  std::vector<std::string> addresses{n->management_address, n->beside.management_address};
  const std::string found = settings.get(kFoundPartner).value_or("");
  if (const std::string id = n->id.to_string() + " "; found.starts_with(id))
    addresses.push_back(found.substr(id.size()));
  std::string reached;
  {
    const std::lock_guard lock(reached_mutex_);
    reached = reached_;
  }
  // Where it answered last is asked first: an address that is nobody's costs some seconds each time.
  std::ranges::stable_partition(addresses, [&](const std::string& a) { return a == reached; });
  std::vector<HttpsTarget> targets;
  for (const auto& address : addresses) {
    const bool known = std::ranges::find(targets, address, &HttpsTarget::address) != targets.end();
    if (address.empty() || known) continue;
    targets.push_back({address, n->fingerprint, fmt::format("{} {}", node_id.to_string(), n->id.to_string())});
  }
  return targets;
}

std::unique_ptr<Peer> NodeCore::peer() const {
  auto all = targets();
  if (all.empty()) return nullptr;
  return std::make_unique<Peer>(identity, std::move(all), [this](const std::string& address) {
    const std::lock_guard lock(reached_mutex_);
    reached_ = address;
  });
}

std::optional<std::string> NodeCore::why_partner_is_not_at(const std::string& address) const {
  auto all = targets();
  if (all.empty()) return "There is no partner.";
  HttpsTarget there = all.front();
  there.address = address;
  const auto c = configuration();
  const auto who = Peer(identity, std::move(there)).who();
  if (!who) return fmt::format("The partner {}.", trouble_with_partner(who.error()));
  const Node* n = partner(*c);
  if (!n || *who != n->id) return fmt::format("Another node answers at {}.", address);
  return std::nullopt;
}

void NodeCore::look_for_partner_at(const std::string& address) {
  const auto c = configuration();
  const Node* n = partner(*c);
  const auto at = peer();
  if (!n || !at || address == n->management_address || !parse_address(address)) return;
  if (at->who()) return;
  if (why_partner_is_not_at(address)) return;
  settings.set(kFoundPartner, fmt::format("{} {}", n->id.to_string(), address));
  {
    const std::lock_guard lock(reached_mutex_);
    reached_ = address;
  }
  events.append({.kind = "node.found",
                 .side = n->side,
                 .volume = {},
                 .message = fmt::format("The management of {} was found at {}.", n->name, address)});
}

std::optional<std::string> NodeCore::why_not_managed_at(const std::string& address) const {
  const auto parsed = parse_address(address);
  if (!parsed) return fmt::format("{} is not an address with a port.", address);
  const auto listened = managed_at();
  const bool mine = std::ranges::any_of(listened, [&](const std::string& l) { return covers(l, address); });
  Address any_port = *parsed;
  any_port.port = 0;
  // Whoever listens at every address listens at one that this machine has not, too.
  return why_not_listen(mine || covers(local.listen, address) ? to_string(any_port) : address);
}

std::vector<std::string> NodeCore::managed_at() const {
  std::vector<std::string> wanted;
  const auto c = configuration();
  for (const auto& n : c->nodes) {
    if (n.id != node_id) continue;
    for (const auto& address : {n.management_address, n.beside.management_address})
      if (!address.empty() && !covers(local.listen, address)) wanted.push_back(address);
  }
  return wanted;
}

}  // namespace lockstep::mgmt
