#pragma once
// The two providers of the seam that tests have, behind one face.
#include <filesystem>

#include "tests/support/rdma_between/fabric.hpp"
#include "tests/unit/rdma/contract.hpp"

namespace lockstep::test {

/// On the fake, with many seeds.
struct FakeContract : World {
  static std::error_code error(std::errc status) { return std::make_error_code(status); }
  static inline const auto kLength = error(FakeStatus::length), kNoReceive = error(FakeStatus::no_receive),
                           kRemoteAccess = error(FakeStatus::remote_access),
                           kRemoteInvalid = error(FakeStatus::remote_request);
  static constexpr const char* kHere = "10.0.0.1:3260";

  explicit FakeContract(std::uint64_t seed) : World(seed) {
    domain = rdma::Domain::link;
    wanted.windows = kContractWindows;
  }
  template <class Body>
  static void each(const Body& body) {
    for (std::uint64_t seed = 1; seed <= 200 && !testing::Test::HasFailure(); ++seed) {
      const testing::ScopedTrace trace(__FILE__, __LINE__, "seed " + std::to_string(seed));
      FakeContract world(seed);
      body(world);
    }
  }
  template <class Condition>
  void run_until(const Condition& condition) {
    const auto end = clock.now() + std::chrono::seconds(10);
    while (!condition()) ASSERT_TRUE(clock.step(end)) << "it did not come about";
  }
  [[nodiscard]] rdma::Fabric& called_fabric() { return target; }
  static void never_wait_for_receives() {}
  [[nodiscard]] std::vector<std::string> faults() const { return target.faults(); }
  [[nodiscard]] std::uint64_t messages_without_receive() const { return target.counts().no_receive; }
};

/// A folder that is removed at the end.
class TestFolder {
 public:
  TestFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "rdma-between-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~TestFolder() { std::filesystem::remove_all(path_); }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// There before whatever uses it.
struct HasFolder {
  TestFolder folder;
};

/// Sockets, as between processes, with both sides in this one.
struct BetweenContract : HasFolder, TwoMachines<BetweenFabric> {
  BetweenContract() : TwoMachines(*BetweenFabric::open(folder.path()), *BetweenFabric::open(folder.path())) {}
  template <class Body>
  static void each(const Body& body) {
    BetweenContract world;
    body(world);
  }
  static void never_wait_for_receives() {}
  [[nodiscard]] std::vector<std::string> faults() const {
    auto all = target->faults();
    std::ranges::copy(initiator->faults(), std::back_inserter(all));
    return all;
  }
  [[nodiscard]] std::uint64_t messages_without_receive() const { return faults().size(); }
};

struct ContractNames {
  template <class Contract>
  static std::string GetName(int) {
    return std::is_same_v<Contract, FakeContract> ? "Fake" : "Between";
  }
};
using Contracts = testing::Types<FakeContract, BetweenContract>;

}  // namespace lockstep::test
