#pragma once
// Looks at this machine's RDMA once a minute, and when the addresses that are served change.
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "engine/rdma/check/fabric_check.hpp"
#include "engine/runtime/reactor.hpp"

namespace lockstep::data_plane {

struct FabricWatchOptions {
  bool wanted = false;   ///< else there is nothing to look for
  bool asked = false;    ///< as rdma::FabricUse
  std::string why_none;  ///< as rdma::FabricUse
  rdma::Pinning pinning;
  std::filesystem::path root = "/";
};

/// On its home reactor, but for the destructor.
class FabricWatch {
 public:
  static constexpr engine::Duration kEvery = std::chrono::minutes(1);

  FabricWatch(engine::Reactor& home, FabricWatchOptions options);
  /// After the reactor has stopped.
  ~FabricWatch();
  FabricWatch(const FabricWatch&) = delete;
  FabricWatch& operator=(const FabricWatch&) = delete;

  /// From now on, instead of those before; which interface has each is found out.
  void serve(std::vector<rdma::ServedAddress> addresses);
  /// Of the last look; none before the first.
  [[nodiscard]] const std::vector<rdma::Finding>& findings() const { return findings_; }

 private:
  void look();
  void look_later();
  void take(const rdma::FabricView& seen, std::vector<rdma::ServedAddress> addresses);
  void log_new(const std::vector<rdma::Finding>& now) const;

  engine::Reactor& home_;
  FabricWatchOptions options_;
  std::vector<rdma::ServedAddress> addresses_;
  rdma::FabricCheck check_;
  std::vector<rdma::Finding> findings_;
  engine::TimerId timer_ = engine::TimerId::none;
  bool looking_ = false;
  bool again_ = false;  ///< the addresses have changed since it began to look
  std::thread looker_;  ///< a driver may take its time over its counters
};

/// What this process may pin; nothing: there is no limit.
[[nodiscard]] std::optional<std::uint64_t> pinning_limit();

}  // namespace lockstep::data_plane
