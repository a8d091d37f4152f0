#pragma once
// One volume of a pair: its parts, wired.
#include "replication/core/core_state.hpp"

namespace lockstep::replication {

class Mirror final : public engine::Disk {
 public:
  Mirror(const NodeSettings& settings, NodeSeams& seams, Partner& partner, engine::DiskInfo info, engine::Store& data,
         std::unique_ptr<engine::MetadataArea> meta);
  ~Mirror() override;

  [[nodiscard]] const engine::DiskInfo& info() const override { return core_.store.info; }
  [[nodiscard]] engine::AccessState access_state() const override;
  void submit(engine::DiskRequest& request) override;
  void cancel(engine::DiskRequest& request) override;
  void set_state_listener(std::shared_ptr<scsi::LuStateListener> listener) override;

  [[nodiscard]] Core& core() { return core_; }
  [[nodiscard]] VolumeStatus status() const;
  void take(std::uint64_t session, InboundRequest& request, const Message& message);

 private:
  Core core_;
};

}  // namespace lockstep::replication
