#pragma once
// The way in from the partner: the device server of the pair's reserved target. Turns each link command into an
// InboundRequest, in the order in which the partner sent them. Knows no session layer but the data mover's contract.
#include <cstdint>
#include <memory>
#include <string>

#include "engine/runtime/buffer_pool.hpp"
#include "engine/scsi/command.hpp"
#include "engine/seams/clock.hpp"
#include "replication/core/link.hpp"
#include "replication/link/link_format.hpp"

namespace lockstep::replication {

/// Owned by the pair's reactor, on which every session of the reserved target lives.
class PartnerService final : public scsi::DeviceServer {
 public:
  /// `buffers` is a reserve of its own, so that initiators' data can't starve the partner's.
  PartnerService(engine::Clock& clock, engine::BufferPool& buffers, Hello ours, LinkEvents& events);
  /// No nexus is open.
  ~PartnerService() override;

  /// A request waits for a buffer.
  [[nodiscard]] bool starves() const;
  /// A greeting that was refused, a sentence for a person.
  void on_refused(engine::Callback<const std::string&> handler);
  /// No event comes afterwards; requests that are still with the mirror may be answered into the void.
  void stop();

  void on_nexus_opened(scsi::Nexus& nexus) override;
  void on_nexus_closed(scsi::Nexus& nexus) override;
  void execute(scsi::Command& command) override;
  bool task_management(scsi::Nexus& nexus, scsi::TaskManagement function, std::uint64_t lun) override;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;  // kept by requests that outlive their session
};

}  // namespace lockstep::replication
