#include "mgmt/control/link_paths.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "mgmt/control/address.hpp"
#include "mgmt/control/validation.hpp"

namespace lockstep::mgmt {
namespace {

using AddressList = std::vector<std::string> Node::*;
constexpr AddressList kLists[] = {&Node::more_link_addresses, &Node::last_link_addresses};

std::size_t place_of(NodeSide side) { return side == NodeSide::b ? 1 : 0; }

struct UsedAddresses {
  std::vector<std::string> link, others;
};

UsedAddresses used_by(const Node& n) {
  UsedAddresses used{{n.link_address, n.beside.link_address}, {n.management_address, n.beside.management_address}};
  for (const AddressList list : kLists) used.link.insert(used.link.end(), (n.*list).begin(), (n.*list).end());
  used.others.insert(used.others.end(), n.portals.begin(), n.portals.end());
  return used;
}

/// The link has `more` ports above each of its own.
bool meets(const std::string& address, unsigned more, const UsedAddresses& used) {
  return std::ranges::any_of(used.link, [&](const auto& one) { return ports_meet(address, more, one, more); }) ||
         std::ranges::any_of(used.others, [&](const auto& one) { return ports_meet(address, more, one, 0); });
}

std::string complaint_of(const std::string& address, const Configuration& c) {
  if (const auto complaint = check_address(address)) return *complaint;
  if (is_wildcard(address)) return fmt::format("{} is no address that the partner could connect to.", address);
  const unsigned more = c.highest_shard();
  if (parse_address(address)->port + more > 65535)
    return fmt::format("The link uses {} ports above this one, too, and there are not so many.", more);
  for (const auto& n : c.nodes)
    if (meets(address, more, used_by(n)))
      return more == 0 ? fmt::format("{} is used by {} already.", address, n.name)
                       : fmt::format(
                             "{}, or one of the {} ports above it that the link uses, too, is used by {} "
                             "already.",
                             address, more, n.name);
  return "";
}

Outcome<void> has_two_nodes(const Configuration& c) {
  if (!c.pair) return refuse(RefusalKind::no_pair, "Make a pair or join one first.");
  if (c.nodes.size() == 2) return {};
  return refuse(RefusalKind::conflict, "The pair has one node, and so no link. Have the second node join first.");
}

std::optional<LinkPathStatus> status_of(const NodeView& n, const std::vector<std::string>& partners) {
  if (!n.current() || !n.report.status->partner_paths) return std::nullopt;
  for (const auto& path : *n.report.status->partner_paths)
    if (std::ranges::any_of(partners, [&](const auto& there) { return is_same_address(path.to, there); })) return path;
  return std::nullopt;
}

LinkPathView first_path(const PairView& view) {
  LinkPathView path;
  for (const NodeSide side : {NodeSide::a, NodeSide::b}) {
    const NodeView& mine = view.at(side);
    if (!mine.node) continue;
    auto& end = path.ends.at(place_of(side));
    end = {&mine, mine.node->link_address};
    if (const Node* partner = view.at(engine::other(side)).node)
      end.status = status_of(mine, {partner->link_address, partner->beside.link_address});
  }
  return path;
}

}  // namespace

std::vector<FieldProblem> problems_of(const LinkPathWish& wish, const Configuration& c) {
  std::vector<FieldProblem> problems;
  for (const NodeSide side : {NodeSide::a, NodeSide::b}) {
    const std::string complaint = complaint_of(wish.addresses.at(place_of(side)), c);
    if (!complaint.empty()) problems.push_back({fmt::format("/{}", side_name(side)), complaint});
  }
  if (is_same_address(wish.addresses[0], wish.addresses[1]))
    problems.push_back({"/b", "The other node has the same address."});
  return problems;
}

Outcome<void> add_link_path(Configuration& c, const LinkPathWish& wish) {
  if (auto good = has_two_nodes(c); !good) return good;
  if (auto problems = problems_of(wish, c); !problems.empty())
    return refuse(RefusalKind::invalid, "Correct the fields named in errors.", std::move(problems));
  const Node& any = c.nodes.front();
  if (any.more_link_addresses.size() + any.last_link_addresses.size() >= kMaxMorePaths)
    return refuse(RefusalKind::conflict, fmt::format("The link has {} paths already, which is the most there can be. "
                                                     "Remove one first.",
                                                     1 + kMaxMorePaths));
  const AddressList list = wish.last_resort ? &Node::last_link_addresses : &Node::more_link_addresses;
  for (auto& n : c.nodes) (n.*list).push_back(wish.addresses.at(place_of(n.side)));
  return {};
}

Outcome<LinkPathWish> remove_link_path(Configuration& c, const std::string& address) {
  if (auto good = has_two_nodes(c); !good) return std::unexpected(good.error());
  for (const auto& n : c.nodes)
    if (is_same_address(n.link_address, address))
      return refuse(RefusalKind::conflict,
                    fmt::format("{} is of the link's first path, which stays. `lockstep node set {} --link-address "
                                "ADDRESS:PORT` moves it.",
                                address, side_name(n.side)));
  for (const AddressList list : kLists)
    for (const auto& n : c.nodes) {
      const auto found = std::ranges::find_if(n.*list, [&](const auto& one) { return is_same_address(one, address); });
      if (found == (n.*list).end()) continue;
      const auto place = found - (n.*list).begin();
      LinkPathWish removed{.addresses = {}, .last_resort = list == &Node::last_link_addresses};
      for (auto& each : c.nodes) {
        removed.addresses.at(place_of(each.side)) = (each.*list)[static_cast<std::size_t>(place)];
        (each.*list).erase((each.*list).begin() + place);
      }
      return removed;
    }
  return refuse(RefusalKind::not_found,
                fmt::format("No path of the link has the address {}. `lockstep link` lists them.", address));
}

std::vector<LinkPathView> link_paths_of(const PairView& view) {
  std::vector<LinkPathView> paths{first_path(view)};
  const NodeView &a = view.at(NodeSide::a), &b = view.at(NodeSide::b);
  if (!a.node || !b.node) return paths;
  for (const AddressList list : kLists)
    for (std::size_t i = 0; i < std::min((a.node->*list).size(), (b.node->*list).size()); ++i) {
      const std::string &at_a = (a.node->*list)[i], &at_b = (b.node->*list)[i];
      LinkPathView path{.number = paths.size() + 1, .last_resort = list == &Node::last_link_addresses, .ends = {}};
      path.ends[0] = {&a, at_a, status_of(a, {at_b})};
      path.ends[1] = {&b, at_b, status_of(b, {at_a})};
      paths.push_back(std::move(path));
    }
  return paths;
}

Outcome<void> know_several_paths(const PairView& view) {
  for (const auto& n : view.nodes)
    if (n.node && n.current() && !n.report.status->partner_paths)
      return refuse(RefusalKind::conflict,
                    fmt::format("lockstepd on {} does not know of several paths: it is of an older version, or has not "
                                "been told of its partner yet. Upgrade it and restart it, then try again.",
                                n.node->name));
  return {};
}

}  // namespace lockstep::mgmt
