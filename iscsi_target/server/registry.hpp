#pragma once
// The targets of one listener and who may discover them. May be changed while sessions run.
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "iscsi_target/session/target.hpp"

namespace lockstep::iscsi_target {

/// All members may be called from any thread.
class TargetRegistry final : public TargetDirectory {
 public:
  /// Adds or replaces. Sessions that run keep the old description until they end; replace portals and access freely
  /// (then TargetServer::recheck_sessions), but end the sessions (TargetServer::close_sessions) before the device
  /// server goes.
  void put(Target target);
  void remove(std::string_view name);
  /// Discovery sessions must prove one of these; empty: anybody may ask.
  void set_discovery_credentials(std::vector<iscsi::ChapCredentials> credentials);

  [[nodiscard]] std::shared_ptr<const Target> find(std::string_view name) const override;
  [[nodiscard]] std::vector<std::shared_ptr<const Target>> discoverable() const override;
  [[nodiscard]] bool still_admits(const iscsi::LoginIdentity& who,
                                  const std::optional<iscsi::ChapCredentials>& proof) const override;
  iscsi::LoginDecision decide(const iscsi::LoginIdentity& who) override;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const Target>, std::less<>> targets_;
  std::vector<iscsi::ChapCredentials> discovery_;
};

/// The policy of a target that lets in named initiators, or everybody.
class AccessList final : public AccessPolicy {
 public:
  struct Entry {
    std::string initiator;
    std::optional<iscsi::ChapCredentials> chap;
  };
  /// An empty list lets in everybody, without authentication.
  explicit AccessList(std::vector<Entry> entries = {}) : entries_(std::move(entries)) {}
  [[nodiscard]] AccessAnswer may_log_in(std::string_view initiator, std::string_view target) const override;

 private:
  std::vector<Entry> entries_;
};

}  // namespace lockstep::iscsi_target
