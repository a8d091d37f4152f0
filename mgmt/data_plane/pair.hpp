#pragma once
// This node's half of the pair, wired up: the mirror, its way out to the partner, the reserved target that the partner
// comes in by, and the witness. Lives on the home worker's reactor.
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/seams/random.hpp"
#include "iscsi_target/tcp/server.hpp"
#include "mgmt/data_plane/desired_state.hpp"
#include "mgmt/data_plane/events.hpp"
#include "mgmt/data_plane/fence_slot.hpp"
#include "mgmt/data_plane/partner_paths.hpp"
#include "mgmt/data_plane/witness_slot.hpp"
#include "mgmt/data_plane/worker.hpp"
#include "replication/core/pair_node.hpp"
#include "replication/link/link_trial.hpp"
#include "replication/link/paths_target.hpp"

namespace lockstep::data_plane {

struct PairIdentity {
  engine::Uuid pair;
  engine::NodeSide side = engine::NodeSide::a;
  engine::Uuid process;
  bool operator==(const PairIdentity&) const = default;
};

/// What this machine says of it.
struct PairOptions {
  bool confirms_reads = false;
  std::string fence_socket;
};

class Pair final : private replication::LinkEvents {
 public:
  static constexpr engine::Duration kLookForFirstWay = std::chrono::seconds(1);  ///< while the link has another
  static constexpr std::size_t kMaxTrials = 4;  ///< at a time; the link's target lets in eight sessions
  /// Bytes of memory for what comes unasked while the reserve has no buffer for it: of a whole window of requests, so
  /// that none of them ends with BUSY.
  static constexpr std::size_t kStash = std::size_t{iscsi_target::kMaxQueueDepth} * replication::kLinkFirstBurst;

  Pair(Worker& home, engine::Random& random, engine::BufferPool& link_buffers, const PairIdentity& identity,
       const SettingsSpec& settings, const PairOptions& options, replication::LeftRecords& left_records,
       replication::NodeObserver& observer, EventSink& events);
  /// While no thread runs the reactor, or after stop().
  ~Pair() override;

  /// After the volumes that are there from the first moment were attached.
  void start();
  [[nodiscard]] bool started() const { return started_; }
  /// What keeps it from listening where it is told to: the address, and a sentence.
  using AddressProblems = std::vector<std::pair<std::string, std::string>>;
  /// Listens for the partner and connects to it; null ends both. Where the secrets alone differ, a session that stands
  /// goes on; whoever logs in from now on needs the new ones. So does one whose way is still among those that there
  /// are; it is moved to the first of them when a login there has succeeded. Again after problems: what is missing is
  /// tried again.
  [[nodiscard]] AddressProblems set_partner(const std::optional<PartnerSpec>& partner);
  [[nodiscard]] bool listens_at(const std::string& address) const;
  /// `done` gets nothing, or what keeps a login from succeeding that way. The link is not touched.
  void try_way(const LinkTry& way, engine::Callback<const std::string&> done);
  /// How fast the path to that address is, measured beside what it carries. Fails where another measurement is under
  /// way, or the path is down or lost meanwhile.
  void measure_path(const std::string& to, engine::Callback<engine::Result<replication::PathMeasured>> done);

  /// In use, from now on. Of the lease, the next step of a change (replication/core/partner.hpp).
  void use(const SettingsSpec& settings);

  [[nodiscard]] replication::PairNode& node() { return node_; }
  [[nodiscard]] WitnessSlot& witness() { return witness_; }
  /// A sentence about its line; empty where that is fast, or not known.
  [[nodiscard]] std::string slow_witness() const;
  [[nodiscard]] FenceSlot& fence() { return fence_; }
  [[nodiscard]] const PairIdentity& identity() const { return identity_; }
  [[nodiscard]] bool link_up() const { return link_up_; }
  [[nodiscard]] std::int64_t since_ms() const { return since_ms_; }  ///< wall clock, of the last change
  /// Of the partner's; where the first path goes that is up.
  [[nodiscard]] const std::string& link_address() const { return paths_.up().way().address; }
  [[nodiscard]] const std::string& link_problem() const { return paths_.problem(); }
  /// What it is encrypted with; empty: with nothing, or none is up.
  [[nodiscard]] std::string_view link_cipher() const { return paths_.up().cipher(); }
  [[nodiscard]] std::vector<PathReport> paths() const { return paths_.report(); }

  /// Ends both ways of the link; the mirror was shut down before.
  void stop(engine::Callback<> done);

 private:
  void on_link_up() override;
  void on_link_down() override;
  void on_inbound_up(std::uint64_t session) override;
  void on_inbound_down(std::uint64_t session) override;
  void on_request(std::uint64_t session, replication::InboundRequest& request) override;
  [[nodiscard]] replication::Hello hello() const;
  [[nodiscard]] replication::IscsiLinkSettings link_settings(const std::optional<PartnerSpec>& partner) const;
  /// What the link is protected with from the next call on, either way.
  [[nodiscard]] engine::Result<void> use_tls(const std::optional<LinkTls>& tls);
  /// Whom the link's target lets in from the next login on.
  void let_in(const PartnerSpec& partner);
  [[nodiscard]] AddressProblems listen(const std::vector<SocketAddress>& addresses);
  void use_ways_of(const std::optional<PartnerSpec>& partner);
  [[nodiscard]] std::vector<PathPlan> plans_of(const std::optional<PartnerSpec>& partner) const;
  void on_path(std::size_t number, bool up);
  void look_for_first_way();
  void look_for_first_way_in(engine::Duration time);
  void tell(const std::string& kind, const std::string& message);
  void on_session(const iscsi_target::SessionEvent& event);

  PairIdentity identity_;
  engine::Reactor& reactor_;
  engine::Random& random_;
  engine::Duration lease_;
  replication::NodeObserver& observer_;
  EventSink& events_;
  WitnessSlot witness_;
  FenceSlot fence_;
  replication::Fencing fencing_;
  PartnerPaths paths_;
  replication::PairNode node_;
  replication::PathsTarget target_;
  engine::BufferPool session_buffers_{kStash};  ///< of the session layer; the data goes to the reserve
  iscsi_target::TargetRegistry registry_;
  iscsi_target::TcpTargetServer server_;
  std::optional<PartnerSpec> partner_;
  std::shared_ptr<const engine::TlsContext> tls_;  ///< where the link has TLS
  std::vector<std::string> listening_;
  std::unique_ptr<replication::LinkTrial> first_way_;  ///< under way, while the link has taken another one
  engine::TimerId look_ = engine::TimerId::none;       ///< at the first way, again
  std::map<std::uint64_t, std::unique_ptr<replication::LinkTrial>> trials_;
  std::uint64_t last_trial_ = 0;
  std::int64_t since_ms_ = 0;
  bool started_ = false;
  bool link_up_ = false;
};

}  // namespace lockstep::data_plane
