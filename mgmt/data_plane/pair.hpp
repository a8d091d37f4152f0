#pragma once
// This node's half of the pair, wired up: the mirror, its way out to the partner, the reserved target that the partner
// comes in by, and the witness. Lives on the home worker's reactor.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "engine/seams/random.hpp"
#include "iscsi_target/tcp/server.hpp"
#include "mgmt/data_plane/desired_state.hpp"
#include "mgmt/data_plane/events.hpp"
#include "mgmt/data_plane/fence_slot.hpp"
#include "mgmt/data_plane/witness_slot.hpp"
#include "mgmt/data_plane/worker.hpp"
#include "replication/core/pair_node.hpp"
#include "replication/link/iscsi_link.hpp"
#include "replication/link/partner_service.hpp"

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
  /// Listens for the partner and connects to it; null ends both. An error names the address. Where the secrets alone
  /// differ, a session that stands goes on; whoever logs in from now on needs the new ones.
  [[nodiscard]] engine::Result<void> set_partner(const std::optional<PartnerSpec>& partner);

  [[nodiscard]] replication::PairNode& node() { return node_; }
  [[nodiscard]] WitnessSlot& witness() { return witness_; }
  [[nodiscard]] FenceSlot& fence() { return fence_; }
  [[nodiscard]] const PairIdentity& identity() const { return identity_; }
  [[nodiscard]] bool link_up() const { return link_up_; }
  [[nodiscard]] std::int64_t since_ms() const { return since_ms_; }  ///< wall clock, of the last change
  [[nodiscard]] const std::string& link_problem() const { return link_.problem(); }

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
  /// Whom the link's target lets in from the next login on.
  void let_in(const PartnerSpec& partner);
  [[nodiscard]] engine::Result<void> listen(const PartnerSpec& partner);
  void tell(const std::string& kind, const std::string& message);
  void on_session(const iscsi_target::SessionEvent& event);

  PairIdentity identity_;
  replication::NodeObserver& observer_;
  EventSink& events_;
  WitnessSlot witness_;
  FenceSlot fence_;
  replication::Fencing fencing_;
  replication::IscsiLink link_;
  replication::PairNode node_;
  replication::PartnerService service_;
  engine::BufferPool session_buffers_{kStash};  ///< of the session layer; the data goes to the reserve
  iscsi_target::TargetRegistry registry_;
  iscsi_target::TcpTargetServer server_;
  std::optional<PartnerSpec> partner_;
  std::string listening_;
  std::int64_t since_ms_ = 0;
  bool started_ = false;
  bool link_up_ = false;
};

}  // namespace lockstep::data_plane
