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
  std::string problem;                        ///< why it is down; empty while it is up
  std::optional<engine::TcpFigures> figures;  ///< of the connection out, while it is up
  unsigned losses = 0;                        ///< times that it was lost since this program runs
  bool operator==(const PathReport&) const = default;
};

class PartnerPaths {
 public:
  static constexpr std::size_t kPaths = 1 + kMaxMorePaths;

  /// `name` begins what is logged.
  PartnerPaths(engine::Reactor& reactor, engine::Random& random, const replication::Hello& ours,
               const std::string& name = "Partner link");
  ~PartnerPaths();
  PartnerPaths(const PartnerPaths&) = delete;
  PartnerPaths& operator=(const PartnerPaths&) = delete;

  /// What the mirror sees. `told` hears of each path, after the mirror did.
  [[nodiscard]] replication::Link& link() { return *link_; }
  void start(replication::LinkEvents& mirror, engine::Callback<std::size_t, bool> told);
  void stop();

  /// A path that stands by the same way, and is protected as it is to be, goes on; any other one is made anew, or
  /// ended: then this is false. The first plan is that of the first path. No plan has no way but it.
  bool use(std::vector<PathPlan> plans);
  /// Gives the first path's session up for one by `settings`.
  void change_first(replication::IscsiLinkSettings settings);

  [[nodiscard]] const replication::IscsiLink& first() const;
  /// The first of those that are up; the first, if none is.
  [[nodiscard]] const replication::IscsiLink& up() const;
  /// Why the link is down; empty while it is up.
  [[nodiscard]] const std::string& problem() const;
  /// Of the path that goes to that address, as report() says. False: another measurement is under way. `done` as
  /// PathMeasurement says.
  [[nodiscard]] bool measure(const std::string& to, engine::Callback<const replication::PathMeasured&> done);
  /// Of the paths that there are.
  [[nodiscard]] std::vector<PathReport> report() const;

 private:
  struct Path;
  struct OfLink;
  [[nodiscard]] std::array<PathPlan, kPaths> placed(std::vector<PathPlan> plans) const;
  void change(Path& path, replication::IscsiLinkSettings settings);
  void try_all_at_once();
  [[nodiscard]] static bool may_go_on(const Path& path, const replication::IscsiLinkSettings& settings);

  std::vector<std::unique_ptr<Path>> paths_;
  std::unique_ptr<OfLink> of_link_;
  std::unique_ptr<replication::PathsLink> link_;
  engine::Callback<std::size_t, bool> told_;
  engine::Reactor& reactor_;
  std::unique_ptr<replication::PathMeasurement> measurement_;
};

}  // namespace lockstep::data_plane
