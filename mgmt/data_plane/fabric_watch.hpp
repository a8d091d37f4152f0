#pragma once
// Looks at this machine's RDMA once a minute, and when the addresses that are served change.
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "engine/iser/figures.hpp"
#include "engine/rdma/check/fabric_check.hpp"
#include "engine/rdma/check/flow_control.hpp"
#include "engine/runtime/reactor.hpp"
#include "mgmt/data_plane/desired_state.hpp"

namespace lockstep::data_plane {

struct FabricWatchOptions {
  bool wanted = false;   ///< else there is nothing to look for
  bool asked = false;    ///< as rdma::FabricUse
  std::string why_none;  ///< as rdma::FabricUse
  rdma::Pinning pinning;
  std::filesystem::path root = "/";
  rdma::AskFlowControl ask_flow_control = rdma::ask_flow_control;
};

/// On its home reactor, but for its end.
class FabricWatch {
 public:
  static constexpr engine::Duration kEvery = std::chrono::minutes(1);

  FabricWatch(engine::Reactor& home, FabricWatchOptions options);
  ~FabricWatch() { end(); }
  FabricWatch(const FabricWatch&) = delete;
  FabricWatch& operator=(const FabricWatch&) = delete;

  /// After the reactor has stopped: waits for the look that is under way.
  void end();

  /// From now on, instead of what was before; which interface has each address is found out.
  void serve(const DesiredState& state);
  /// What was moved since lockstepd started: devices that nothing goes over are not told of, unless they are asked for.
  void count(const iser::Figures& hosts, const iser::Figures& link);
  [[nodiscard]] bool asked() const { return options_.asked; }
  [[nodiscard]] std::uint64_t looks() const { return looks_; }
  /// Of the last look; none before the first.
  [[nodiscard]] const std::vector<rdma::Finding>& findings() const { return findings_; }
  [[nodiscard]] const std::vector<rdma::PortCounter>& counters() const { return counters_; }

 private:
  void look_now();
  void look();
  void look_later();
  void take(const rdma::FabricView& seen, const rdma::FabricUse& use);
  void log_new(const std::vector<rdma::Finding>& now) const;

  engine::Reactor& home_;
  FabricWatchOptions options_;
  /// What is known so far; a look goes by a copy of it.
  rdma::FabricUse use_;
  rdma::FabricCheck check_;
  std::vector<rdma::Finding> findings_;
  std::vector<rdma::PortCounter> counters_;
  engine::TimerId timer_ = engine::TimerId::none;
  std::uint64_t looks_ = 0;  ///< that have ended
  bool looking_ = false;
  bool again_ = false;  ///< something has changed since it began to look
  std::thread looker_;  ///< a driver may take its time over its counters
};

/// Those that RDMA is tried at: a path of last resort is none.
[[nodiscard]] std::vector<rdma::ServedAddress> addresses_for_rdma(const DesiredState& state);

/// What this process may pin; nothing: there is no limit.
[[nodiscard]] std::optional<std::uint64_t> pinning_limit();

}  // namespace lockstep::data_plane
