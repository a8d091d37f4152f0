#pragma once
// RDMA between the processes of one machine that has none: the seam (engine/rdma/verbs.hpp) over Unix sockets, for
// tests with real daemons, which may be killed and stopped. It is as RDMA is in what a user can see: what is posted
// moves in later turns, a message needs a receive, keys are judged where the memory is, errors end the connection.
//
// Processes that are to reach each other name the same folder (folder.hpp). Addresses are those of the product, and no
// interface needs to have them. Silence loses nobody: as on Soft-RoCE, a connection whose peer was stopped stands.
#include <memory>
#include <string>
#include <vector>

#include "engine/rdma/verbs.hpp"

namespace lockstep::test {

class BetweenFabric final : public rdma::Fabric {
 public:
  static constexpr const char* kFolderVariable = "LOCKSTEP_TEST_FABRIC";

  [[nodiscard]] static engine::Result<std::unique_ptr<BetweenFabric>> open(std::string folder);
  ~BetweenFabric() override;

  void add_arena(std::span<std::byte> arena) override;
  void remove_arena(std::span<std::byte> arena) override;
  [[nodiscard]] rdma::Registrations registrations() const override;
  [[nodiscard]] std::unique_ptr<rdma::Completions> attach(engine::Reactor& reactor) override;
  [[nodiscard]] engine::Result<std::unique_ptr<rdma::Listener>> listen(
      rdma::Completions& home, std::string_view address, engine::Callback<std::unique_ptr<rdma::Call>> called) override;
  [[nodiscard]] std::unique_ptr<rdma::QueuePair> connect(rdma::Completions& completions, rdma::Domain domain,
                                                         std::string_view from, std::string_view to,
                                                         const rdma::Wanted& wanted,
                                                         std::span<const std::byte> private_data,
                                                         rdma::QueuePairUser& user) override;

  /// What this process's users did against the rules, in sentences; the folder's file `faults` has those of all.
  [[nodiscard]] std::vector<std::string> faults() const;

 private:
  struct Impl;
  explicit BetweenFabric(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// In the folder that the environment names.
[[nodiscard]] engine::Result<std::unique_ptr<rdma::Fabric>> open_fabric_between_processes();

}  // namespace lockstep::test
