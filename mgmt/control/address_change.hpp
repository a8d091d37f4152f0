#pragma once
// Other addresses for a node of a pair that is in use: what may be asked for, and the edits of the configuration that
// the job (address_jobs.hpp) makes of it. Pure.
#include <optional>
#include <string>
#include <vector>

#include "mgmt/control/configuration.hpp"

namespace lockstep::mgmt {

/// What is not set stays.
struct AddressWish {
  NodeSide side = NodeSide::a;
  std::optional<std::vector<std::string>> portals;
  std::optional<std::string> link_address;
  std::optional<std::string> management_address;
};

/// What a node has, or is to have.
struct Addresses {
  std::vector<std::string> portals;
  std::string link_address;
  std::string management_address;
  bool operator==(const Addresses&) const = default;
};

[[nodiscard]] Addresses addresses_of(const Node& node);
[[nodiscard]] Addresses wished(const Addresses& now, const AddressWish& wish);
/// Only of what the wish names, with pointers to its fields. The configuration has that node.
[[nodiscard]] std::vector<FieldProblem> problems_of(const AddressWish& wish, const Configuration& configuration);

/// The change of one node's addresses, by the steps at which it may stand.
struct AddressChange {
  NodeSide side = NodeSide::a;
  Addresses before;
  Addresses after;
  Uuid node{};  ///< its id: another machine may take its place
  [[nodiscard]] bool moves_link() const { return before.link_address != after.link_address; }
  [[nodiscard]] bool moves_management() const { return before.management_address != after.management_address; }
  [[nodiscard]] bool moves() const { return moves_link() || moves_management(); }
};
[[nodiscard]] std::string to_json_text(const AddressChange& change);
[[nodiscard]] Outcome<AddressChange> address_change_from(std::string_view json);

/// The new ones beside the old ones, which stay in force.
[[nodiscard]] Node opened(Node node, const AddressChange& change);
/// The new ones in force, the old ones beside them; all portals.
[[nodiscard]] Node moved(Node node, const AddressChange& change);
/// The new ones alone.
[[nodiscard]] Node closed(Node node, const AddressChange& change);
/// The way back from any of these: the old ones in force, the new ones beside them; the old portals.
[[nodiscard]] Node taken_back(Node node, const AddressChange& change);
/// The old ones alone.
[[nodiscard]] Node unmade(Node node, const AddressChange& change);

}  // namespace lockstep::mgmt
