#pragma once
// How both nodes' configurations stay one. Pure: no database, no network, no clock.
//
// One node orders changes: side A. (Side B hands its changes to A.) A change becomes revision n + 1 in three steps:
//   1. A sends it to B, which keeps it durably as *tentative*;
//   2. A commits it in its own database: this decides;
//   3. A tells B to commit.
// If 1 fails, nothing happened, and B's tentative revision is dropped as soon as A says so or the two compare notes. If
// 3 fails, B finds out when they next compare notes, and commits then. Either way the client's answer told the truth: a
// change that was answered with success is durable on both nodes.
#include <cstdint>
#include <optional>

#include "engine/base/uuid.hpp"
#include "mgmt/control/configuration_epoch.hpp"

namespace lockstep::mgmt {

/// What a node tells its partner of its revisions.
struct RevisionState {
  RevisionId head;                        ///< the configuration in force
  ConfigurationEpoch epoch{};             ///< the head's
  std::optional<RevisionId> tentative;    ///< waits for the orderer's decision
  std::optional<engine::Uuid> in_flight;  ///< the change that this node is asking its partner to keep right now
};
BOOST_DESCRIBE_STRUCT(RevisionState, (), (head, epoch, tentative, in_flight))

enum class RevisionVerdict : std::uint8_t {
  agree,              ///< nothing to do
  wait,               ///< my tentative revision is being decided right now
  commit_tentative,   ///< the partner decided for what I hold as tentative
  discard_tentative,  ///< the partner decided against it, or forgot it
  adopt_theirs,       ///< the partner is ahead: take its configuration
  they_are_behind,    ///< the partner will take mine
  conflict,           ///< neither descends from the other: an operator must choose
};

/// What I have to do, knowing what the partner said. `mine` must be what I held *before* I asked: a tentative revision
/// that came in between is not judged by an older answer. What one node decides mirrors what the other does.
[[nodiscard]] RevisionVerdict compare_revisions(const RevisionState& mine, const RevisionState& theirs);

/// Of a node that orders changes in the epoch of `mine`: the partner has more of that epoch than was decided by the
/// database that this node has, which was set back. One revision more is none of that: the partner may have gone on
/// alone with a proposal that was not decided here.
[[nodiscard]] bool lacks_what_it_decided(const RevisionState& mine, const RevisionState& theirs);

}  // namespace lockstep::mgmt
