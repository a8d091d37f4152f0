#pragma once
// This node's way out to its partner over every path of the link: a session for each, and above them the one Link that
// the mirror has. Lives on its shard's reactor.
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/seams/random.hpp"
#include "mgmt/data_plane/desired_state.hpp"
#include "replication/link/iscsi_link.hpp"
#include "replication/link/path_measurement.hpp"
#include "replication/link/paths_link.hpp"

namespace lockstep::data_plane {

/// What a path is used for, and how. Its settings without an address: there is no such path.
struct PathPlan {
  replication::IscsiLinkSettings settings;
  bool last_resort = false;  ///< carries data only when no other does
};

struct PathReport {
  enum class State : std::uint8_t { down, joining, proving, proven };
  replication::LinkWay way;  ///< where it goes while it is up, or the last attempt
  State state = State::down;
  bool last_resort = false;
  std::string cipher;                         ///< empty: not encrypted, or down
  bool kernel_tls = false;                    ///< what this node sends is encrypted by its kernel
  std::string problem;                        ///< why it is down; empty while it is up
  std::optional<engine::TcpFigures> figures;  ///< of the connection out, while it is up
  unsigned losses = 0;                        ///< times that it was lost since this program runs
  /// The same way over RDMA, where that is tried.
  struct OverRdma {
    State state = State::down;
    std::string cipher;
    std::string problem;
    unsigned losses = 0;
    bool operator==(const OverRdma&) const = default;
  };
  std::optional<OverRdma> rdma;
  bool operator==(const PathReport&) const = default;
};

class PartnerPaths {
 public:
  static constexpr std::size_t kPaths = 1 + kMaxMorePaths;  ///< over TCP, and as many over RDMA beside them

  /// `name` begins what is logged. `rdma`: what calls over RDMA are made with; null: none are.
  PartnerPaths(engine::Reactor& reactor, engine::Random& random, const replication::Hello& ours,
               const std::string& name = "Partner link", replication::LinkRdma* rdma = nullptr);
  ~PartnerPaths();
  PartnerPaths(const PartnerPaths&) = delete;
  PartnerPaths& operator=(const PartnerPaths&) = delete;

  /// Of a path, that it is up, and where it goes.
  using Told = engine::Callback<const std::string&, const replication::LinkWay&>;
  /// What the mirror sees. `told` hears of each path, after the mirror did.
  [[nodiscard]] replication::Link& link() { return *link_; }
  void start(replication::LinkEvents& mirror, Told told);
  /// Before start(): runs when a path was lost, while it says why.
  void on_loss(engine::Callback<> lost) { lost_ = std::move(lost); }
  /// `stopped` runs when no path moves anything any more, perhaps in here.
  void stop(engine::Callback<> stopped = {});

  /// A path that stands by the same way, and is protected as it is to be, goes on; any other one is made anew, or
  /// ended: then this is false. The first plan is that of the first path. No plan has no way but it.
  bool use(std::vector<PathPlan> plans);
  /// The longest that either node may hold.
  void set_lease(engine::Duration lease);
  /// Gives the first path's session up for one by `settings`.
  void change_first(replication::IscsiLinkSettings settings);

  [[nodiscard]] const replication::IscsiLink& first() const;
  /// The first of those that are up; the first, if none is.
  [[nodiscard]] const replication::IscsiLink& up() const;
  /// Why the link is down; empty while it is up.
  [[nodiscard]] const std::string& problem() const;
  /// Of the path that goes there, as report() says. False: another measurement is under way. `done` as PathMeasurement
  /// says.
  [[nodiscard]] bool measure(const LinkTest& which, engine::Callback<const replication::PathMeasured&> done);
  /// Of the paths that there are.
  [[nodiscard]] std::vector<PathReport> report() const;
  /// What carries the next request; nothing while the link is down.
  struct Carrier {
    replication::PathTransport transport{};
    std::string_view cipher;  ///< empty: it is not encrypted
  };
  [[nodiscard]] std::optional<Carrier> carrier() const;

 private:
  struct Path;
  struct OfLink;
  [[nodiscard]] std::array<PathPlan, kPaths> placed(std::vector<PathPlan> plans) const;
  [[nodiscard]] bool use(Path& path, PathPlan plan);
  [[nodiscard]] PathPlan over_rdma(const PathPlan& plan) const;
  [[nodiscard]] PathReport report(const Path& path) const;
  [[nodiscard]] PathReport::State state_of(const Path& path) const;
  void change(Path& path, replication::IscsiLinkSettings settings);
  void try_all_at_once();
  [[nodiscard]] static bool may_go_on(const Path& path, const replication::IscsiLinkSettings& settings);

  std::vector<std::unique_ptr<Path>> paths_;
  std::unique_ptr<OfLink> of_link_;
  std::unique_ptr<replication::PathsLink> link_;
  Told told_;
  engine::Callback<> lost_;
  replication::LinkRdma* rdma_;
  engine::Reactor& reactor_;
  std::unique_ptr<replication::PathMeasurement> measurement_;
};

}  // namespace lockstep::data_plane
