#pragma once
// What set-up asks of this node's management: whether it is in a pair, and to make one or to join one.
#include <optional>
#include <string>

#include "ui-api/cli/context.hpp"
#include "ui-api/cli/setup/answers.hpp"
#include "ui-api/cli/witness_token.hpp"

namespace lockstep::cli::setup {

/// How the node is to be in a pair. At most one of the first two.
struct PairWish {
  std::string pair;        ///< make this one, or invite to it
  std::string invitation;  ///< or join by this
  std::optional<WitnessToken> witness;
  std::string preferred;  ///< "a" or "b", in the place of a witness
};

/// Refuses where the node is in a pair already, and the answers or the wish are others than what the pair has: settings
/// about a node count when it makes or joins a pair, and not afterwards.
[[nodiscard]] Outcome<void> check_against_pair(Context& context, const Answers& answers, const PairWish& wish,
                                               bool volume_folder_changes);

/// Makes the pair, if it is not made, and prints the invitation for the second node. A pair of two nodes is left alone.
[[nodiscard]] Outcome<void> make_pair(Context& context, const Answers& answers, const PairWish& wish);
[[nodiscard]] Outcome<void> join_pair(Context& context, const Answers& answers, const std::string& invitation);

}  // namespace lockstep::cli::setup
