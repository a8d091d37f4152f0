#pragma once
// The way back when no node has its database any more: the configuration is taken from the copy that was saved beside
// the volumes (saved_configuration.hpp). Only on a node that is in no pair; never past a partner that knows more.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mgmt/control/node_core.hpp"

namespace lockstep::mgmt {

/// What the other node of the saved configuration says.
enum class PartnerWord : std::uint8_t {
  none,     ///< there is no other node in it
  away,     ///< it can't be asked, or shows another certificate: its management was perhaps set up anew
  no_pair,  ///< it has lost its database, too
  newer,    ///< it has lost its database, too, but its own copy is newer
  paired,   ///< it has a configuration of the pair in force
};

/// Files in the volumes' folder that look like a replica's.
struct FoundReplica {
  Uuid volume;
  std::int64_t bytes = 0;  ///< of its data
};

struct RecoveryView {
  std::optional<SavedConfiguration> saved;
  std::string problem;  ///< why it can't be recovered; empty: it can
  PartnerWord partner = PartnerWord::none;
  std::string partner_says;  ///< a sentence
  std::vector<FoundReplica> replicas;
};

class PairRecovery {
 public:
  using Connect = std::function<std::unique_ptr<MembershipPeer>(const HttpsTarget&)>;

  /// `recovered` is called when the configuration is in force. `connect` is for tests.
  PairRecovery(NodeCore& core, std::function<void()> recovered, Connect connect = {});

  /// Asks the partner, and so may take seconds.
  [[nodiscard]] RecoveryView look() const;
  [[nodiscard]] std::vector<FoundReplica> replicas_found() const;
  /// `confirm`: the pair's name. `token`: the one that this was asked with; it stays valid.
  [[nodiscard]] Outcome<void> recover(const std::string& confirm, const Token& token);

 private:
  void ask_partner(RecoveryView& view) const;
  NodeCore& core_;
  const std::function<void()> recovered_;
  const Connect connect_;
};

}  // namespace lockstep::mgmt
