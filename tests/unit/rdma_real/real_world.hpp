#pragma once
// The real provider, both machines of it in one process, on libraries that stand in for librdmacm and libibverbs.
#include <gmock/gmock.h>

#include "engine/rdma/real/fabric.hpp"
#include "tests/support/verbs_library/library.hpp"
#include "tests/unit/rdma/contract.hpp"

namespace lockstep::test {

struct RealContract : TwoMachines<rdma::Fabric> {
  RealContract() : TwoMachines(*rdma::open_fabric(), *rdma::open_fabric()) {}
  RealContract(std::unique_ptr<rdma::Fabric> called, std::unique_ptr<rdma::Fabric> calling)
      : TwoMachines(std::move(called), std::move(calling)) {}
  template <class Body>
  static void each(const Body& body) {
    VerbsLibrary::reset();
    {
      RealContract world;
      body(world);
    }
    EXPECT_THAT(VerbsLibrary::faults(), testing::IsEmpty());
    EXPECT_THAT(VerbsLibrary::left(), testing::IsEmpty());
  }
  /// A device retries for ever, as the provider asks for.
  static void never_wait_for_receives() { VerbsLibrary::set_patient(false); }
  [[nodiscard]] static std::vector<std::string> faults() { return VerbsLibrary::faults(); }
  [[nodiscard]] static std::uint64_t messages_without_receive() { return VerbsLibrary::messages_without_receive(); }
};

struct ContractNames {
  template <class Contract>
  static std::string GetName(int) {
    return "Real";
  }
};
using Contracts = testing::Types<RealContract>;

}  // namespace lockstep::test
