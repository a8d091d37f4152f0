#pragma once
// The way back when no node has its database any more: the configuration is taken from the copy that was saved beside
// the volumes (saved_configuration.hpp) or, where there is none, made anew from the metadata of the replicas that are
// there (rebuilt_configuration.hpp). Only on a node that is in no pair; never past a partner that knows more.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mgmt/control/data_plane.hpp"
#include "mgmt/control/found_replicas.hpp"
#include "mgmt/control/node_core.hpp"
#include "mgmt/control/pair_service.hpp"
#include "mgmt/control/rebuilt_configuration.hpp"
#include "mgmt/control/saved_copy_verdict.hpp"

namespace lockstep::mgmt {

/// What the other node of the saved configuration says.
enum class PartnerWord : std::uint8_t {
  none,     ///< there is no other node in it
  away,     ///< it can't be asked, or shows another certificate: its management was perhaps set up anew
  no_pair,  ///< it has lost its database, too
  newer,    ///< it has lost its database, too, but its own copy is newer
  paired,   ///< it has a configuration of the pair in force
};

struct RecoveryView {
  std::optional<SavedConfiguration> saved;
  std::optional<Rebuild> rebuild;  ///< where there is no saved copy
  std::string problem;             ///< why it can't be recovered; empty: it can
  PartnerWord partner = PartnerWord::none;
  std::string partner_says;  ///< a sentence
  SavedCopyVerdict verdict;  ///< where there is a saved copy
  std::string loses;         ///< sentences: what the saved copy does not bring back; empty: nothing that is known
  std::vector<FoundReplica> replicas;
};

struct RecoveryWish {
  std::string confirm;  ///< the pair's name
  /// What a rebuild needs to be told; set where the request says anything of it.
  std::optional<RebuildWish> rebuild;
  NodeWish node;  ///< of a rebuild
};

class PairRecovery {
 public:
  using Connect = std::function<std::unique_ptr<MembershipPeer>(const HttpsTarget&)>;

  /// `recovered` is called when the configuration is in force. `connect` is for tests.
  PairRecovery(NodeCore& core, DataPlane& data_plane, std::function<void()> recovered, Connect connect = {});

  /// Asks the partner and lockstepd, and so may take seconds. `pair`: of whose replicas; nothing: of the only pair's.
  [[nodiscard]] RecoveryView look(const std::optional<Uuid>& pair = {}) const;
  /// `token`: the one that this was asked with; it stays valid.
  [[nodiscard]] Outcome<void> recover(const RecoveryWish& wish, const Token& token);

 private:
  void ask_partner(RecoveryView& view) const;
  void look_at_replicas(RecoveryView& view, const std::optional<Uuid>& pair) const;
  void look_at_age(RecoveryView& view) const;
  [[nodiscard]] std::string why_not_now(const Rebuild& rebuild) const;
  Outcome<void> put_in_force(const RevisionId& id, const std::string& summary, const Configuration& next,
                             const std::string& message);
  Outcome<void> recover_saved(const RecoveryView& view, const RecoveryWish& wish, const Token& token);
  Outcome<void> rebuild(const RecoveryView& view, const RecoveryWish& wish, const Token& token);

  NodeCore& core_;
  DataPlane& data_plane_;
  const std::function<void()> recovered_;
  const Connect connect_;
};

}  // namespace lockstep::mgmt
