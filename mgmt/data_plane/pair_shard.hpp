#pragma once
// One shard of this node's half of the pair: a mirror of its own for the volumes that live on one reactor, its way out
// to the same shard of the partner's, and the reserved target that this comes in by. Nothing of it is touched by
// another shard: each has its own link, its own lease and its own reserve of buffers. Lives on its worker's reactor,
// where all of this is called.
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/runtime/system_random.hpp"
#include "iscsi_target/server/server.hpp"
#include "mgmt/data_plane/carrier_watch.hpp"
#include "mgmt/data_plane/desired_state.hpp"
#include "mgmt/data_plane/events.hpp"
#include "mgmt/data_plane/partner_paths.hpp"
#include "mgmt/data_plane/shard_rdma.hpp"
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

struct ShardSettings {
  unsigned number = 0;
  PairIdentity identity;
  SettingsSpec settings;         ///< the rates are this shard's part
  bool confirms_reads = false;   ///< replication::NodeSettings
  bool kernel_tls = true;        ///< engine::TlsIdentitySettings
  std::uint64_t reserve = 0;     ///< bytes of buffers for the partner's data
  rdma::Fabric* rdma = nullptr;  ///< null: there is none,
  std::string why_no_rdma;       ///< … and this is why
};

/// What the shards of a node share, each as this one sees it. They call back on its reactor, and outlive it.
struct ShardSeams {
  replication::Witness& witness;
  replication::Fence& fence;
  replication::LeftRecords& left_records;
  const replication::OtherPairNodes& others;
  replication::NodeObserver& observer;
  EventSink& events;  ///< any thread
};

/// A shard's state, as values.
struct ShardReport {
  unsigned number = 0;
  bool link_up = false;
  bool connected = false;            ///< the way out, and the partner has answered
  std::int64_t since_ms = 0;         ///< wall clock, of the link's last change
  std::string address;               ///< of the partner's, where the first path goes that is up; empty: none is
  std::string problem;               ///< why the link is down; empty while it is up
  std::string cipher;                ///< of what carries the data now; empty: it is not encrypted, or the link is down
  bool over_rdma = false;            ///< what carries the data now; otherwise TCP,
  std::string why_not_rdma;          ///< … and a sentence that says why
  iser::Figures rdma{};              ///< both ways
  std::optional<Carried> carried{};  ///< nothing: there is no RDMA
  std::vector<PathReport> paths;
  replication::PairNode::LeaseStatus lease;
  std::vector<replication::VolumeStatus> volumes;
  /// The first always is.
  [[nodiscard]] bool is_used() const { return number == 0 || !volumes.empty(); }
};

/// That of a shard: its number is added to each port of the link. Nothing where the first path's would be too high; no
/// further path whose would.
[[nodiscard]] std::optional<PartnerSpec> partner_of_shard(const PartnerSpec& partner, unsigned shard);
/// The host's part, in the one form that a socket's own address has.
[[nodiscard]] std::string host_of(const SocketAddress& address);
/// Of every path, this node's.
[[nodiscard]] std::vector<SocketAddress> listening_of(const LinkSpec& link);

class PairShard final : private replication::LinkEvents {
 public:
  static constexpr engine::Duration kLookForFirstWay = std::chrono::seconds(1);  ///< while the link has another
  static constexpr engine::Duration kLookAtCarrier = std::chrono::milliseconds(500);
  static constexpr engine::Duration kListenAgain = std::chrono::seconds(2);  ///< at an address that was taken
  static constexpr std::size_t kMaxTrials = 4;                               ///< at a time
  /// Bytes of memory for what comes unasked while the reserve has no buffer for it: of a whole window of requests, so
  /// that none of them ends with BUSY.
  static constexpr std::size_t kStash = std::size_t{iscsi_target::kMaxQueueDepth} * replication::kLinkFirstBurst;

  PairShard(Worker& worker, const ShardSettings& settings, ShardSeams seams);
  /// While no thread runs the reactor, or after stop().
  ~PairShard() override;

  /// After the volumes that are there from the first moment were attached.
  void start();
  void note_attaching() { node_.note_attaching(); }
  /// What keeps it from listening where it is told to: the address, and a sentence.
  using AddressProblems = std::vector<std::pair<std::string, std::string>>;
  /// Listens for the partner and connects to it; null ends both. Where the secrets alone differ, a session that stands
  /// goes on; whoever logs in from now on needs the new ones. So does one whose way is still among those that there
  /// are; it is moved to the first of them when a login there has succeeded. Again after problems: what is missing is
  /// tried again.
  /// `used`: it has volumes, or is about to; what it can't listen at is tried again, then.
  [[nodiscard]] AddressProblems set_partner(const std::optional<PartnerSpec>& partner, bool used);
  /// `done` gets nothing, or what keeps a login from succeeding that way. The link is not touched.
  void try_way(const LinkTry& way, engine::Callback<const std::string&> done);
  /// How fast that path is, measured beside what it carries. Fails where another measurement is under
  /// way, or the path is down or lost meanwhile.
  void measure_path(const LinkTest& which, engine::Callback<engine::Result<replication::PathMeasured>> done);

  /// In use, from now on. Of the lease, the next step of a change (replication/core/partner.hpp).
  void use(const SettingsSpec& settings);

  [[nodiscard]] unsigned number() const { return number_; }  ///< any thread, as the next
  [[nodiscard]] Worker& worker() { return worker_; }
  [[nodiscard]] replication::PairNode& node() { return node_; }
  /// What carries the data is noted as it is shown: counts and log never lag behind it.
  [[nodiscard]] ShardReport report();

  /// Ends both ways of the link; the mirror was shut down before.
  void stop(engine::Callback<> done);

 private:
  void on_link_up() override;
  void on_link_down() override;
  void on_inbound_up(std::uint64_t session) override;
  void on_inbound_down(std::uint64_t session) override;
  void on_request(std::uint64_t session, replication::InboundRequest& request) override;
  void on_set_back() override;
  void on_partner_set_back(const engine::Uuid& process) override;
  [[nodiscard]] replication::Hello hello() const;
  [[nodiscard]] replication::IscsiLinkSettings link_settings(const std::optional<PartnerSpec>& partner) const;
  /// What the link is protected with from the next call on, either way.
  [[nodiscard]] engine::Result<void> use_tls(const std::optional<LinkTls>& tls);
  /// Whom the link's target lets in from the next login on.
  void let_in(const PartnerSpec& partner);
  AddressProblems listen();
  void use_ways_of(const std::optional<PartnerSpec>& partner);
  [[nodiscard]] std::vector<PathPlan> plans_of(const std::optional<PartnerSpec>& partner) const;
  void on_path(const std::string& name, const replication::LinkWay& way);
  [[nodiscard]] std::string why_not_rdma() const;
  void look_for_first_way();
  void look_for_first_way_in(engine::Duration time);
  /// Again and again: it changes with time alone, too.
  void look_at_carrier();
  void note_carrier();
  void tell(const std::string& kind, const std::string& message);
  void tell_of_link(const std::string& kind, const std::string& message);
  [[nodiscard]] std::string link_name() const;
  void on_session(const iscsi_target::SessionEvent& event);

  unsigned number_;
  PairIdentity identity_;
  Worker& worker_;
  engine::Reactor& reactor_;
  engine::SystemRandom random_;
  replication::NodeObserver& observer_;
  EventSink& events_;
  replication::Fencing fencing_;
  engine::BufferPool reserve_;
  std::unique_ptr<ShardRdma> rdma_;
  std::string why_no_rdma_;
  bool kernel_tls_;
  PartnerPaths paths_;
  replication::PairNode node_;
  replication::PathsTarget target_;
  engine::BufferPool session_buffers_{kStash};  ///< of the session layer; the data goes to the reserve
  iscsi_target::TargetRegistry registry_;
  iscsi_target::TargetServer server_;
  std::optional<PartnerSpec> partner_;
  std::shared_ptr<const engine::TlsContext> tls_;  ///< where the link has TLS
  std::vector<std::string> listening_;
  std::unique_ptr<replication::LinkTrial> first_way_;  ///< under way, while the link has taken another one
  engine::TimerId listen_again_ = engine::TimerId::none;
  engine::TimerId look_ = engine::TimerId::none;  ///< at the first way, again
  CarrierWatch carrier_;
  engine::TimerId carrier_look_ = engine::TimerId::none;
  std::map<std::uint64_t, std::unique_ptr<replication::LinkTrial>> trials_;
  std::uint64_t last_trial_ = 0;
  std::int64_t since_ms_ = 0;
  bool used_ = false;
  bool link_up_ = false;
};

}  // namespace lockstep::data_plane
