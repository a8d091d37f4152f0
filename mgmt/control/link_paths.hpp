#pragma once
// The link's further paths: beside the one between the two nodes' link addresses, networks on which each node has an
// address. They come and go without a job, since none of them has to work: the link has one more path, or it says why
// it has not. Pure.
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "mgmt/control/configuration.hpp"
#include "mgmt/control/pair_view.hpp"

namespace lockstep::mgmt {

constexpr std::size_t kMaxMorePaths = 3;  ///< as many as lockstepd has room for

struct LinkPathWish {
  std::array<std::string, 2> addresses;  ///< of the nodes, by their sides
  bool last_resort = false;              ///< it carries data when no other path is left; heartbeats all the time
};

/// With pointers to the fields. Both nodes are in the configuration.
[[nodiscard]] std::vector<FieldProblem> problems_of(const LinkPathWish& wish, const Configuration& configuration);
/// Refusals conflict: the pair has one node, or there are as many paths as there may be. Invalid, with the fields.
[[nodiscard]] Outcome<void> add_link_path(Configuration& configuration, const LinkPathWish& wish);
/// `address`: either node's. Gives what was removed. Refusals not_found; conflict: it is of the first path, which
/// stays.
[[nodiscard]] Outcome<LinkPathWish> remove_link_path(Configuration& configuration, const std::string& address);

/// A path as it is configured, and as each node sees its own way out over it.
struct LinkPathView {
  struct End {
    const NodeView* node = nullptr;  ///< null: the pair has no such node yet
    std::string address;             ///< where this node is reached over the path
    std::optional<LinkPathStatus>
        status{};  ///< nothing: its lockstepd can't be asked, or says nothing of this path yet
  };
  std::size_t number = 1;  ///< 1 goes between the nodes' link addresses
  bool last_resort = false;
  std::array<End, 2> ends;  ///< by the nodes' sides
};

/// In the order of lockstepd's. `view` outlives what is given.
[[nodiscard]] std::vector<LinkPathView> link_paths_of(const PairView& view);
/// Refusal conflict: a lockstepd that runs does not know of several paths.
[[nodiscard]] Outcome<void> know_several_paths(const PairView& view);

}  // namespace lockstep::mgmt
