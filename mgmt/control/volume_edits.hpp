#pragma once
// What a node that goes on alone writes into the configuration about volumes, and what its partner owes for it. Pure.
#include "mgmt/control/configuration.hpp"

namespace lockstep::mgmt {

/// The volume is made on `here` alone: its other copy is made when the other node is back.
void make_on_one_node(Volume& volume, NodeSide here);

/// The volume's data is removed, `alone`: on `here` only. It leaves the configuration, unless the other node has a
/// copy: then it stays, as one that is being deleted, until that one is removed. True: it stays.
[[nodiscard]] bool forget_volume(Configuration& configuration, const Uuid& id, NodeSide here, bool alone);

enum class Owed : std::uint8_t { nothing, copy, removal };
/// What is to be done about a volume, that no job is at work on, as soon as both nodes decide together: a copy on
/// `side`, which has none, or the removal of what either node still has.
[[nodiscard]] Owed owed_on(const Volume& volume, NodeSide side);

}  // namespace lockstep::mgmt
