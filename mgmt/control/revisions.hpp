#pragma once
// The revision protocol of revision.hpp carried out: this node's part in it, as orderer and as follower. Thread-safe.
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "mgmt/control/configuration.hpp"
#include "mgmt/control/revision.hpp"

namespace lockstep::mgmt {

/// Where revisions are kept. Each call is durable when it returns, and whole or not at all; it throws if it can't be.
class RevisionStore {
 public:
  virtual ~RevisionStore() = default;
  struct Tentative {
    RevisionId id;
    std::string summary;
    std::string document;
    ConfigurationEpoch epoch{};  ///< of `id`
  };
  virtual RevisionId head() = 0;
  virtual ConfigurationEpoch epoch() = 0;  ///< the head's
  virtual Configuration configuration() = 0;
  virtual std::optional<Tentative> tentative() = 0;
  /// Replaces the tentative revision that may be there.
  virtual void put_tentative(const Tentative& revision) = 0;
  virtual void drop_tentative() = 0;
  /// Makes the configuration the one in force; a tentative revision is gone afterwards.
  virtual void commit(const RevisionId& id, const ConfigurationEpoch& epoch, const std::string& summary,
                      const Configuration& configuration) = 0;
};

/// A change on its way to the partner. Attempts of one process are numbered, so that one that was held up on the way
/// can't replace a later one.
struct Proposal {
  RevisionId base;  ///< the head it changes
  RevisionId id;
  std::string summary;
  std::string document;
  engine::Uuid process;
  std::int64_t attempt = 0;
  ConfigurationEpoch epoch{};  ///< of `id`
};
BOOST_DESCRIBE_STRUCT(Proposal, (), (base, id, summary, document, process, attempt, epoch))

struct CurrentRevision {
  RevisionState state;
  std::string document;  ///< of the head
  engine::Uuid process;
  int reads = kNewestDocument;  ///< the newest version of a document that this node knows
  bool knows_epochs = true;     ///< it can take over what its partner changed alone
};
BOOST_DESCRIBE_STRUCT(CurrentRevision, (), (state, document, process, reads, knows_epochs))

enum class PrepareAnswer : std::uint8_t {
  kept,
  behind,  ///< the follower is not at `base`, or does not know the orderer's process: bring it up to date first
};

/// The partner as the protocol sees it. A refusal means that the outcome is not known.
class RevisionPeer {
 public:
  virtual ~RevisionPeer() = default;
  virtual Outcome<PrepareAnswer> prepare(const Proposal& proposal) = 0;
  virtual Outcome<void> commit(const RevisionId& id) = 0;
  virtual Outcome<void> discard(const RevisionId& id) = 0;
  /// Gives the follower this node's state and configuration, to take over what it lacks.
  virtual Outcome<void> bring_up_to_date(const CurrentRevision& mine) = 0;
  virtual Outcome<CurrentRevision> ask() = 0;
};

/// Lets a node change the configuration while its partner is away.
class ConfigurationArbiter {
 public:
  virtual ~ConfigurationArbiter() = default;
  /// The epoch in which the revision after `newest` may be made, durably decided: `mine`, which is that of `newest`,
  /// where it is this node's alone already, or the next one. Takes seconds at the most. Refusal not_current: why it may
  /// not, in whole sentences.
  virtual Outcome<ConfigurationEpoch> claim(const ConfigurationEpoch& mine, const RevisionId& newest,
                                            const Configuration& configuration) = 0;
  /// The newest version of a document that the partner, who is away, could read when it was last heard; 0: not known.
  [[nodiscard]] virtual int partner_reads() { return kNewestDocument; }
};

/// Refusal conflict: the partner, who is away, could not take `next` over when it is back.
[[nodiscard]] Outcome<void> check_absent_partner_reads(const Configuration& now, const Configuration& next,
                                                       ConfigurationArbiter& arbiter);

class Revisions {
 public:
  /// `store` outlives this. `changed` is called after each change of the configuration in force, without locks held.
  Revisions(RevisionStore& store, std::function<void()> changed);

  [[nodiscard]] std::shared_ptr<const Configuration> configuration() const;
  [[nodiscard]] RevisionState state() const;
  /// Both of one moment.
  [[nodiscard]] std::pair<RevisionId, std::shared_ptr<const Configuration>> in_force() const;
  [[nodiscard]] CurrentRevision current() const;
  [[nodiscard]] bool conflict() const;  ///< the last comparison found that an operator must choose
  /// What compare_notes() found last.
  struct Compared {
    std::optional<RevisionId> agreed;   ///< both have this revision in force, and nothing that waits
    bool partner_knows_epochs = false;  ///< it can take over what was changed without it
    /// The epoch in which this node, if it ordered changes in it, was set back (lacks_what_it_decided()); since the
    /// start.
    std::optional<ConfigurationEpoch> behind_in{};
    bool process_was_set_back = false;  ///< see compare_notes()
    int partner_reads = 0;              ///< CurrentRevision::reads
  };
  [[nodiscard]] Compared compared() const;

  using Edit = std::function<Outcome<void>(Configuration&)>;
  /// The orderer's part. `edit` changes the newest configuration; its refusal is passed on. `peer` null: this node is
  /// alone in its pair. Changes come one after the other. Refusal not_current: nothing was
  /// changed; `perhaps_done`: nothing here, but the partner may have kept it, and take it for made if it goes on alone.
  /// conflict: nothing either, as the partner is of a version that could not read the new configuration.
  [[nodiscard]] Outcome<RevisionId> change(const std::string& summary, const Edit& edit, RevisionPeer* peer);
  /// The part of a node whose partner is away, or that is in an epoch of its own. What the partner may have decided
  /// before counts as decided (newest()). Refusals as of change(), and the arbiter's.
  [[nodiscard]] Outcome<RevisionId> change_alone(const std::string& summary, const Edit& edit,
                                                 ConfigurationArbiter& arbiter);
  /// The only node of an epoch has both decide again, in the next epoch. The partner has the revision `agreed` already,
  /// which is in force here. False: it was overtaken.
  [[nodiscard]] bool join(const RevisionId& agreed);
  /// The orderer has both begin the next epoch, above `number`, with the configuration that is in force.
  [[nodiscard]] Outcome<RevisionId> begin_next_epoch(std::uint64_t number, RevisionPeer& peer);
  /// The newest configuration that may have been decided: a tentative revision counts, since the orderer may have
  /// committed it, and have told its user so, before it was lost.
  struct Newest {
    RevisionState state;
    Configuration configuration;
    std::string tentative;  ///< the summary of the tentative revision in it; empty: there is none
    ConfigurationEpoch epoch{};
    [[nodiscard]] RevisionId id() const { return state.tentative.value_or(state.head); }
    [[nodiscard]] std::int64_t n() const { return id().n; }
  };
  [[nodiscard]] Outcome<Newest> newest() const;

  /// Begins a new epoch with this configuration, whatever is in force; for a node that joins a pair.
  void commit_new_epoch(const RevisionId& id, const std::string& summary, const Configuration& configuration);
  /// The same for the pair's node that decides it: only if nothing was committed or proposed since `over` was seen.
  [[nodiscard]] bool begin_epoch(const RevisionState& over, const RevisionId& id, const std::string& summary,
                                 const Configuration& configuration);

  /// An operator's word: the next revision, of an epoch of this node alone that no arbiter has let it begin. If the
  /// partner has changed something meanwhile, or does before it takes this over, there are two lines.
  [[nodiscard]] Outcome<RevisionId> force(engine::NodeSide me, const std::string& summary);
  /// Of two lines this node's ends: `theirs` is in force here, whatever was changed here without it. False: something
  /// was changed or proposed since `over` was seen, or `theirs` can't be read.
  [[nodiscard]] bool give_up(const RevisionState& over, const CurrentRevision& theirs);

  // The follower's part: the partner's requests.
  [[nodiscard]] PrepareAnswer on_prepare(const Proposal& proposal);
  [[nodiscard]] Outcome<void> on_commit(const RevisionId& id);
  void on_discard(const RevisionId& id);
  [[nodiscard]] Outcome<void> on_bring_up_to_date(const CurrentRevision& theirs);

  /// Compares notes with the partner and does what this node has to do. To be called whenever the partner answers.
  /// `me`: this node's side, where the process can be ended. If it then lacks what it decided, though it once had all,
  /// the machine was set back with the process in its memory: nothing is taken over, `process_was_set_back` says it
  /// from then on, and the next process meets the partner as one whose database was set back.
  [[nodiscard]] Outcome<RevisionVerdict> compare_notes(RevisionPeer& peer, std::optional<engine::NodeSide> me = {});

 private:
  struct PartnerProcess {
    engine::Uuid id;
    std::int64_t attempt = 0;  ///< its newest that came here
  };
  Outcome<void> carry_out(RevisionVerdict verdict, const RevisionState& judged, const CurrentRevision& theirs);
  Outcome<RevisionId> propose(const RevisionId& base, const RevisionId& id, const ConfigurationEpoch& epoch,
                              const std::string& summary, const Configuration& next, RevisionPeer* peer);
  void note_process_locked(const engine::Uuid& process);
  [[nodiscard]] bool note_compared_locked(const RevisionState& judged, RevisionVerdict verdict,
                                          const CurrentRevision& theirs, std::optional<engine::NodeSide> me);
  void commit_locked(const RevisionId& id, const ConfigurationEpoch& epoch, const std::string& summary,
                     const Configuration& configuration);
  struct Base {
    RevisionState state;
    std::shared_ptr<const Configuration> configuration;
  };
  [[nodiscard]] Base base_of_change() const;
  Outcome<ConfigurationEpoch> epoch_of_next(const ConfigurationEpoch& now, const RevisionId& head, RevisionPeer& peer);
  Outcome<void> check_partner_reads(const Configuration& next, RevisionPeer& peer);
  Outcome<void> have_partner_keep(const Proposal& proposal, RevisionPeer& peer);

  RevisionStore& store_;
  std::function<void()> changed_;
  const engine::Uuid process_;
  mutable std::mutex mutex_;  ///< guards what follows; never held while the partner is asked
  std::shared_ptr<const Configuration> configuration_;
  RevisionState state_;
  PartnerProcess partner_;
  std::vector<PartnerProcess> former_;  ///< that ended, newest last
  bool conflict_ = false;
  Compared compared_;
  bool had_all_ = false;  ///< this process has had all that this node decided: it compared notes, or changed something

  std::mutex change_mutex_;  ///< one change at a time; held while the partner is asked
  std::int64_t attempt_ = 0;
  engine::Uuid begun_;  ///< the last epoch of both nodes that this process began
};

}  // namespace lockstep::mgmt
