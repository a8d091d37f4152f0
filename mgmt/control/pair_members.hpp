#pragma once
// Who is in a pair, and what a configuration becomes when that changes. Pure, but for fresh secrets.
#include <string>
#include <vector>

#include "mgmt/control/configuration.hpp"

namespace lockstep::mgmt {

/// What a node's own description lacks, with pointers below /node.
[[nodiscard]] std::vector<FieldProblem> problems_of(const Node& node);
/// The same of a node that joins, and where it is in the inviting one's way.
/// `more`: the link has so many ports above each of its own (Configuration::highest_shard()).
[[nodiscard]] std::vector<FieldProblem> clashes(const Node& joining, const Node& inviting, unsigned more = 0);

void make_link_secrets(Pair& pair);
/// Edits of a configuration in which the link's secrets are replaced, in their order (link_jobs.hpp). Each changes
/// nothing where it was made already. Refusal conflict: not while the arbiter is being changed.
[[nodiscard]] Outcome<void> add_link_secrets(Configuration& configuration);
[[nodiscard]] Outcome<void> swap_link_secrets(Configuration& configuration);
[[nodiscard]] Outcome<void> forget_old_link_secrets(Configuration& configuration);
/// The token stays valid, under another name if its own is taken. One that is there already stays as it is.
void adopt_token(Configuration& configuration, Token token, const std::string& node);

[[nodiscard]] Configuration with_second_node(const Configuration& pair_of_one, const Node& joining, const Token& token);
/// The joining node has the side of the one whose place it takes. The link's secrets are new, so that the old machine
/// logs in nowhere.
[[nodiscard]] Configuration with_node_replaced(const Configuration& before, const Node& joining, const Token& token);
/// The node of that side is out. The other one's volumes stay as they are; a copy that is made on that side later has
/// other files than the one that was there. The link's secrets are new. A change of the arbiter that was under way
/// ends: the one that is named last is what another node will find.
[[nodiscard]] Configuration with_node_left(const Configuration& before, NodeSide side);
/// What was saved by the node of that id, now this node's: `here` gives its new id and certificate.
[[nodiscard]] Configuration recovered(const Configuration& saved, const Uuid& saved_by, const Node& here,
                                      const Token& token);

/// Marks as to be deleted the volumes of which that side has no copy yet: the other side is lost, and they are with it.
void delete_volumes_only_elsewhere(Configuration& configuration, NodeSide here);

/// Marks the volumes that were being made, filled or deleted by jobs which are lost with their node's database: nobody
/// was told that they are ready, and nothing would end them. Gives which they are.
std::vector<Uuid> cut_off_volumes(Configuration& configuration);

}  // namespace lockstep::mgmt
