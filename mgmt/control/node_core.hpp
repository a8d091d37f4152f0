#pragma once
// What every part of lockstep-mgmtd stands on: this node's identity, its database and what is kept there, and the way
// in which the pair's configuration is changed.
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "mgmt/control/certificate.hpp"
#include "mgmt/control/configuration_change.hpp"
#include "mgmt/control/configuration_copy.hpp"
#include "mgmt/control/database.hpp"
#include "mgmt/control/event_log.hpp"
#include "mgmt/control/file_thread.hpp"
#include "mgmt/control/found_replicas.hpp"
#include "mgmt/control/job.hpp"
#include "mgmt/control/node_settings.hpp"
#include "mgmt/control/page_certificate.hpp"
#include "mgmt/control/peer.hpp"
#include "mgmt/control/replaced_nodes.hpp"
#include "mgmt/control/revision_tables.hpp"
#include "mgmt/control/revisions.hpp"
#include "mgmt/control/saved_configuration.hpp"

namespace lockstep::mgmt {

/// From lockstep-mgmtd's configuration file.
struct LocalSettings {
  std::filesystem::path data_folder;
  std::filesystem::path volume_folder;
  std::filesystem::path copy_folder;  ///< of the configuration's copy; empty: volume_folder
  std::string rpc_socket;
  std::string node_name;
  std::vector<std::string> portals;
  std::string link_address;
  std::string management_address;            ///< where the partner reaches this node's management
  std::string listen{};                      ///< where lockstep-mgmtd listens by its file
  std::chrono::seconds create_patience{60};  ///< for a new volume to be in sync on both nodes
  std::chrono::seconds invitation_life{3600};
};

/// The setting that is there, durably, while this node forgets its pair: lockstepd is told nothing any more.
constexpr const char* kForgetsPair = "forgets_pair";

/// A database that was put back from a backup is of the past: it is behind what the pair has decided.
/// `presumed`: nobody has said so within the time that there is for it, and may yet.
enum class DatabaseTime : std::uint8_t { unknown, now, presumed, past };

class NodeCore {
 public:
  /// Opens or makes everything below the data folder.
  [[nodiscard]] static engine::Result<std::unique_ptr<NodeCore>> open(LocalSettings settings);

  const LocalSettings local;
  const TlsIdentity identity;  ///< towards the partner
  PageCertificate page;        ///< towards all others

 private:
  std::unique_ptr<Database> database_;
  NodeCore(LocalSettings settings, TlsIdentity identity, std::unique_ptr<Database> database);

  ConfigurationArbiter* arbiter_ = nullptr;
  Outcome<void> check_changeable() const;
  std::mutex listeners_mutex_;
  std::vector<std::function<void()>> listeners_;
  void tell_listeners();
  void make_folders();
  std::mutex save_mutex_;
  FileThread volumes_disk_;
  mutable std::mutex reached_mutex_;
  mutable std::string reached_;  ///< the partner's address that answered last
  [[nodiscard]] std::vector<HttpsTarget> targets() const;

 public:
  NodeSettings settings;
  ReplacedNodes replaced;
  const SavedConfigurationFile saved_file;
  ConfigurationCopy copy;  ///< saved_file, where its disk may hang
  RevisionTables revision_tables;
  EventLog events;
  JobTable jobs;
  Revisions revisions;
  const Uuid node_id;

  [[nodiscard]] Database& database() { return *database_; }
  [[nodiscard]] std::shared_ptr<const Configuration> configuration() const { return revisions.configuration(); }
  /// This node's side; nothing while it is in no pair.
  [[nodiscard]] std::optional<NodeSide> side() const;
  /// The partner; null while there is none.
  [[nodiscard]] const Node* partner(const Configuration& configuration) const;
  /// Asks where the partner should be, then, while an address takes the place of another, at the other one, then where
  /// it was found by hand.
  [[nodiscard]] std::unique_ptr<Peer> peer() const;
  /// Nothing when the partner's management answers there; else a sentence.
  [[nodiscard]] std::optional<std::string> why_partner_is_not_at(const std::string& address) const;
  /// Where the partner answers nowhere, but there: it is asked there from now on, until the configuration says so, too.
  void look_for_partner_at(const std::string& address);

  /// Nothing when this node's lockstep-mgmtd listens there, or could; else a sentence.
  [[nodiscard]] std::optional<std::string> why_not_managed_at(const std::string& address) const;
  /// Where it listens beside what its file says: wherever the pair's nodes look for it.
  [[nodiscard]] std::vector<std::string> managed_at() const;
  /// True when this node orders the pair's changes; the other node passes them on to it.
  [[nodiscard]] bool orders_changes() const;
  /// For a request whose job changes the configuration together with the partner, step by step. Refusal not_current:
  /// while the two come to agree again a node orders what it alone decides, and its partner does from then on, so that
  /// a job that began here could not end.
  [[nodiscard]] Outcome<void> check_orders_for_both() const;
  /// A change of the configuration, made by the node that orders them, or that goes on alone.
  Outcome<RevisionId> change(const std::string& summary, const Revisions::Edit& edit,
                             Agreement agreement = Agreement::both);
  /// By both nodes, or by one that is let; what is changed may differ.
  Outcome<RevisionId> change(const std::string& summary, const ConfigurationEdits& edits, Agreement agreement);
  /// For the beginning of what this node does alone and ends with `later` in the configuration: refused, where the
  /// partner could not take that over.
  [[nodiscard]] Outcome<void> check_absent_partner_reads(const Configuration& now, const Configuration& later) const;
  /// Whom change() asks when the partner is away. For start-up only; it outlives this. Without one, nobody goes on.
  void use_arbiter(ConfigurationArbiter& arbiter) { arbiter_ = &arbiter; }
  /// It is out of its pair, and is being made a node of none (leave_jobs.hpp).
  [[nodiscard]] bool forgets_pair() const;
  /// The partner says that this node is out of that pair, or is in it. True when it is news that it is out. What is
  /// said of a pair that this node has left by then counts for nothing.
  bool note_standing(const Uuid& pair, bool out);
  /// `listener` is called after every change of the configuration in force. For start-up only.
  void on_change(std::function<void()> listener);

  /// Ready volumes whose files are not in this node's folder; none while its disk does not answer.
  [[nodiscard]] std::vector<Uuid> missing_replicas();
  /// Those whose files are in this node's folder (replicas_named(), replicas_read()); nothing while its disk does not
  /// answer.
  [[nodiscard]] std::optional<std::vector<FoundReplica>> replicas_there();
  [[nodiscard]] std::optional<std::vector<FoundReplica>> replicas_there_read();

  /// Brings the copy beside the volumes up to date with what is in force; nothing while this node is in no pair. A copy
  /// that can't be written is logged and shown in the health, and changes nothing else.
  void save_copy();
  /// By the copy alone.
  [[nodiscard]] DatabaseTime database_time() const;
};

}  // namespace lockstep::mgmt
