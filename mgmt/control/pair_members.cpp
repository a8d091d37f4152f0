#include "mgmt/control/pair_members.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "mgmt/control/address.hpp"
#include "mgmt/control/secrets.hpp"
#include "mgmt/control/validation.hpp"

namespace lockstep::mgmt {
namespace {

constexpr std::size_t kLinkSecretSize = 32;

/// What the witness holds stays the pair's own, whatever secrets the link has from now on.
void keep_seal(Pair& pair) {
  if (pair.arbiter.witness && !pair.seal) pair.seal = SealSecrets{pair.link.secret, pair.link_mutual.secret};
}

void check_own_address(const std::string& address, const char* pointer, const char* key,
                       std::vector<FieldProblem>& problems) {
  if (address.empty())
    problems.push_back({pointer, fmt::format("Is missing, here and as {} in the node's configuration file.", key)});
  else if (const auto complaint = check_address(address))
    problems.push_back({pointer, *complaint});
  else if (is_wildcard(address))
    problems.push_back({pointer, fmt::format("{} is no address that the partner could connect to.", address)});
}

/// The node that stays has no partner on its other networks.
void forget_paths(Configuration& c) {
  for (auto& n : c.nodes) n.more_link_addresses = n.last_link_addresses = {};
}

}  // namespace

std::vector<FieldProblem> problems_of(const Node& n) {
  std::vector<FieldProblem> problems;
  if (const auto complaint = check_node_name(n.name)) problems.push_back({"/node/name", *complaint});
  if (n.portals.empty() || n.portals.size() > 8)
    problems.push_back(
        {"/node/portals", "Must be 1 to 8 addresses, here or as portals in the node's configuration file."});
  for (std::size_t i = 0; i < n.portals.size(); ++i)
    if (const auto complaint = check_address(n.portals[i]))
      problems.push_back({fmt::format("/node/portals/{}", i), *complaint});
  check_own_address(n.link_address, "/node/link_address", "link_address", problems);
  check_own_address(n.management_address, "/node/management_address", "management_address", problems);
  return problems;
}

namespace {
void check_link_ports(const Node& n, unsigned more, std::vector<FieldProblem>& problems) {
  const auto link = parse_address(n.link_address);
  if (more == 0 || !link) return;
  if (link->port + more > 65535)
    problems.push_back({"/node/link_address",
                        fmt::format("The link uses {} ports above this one, too, and there are not so many.", more)});
  std::vector<std::string> others = n.portals;
  others.push_back(n.management_address);
  for (const auto& other : others)
    if (ports_meet(n.link_address, more, other, 0))
      problems.push_back({"/node/link_address", fmt::format("The link uses {} ports above this one, too, and {} of "
                                                            "this node is among them. Choose another.",
                                                            more, other)});
}
}  // namespace

std::vector<FieldProblem> clashes(const Node& joining, const Node& inviting, unsigned more) {
  std::vector<FieldProblem> problems = problems_of(joining);
  check_link_ports(joining, more, problems);
  if (joining.name == inviting.name)
    problems.push_back(
        {"/node/name", fmt::format("The inviting node is called {}, too. Choose another name.", inviting.name)});
  if (joining.link_address == inviting.link_address)
    problems.push_back({"/node/link_address", "The inviting node has the same address."});
  for (std::size_t i = 0; i < joining.portals.size(); ++i)
    if (std::ranges::find(inviting.portals, joining.portals[i]) != inviting.portals.end())
      problems.push_back({fmt::format("/node/portals/{}", i), "The inviting node has the same address."});
  return problems;
}

void adopt_token(Configuration& c, Token token, const std::string& node) {
  // Of a node that was in this pair before.
  if (std::ranges::find(c.tokens, token.digest, &Token::digest) != c.tokens.end()) return;
  const auto taken = [&](const std::string& name) {
    return std::ranges::find(c.tokens, name, &Token::name) != c.tokens.end();
  };
  if (taken(token.name)) token.name = fmt::format("{} {}", token.name.substr(0, 32), node).substr(0, 64);
  if (taken(token.name)) token.name = token.id.to_string();
  c.tokens.push_back(std::move(token));
}

void make_link_secrets(Pair& pair) {
  pair.link = {"link", random_password(kLinkSecretSize)};
  pair.link_mutual = {"link-answer", random_password(kLinkSecretSize)};
}

Outcome<void> add_link_secrets(Configuration& c) {
  Pair& pair = *c.pair;
  if (pair.link_beside) return {};
  if (pair.arbiter.changing)
    return refuse(RefusalKind::conflict, "The arbiter is being changed: try again when that job has ended.");
  keep_seal(pair);
  Pair next;
  make_link_secrets(next);
  pair.link_beside = LinkBeside{next.link, next.link_mutual, false};
  return {};
}

Outcome<void> swap_link_secrets(Configuration& c) {
  auto& beside = c.pair->link_beside;
  if (!beside || beside->are_old) return {};
  keep_seal(*c.pair);  // a witness may have been chosen since the new ones were added
  std::swap(c.pair->link, beside->link);
  std::swap(c.pair->link_mutual, beside->link_mutual);
  beside->are_old = true;
  return {};
}

Outcome<void> forget_old_link_secrets(Configuration& c) {
  auto& beside = c.pair->link_beside;
  if (beside && beside->are_old) beside.reset();
  return {};
}

Configuration with_second_node(const Configuration& pair_of_one, const Node& joining, const Token& token) {
  Configuration next = pair_of_one;
  next.nodes.push_back(joining);
  forget_paths(next);
  adopt_token(next, token, joining.name);
  next.sort();
  return next;
}

Configuration with_node_replaced(const Configuration& before, const Node& joining, const Token& token) {
  Configuration next = before;
  Pair& pair = *next.pair;
  // What the witness holds stays the pair's own: with another seal it would grant nothing until both are in sync again.
  keep_seal(pair);
  make_link_secrets(pair);
  pair.link_beside.reset();
  std::erase_if(next.nodes, [&](const Node& n) { return n.side == joining.side; });
  next.nodes.push_back(joining);
  forget_paths(next);
  adopt_token(next, token, joining.name);
  next.sort();
  return next;
}

Configuration with_node_left(const Configuration& before, NodeSide side) {
  Configuration next = before;
  Pair& pair = *next.pair;
  keep_seal(pair);
  make_link_secrets(pair);
  pair.link_beside.reset();
  pair.arbiter.changing = false;  // nobody is left who would have to let go of the old one
  std::erase_if(next.nodes, [&](const Node& n) { return n.side == side; });
  forget_paths(next);
  for (auto& v : next.volumes) v.copy(side) = {v.copy(side).number + 1, "", false};
  return next;
}

Configuration recovered(const Configuration& saved, const Uuid& saved_by, const Node& here, const Token& token) {
  Configuration next = saved;
  for (auto& n : next.nodes) {
    if (n.id != saved_by) continue;
    n.id = here.id;
    n.fingerprint = here.fingerprint;
  }
  adopt_token(next, token, here.name);
  next.sort();
  return next;
}

void delete_volumes_only_elsewhere(Configuration& configuration, NodeSide here) {
  for (auto& v : configuration.volumes)
    if (v.copy(here).unmade) v.lifecycle = Lifecycle::deleting;
}

std::vector<Uuid> cut_off_volumes(Configuration& configuration) {
  std::vector<Uuid> found;
  for (auto& v : configuration.volumes) {
    if (v.lifecycle == Lifecycle::ready && v.import_secret.empty()) continue;
    v.lifecycle = Lifecycle::deleting;
    found.push_back(v.id);
  }
  return found;
}

}  // namespace lockstep::mgmt
