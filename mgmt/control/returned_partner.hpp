#pragma once
// What a node did alone with volumes while its partner was away, carried out for the partner when it is back: copies
// of volumes that were made are made there, too, and copies of volumes that were deleted are removed. What is owed
// stands in the configuration (Copy::unmade), so that it outlives the jobs and the node that left it.
#include <chrono>
#include <map>

#include "mgmt/control/pair_service.hpp"
#include "mgmt/control/replace_jobs.hpp"

namespace lockstep::mgmt {

class ReturnedPartner {
 public:
  static constexpr auto kTryAgain = std::chrono::minutes(10);  ///< after a job that failed

  ReturnedPartner(NodeCore& core, ReplaceJobs& replacing, PairService& pair)
      : core_(core), replacing_(replacing), pair_(pair) {}
  /// To be called when both nodes agree. Only the node that orders changes does something. One thread.
  void turn();

 private:
  [[nodiscard]] bool is_due(const Volume& volume);

  NodeCore& core_;
  ReplaceJobs& replacing_;
  PairService& pair_;
  std::map<Uuid, std::chrono::steady_clock::time_point> begun_;  ///< the last job of each volume's
};

}  // namespace lockstep::mgmt
