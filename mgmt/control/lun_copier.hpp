#pragma once
// Copies one logical unit onto another in a thread of its own: several pieces under way, what is zero left out, and the
// position behind which everything is durable on the copy known at any moment.
//
// A copy may be gone on with from such a position. What an earlier run wrote beyond it is written again; what is zero
// there now is written as zeros, for an earlier run may have found something else.
#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "mgmt/control/lun_session.hpp"

namespace lockstep::mgmt {

struct CopyPlan {
  LunAddress from;
  LunAddress to;
  std::uint64_t size = 0;        ///< bytes of the source, as when the copy began
  std::uint32_t block_size = 0;  ///< of both
  std::string identity;          ///< of the source, as when the copy began; empty: not known
  std::uint64_t position = 0;    ///< bytes that are there already
  bool resumed = false;          ///< an earlier run may have written beyond `position`
};

struct CopyProgress {
  std::uint64_t position = 0;  ///< bytes; everything before it is durable on the copy
  std::uint64_t written = 0;   ///< bytes that were not zero, by this run
  std::uint64_t rate = 0;      ///< bytes a second, lately
  bool ended = false;          ///< with a fault, or with everything copied
  std::optional<LunFault> fault;
};

class LunCopier {
 public:
  static constexpr std::uint64_t kAhead = std::uint64_t{256} << 20;  ///< bytes at most beyond the durable position

  explicit LunCopier(CopyPlan plan);
  /// Ends the copy; what is durable stays.
  ~LunCopier();
  [[nodiscard]] CopyProgress progress() const;

 private:
  class Run;
  void run();

  const CopyPlan plan_;
  std::atomic<bool> stop_{false};
  mutable std::mutex mutex_;
  CopyProgress progress_;
  std::thread thread_;
};

}  // namespace lockstep::mgmt
