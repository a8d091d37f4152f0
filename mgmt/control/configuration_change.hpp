#pragma once
// How a change of the pair's configuration is made: by both nodes, or by the one that the arbiter lets go on without
// its partner.
#include "mgmt/control/revisions.hpp"

namespace lockstep::mgmt {

/// Whose agreement a change needs.
enum class Agreement : std::uint8_t {
  both,        ///< of both nodes: a partner that is away could not carry out its part, or would be harmed
  one_is_let,  ///< of both, or of one that the arbiter lets go on without its partner
};

/// Who has a part in a change. All outlive it.
struct Deciders {
  Revisions& revisions;
  engine::NodeSide me = engine::NodeSide::a;
  RevisionPeer* partner = nullptr;          ///< null: this node is alone in its pair
  ConfigurationArbiter* arbiter = nullptr;  ///< null: nobody goes on without the partner
};

/// What is changed.
struct ConfigurationEdits {
  Revisions::Edit together;
  Revisions::Edit alone{};  ///< by a node that goes on alone; nothing: the same
};

/// In an epoch of both side A orders changes; else the only member.
[[nodiscard]] bool orders(const ConfigurationEpoch& epoch, engine::NodeSide side);

/// Refusals as of Revisions::change() and change_alone(), in whole sentences: what could not be done, why, and what
/// would make it possible.
[[nodiscard]] Outcome<RevisionId> change_configuration(const Deciders& who, const std::string& summary,
                                                       const ConfigurationEdits& edits, Agreement agreement);

}  // namespace lockstep::mgmt
