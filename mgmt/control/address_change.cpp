#include "mgmt/control/address_change.hpp"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "mgmt/control/address.hpp"
#include "mgmt/control/validation.hpp"

namespace lockstep::mgmt {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxPortals = 8;

struct Use {
  std::string address;
  std::string what;   ///< "the link of node-b"
  unsigned more = 0;  ///< ports above it: of the link's other shards
};

std::vector<Use> uses_of(const std::string& name, const Addresses& a, unsigned link_ports) {
  std::vector<Use> uses{{a.link_address, fmt::format("the link of {}", name), link_ports},
                        {a.management_address, fmt::format("the management of {}", name)}};
  for (const auto& portal : a.portals) uses.push_back({portal, fmt::format("a portal of {}", name)});
  return uses;
}

json to_json(const Addresses& a) {
  return {{"portals", a.portals}, {"link_address", a.link_address}, {"management_address", a.management_address}};
}

Addresses from_json(const json& j) {
  return {j.at("portals").get<std::vector<std::string>>(), j.at("link_address"), j.at("management_address")};
}

std::vector<std::string> both(const std::vector<std::string>& one, const std::vector<std::string>& other) {
  std::vector<std::string> all = one;
  for (const auto& address : other)
    if (std::ranges::find(all, address) == all.end()) all.push_back(address);
  return all;
}

}  // namespace

Addresses addresses_of(const Node& n) { return {n.portals, n.link_address, n.management_address}; }

Addresses wished(const Addresses& now, const AddressWish& wish) {
  return {wish.portals.value_or(now.portals), wish.link_address.value_or(now.link_address),
          wish.management_address.value_or(now.management_address)};
}

namespace {

/// Of both nodes, when the wish has come true.
std::vector<Use> uses_of(const AddressWish& wish, const Configuration& c) {
  const Node& node = *c.node(wish.side);
  const unsigned more = c.highest_shard();
  std::vector<Use> uses = uses_of(node.name, wished(addresses_of(node), wish), more);
  for (const auto& n : c.nodes)
    for (const auto* list : {&n.more_link_addresses, &n.last_link_addresses})
      for (const auto& address : *list)
        uses.push_back({address, fmt::format("the address of {} of another path of the link", n.name), more});
  if (const Node* partner = c.node(engine::other(wish.side)))
    std::ranges::move(uses_of(partner->name, addresses_of(*partner), more), std::back_inserter(uses));
  return uses;
}

/// The link's old address is in use until the new one is.
std::optional<std::string> shard_that_meets(const std::string& address, unsigned more, std::vector<Use> uses,
                                            const Node& node) {
  const unsigned ports = std::max(more, uses.front().more);
  if (ports == 0) return std::nullopt;
  uses.push_back({node.link_address, fmt::format("the link of {} as it is now", node.name), ports});
  if (more != 0 && parse_address(address)->port + more > 65535)
    return fmt::format("The link uses {} ports above this one, too, and there are not so many.", more);
  const auto met = std::ranges::find_if(uses, [&](const Use& use) {
    return !is_same_address(use.address, address) && ports_meet(address, more, use.address, use.more);
  });
  if (met == uses.end()) return std::nullopt;
  return fmt::format("The link uses {} ports above its own, too: {} meets {}, {}.", ports, address, met->address,
                     met->what);
}

}  // namespace

std::vector<FieldProblem> problems_of(const AddressWish& wish, const Configuration& c) {
  std::vector<FieldProblem> problems;
  const Node& node = *c.node(wish.side);
  std::vector<std::pair<std::string, std::string>> said;  // pointer, address
  if (wish.portals) {
    if (wish.portals->empty() || wish.portals->size() > kMaxPortals)
      problems.push_back({"/portals", fmt::format("Must be 1 to {} addresses.", kMaxPortals)});
    for (std::size_t i = 0; i < wish.portals->size(); ++i)
      said.emplace_back(fmt::format("/portals/{}", i), (*wish.portals)[i]);
  }
  if (wish.link_address) said.emplace_back("/link_address", *wish.link_address);
  if (wish.management_address) said.emplace_back("/management_address", *wish.management_address);
  const std::vector<Use> uses = uses_of(wish, c);
  for (const auto& [pointer, address] : said) {
    if (const auto complaint = check_address(address)) {
      problems.push_back({pointer, *complaint});
      continue;
    }
    if (is_wildcard(address)) {
      problems.push_back({pointer, fmt::format("{} is no address that anybody could connect to.", address)});
      continue;
    }
    if (const auto met = shard_that_meets(address, pointer == "/link_address" ? c.highest_shard() : 0, uses, node)) {
      problems.push_back({pointer, *met});
      continue;
    }
    if (std::ranges::count(uses, address, &Use::address) < 2) continue;
    const auto other = std::find_if(uses.rbegin(), uses.rend(), [&](const Use& u) { return u.address == address; });
    problems.push_back({pointer, fmt::format("{} is named twice: it is {}, too.", address, other->what)});
  }
  if (said.empty() && !wish.portals)
    problems.push_back({"", "Nothing is to be changed: give portals, link_address or management_address."});
  return problems;
}

std::string to_json_text(const AddressChange& change) {
  return json{{"side", side_name(change.side)},
              {"before", to_json(change.before)},
              {"after", to_json(change.after)},
              {"node", change.node.to_string()}}
      .dump();
}

Outcome<AddressChange> address_change_from(std::string_view text) {
  try {
    const json j = json::parse(text);
    return AddressChange{j.at("side") == "b" ? NodeSide::b : NodeSide::a, from_json(j.at("before")),
                         from_json(j.at("after")), Uuid::parse(j.at("node").get<std::string>()).value_or(Uuid{})};
  } catch (const std::exception& e) {
    return refuse(RefusalKind::internal, fmt::format("What the job has to do cannot be read: {}.", e.what()));
  }
}

Node opened(Node n, const AddressChange& change) {
  n.portals = both(change.before.portals, change.after.portals);
  n.beside.link_address = change.moves_link() ? change.after.link_address : "";
  n.beside.management_address = change.moves_management() ? change.after.management_address : "";
  return n;
}

Node moved(Node n, const AddressChange& change) {
  n = opened(std::move(n), change);
  n.link_address = change.after.link_address;
  n.management_address = change.after.management_address;
  n.beside.link_address = change.moves_link() ? change.before.link_address : "";
  n.beside.management_address = change.moves_management() ? change.before.management_address : "";
  return n;
}

Node closed(Node n, const AddressChange& change) {
  n.portals = change.after.portals;
  n.link_address = change.after.link_address;
  n.management_address = change.after.management_address;
  n.beside = {};
  return n;
}

Node taken_back(Node n, const AddressChange& change) {
  n = opened(std::move(n), change);
  n.portals = change.before.portals;
  n.link_address = change.before.link_address;
  n.management_address = change.before.management_address;
  return n;
}

Node unmade(Node n, const AddressChange& change) {
  n = taken_back(std::move(n), change);
  n.beside = {};
  return n;
}

}  // namespace lockstep::mgmt
