#include "iscsi_target/server/registry.hpp"

#include <algorithm>
#include <utility>

namespace lockstep::iscsi_target {
namespace {

using iscsi::LoginStatus;

std::string normal(std::string_view name) { return iscsi::normal_iscsi_name(name).value_or(std::string(name)); }

iscsi::LoginDecision refusal(LoginStatus status, std::string reason) {
  iscsi::LoginDecision decision;
  decision.status = status;
  decision.reason = std::move(reason);
  return decision;
}

/// The mutual secret is ours to prove: another one takes nothing from what the initiator has proven.
bool is_proven(const std::optional<iscsi::ChapCredentials>& proof, const std::vector<iscsi::ChapCredentials>& asked) {
  return asked.empty() || (proof && std::ranges::any_of(asked, [&](const iscsi::ChapCredentials& one) {
                             return one.user == proof->user && one.secret == proof->secret;
                           }));
}

}  // namespace

void TargetRegistry::put(Target target) {
  target.name = normal(target.name);
  auto entry = std::make_shared<const Target>(std::move(target));
  const std::lock_guard lock(mutex_);
  targets_.insert_or_assign(entry->name, entry);
}

void TargetRegistry::remove(std::string_view name) {
  const std::lock_guard lock(mutex_);
  if (const auto at = targets_.find(normal(name)); at != targets_.end()) targets_.erase(at);
}

void TargetRegistry::set_discovery_credentials(std::vector<iscsi::ChapCredentials> credentials) {
  const std::lock_guard lock(mutex_);
  discovery_ = std::move(credentials);
}

std::shared_ptr<const Target> TargetRegistry::find(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  const auto at = targets_.find(name);
  return at == targets_.end() ? nullptr : at->second;
}

std::vector<std::shared_ptr<const Target>> TargetRegistry::discoverable() const {
  std::vector<std::shared_ptr<const Target>> all;
  const std::lock_guard lock(mutex_);
  for (const auto& [name, target] : targets_) {
    if (target->discoverable) all.push_back(target);
  }
  return all;
}

bool TargetRegistry::still_admits(const iscsi::LoginIdentity& who,
                                  const std::optional<iscsi::ChapCredentials>& proof) const {
  if (who.discovery) {
    const std::lock_guard lock(mutex_);
    return is_proven(proof, discovery_);
  }
  const auto target = find(who.target_name);
  if (!target) return false;
  if (!target->access) return true;
  const AccessAnswer answer = target->access->may_log_in(who.initiator_name, target->name);
  const bool known =
      answer.verdict != AccessAnswer::Verdict::unknown && answer.verdict != AccessAnswer::Verdict::forbidden;
  return known && is_proven(proof, answer.chap);
}

iscsi::LoginDecision TargetRegistry::decide(const iscsi::LoginIdentity& who) {
  if (who.discovery) {
    iscsi::LoginDecision decision;
    const std::lock_guard lock(mutex_);
    decision.chap = discovery_;
    return decision;
  }
  const auto target = find(who.target_name);
  if (!target) return refusal(LoginStatus::not_found, "There is no target " + who.target_name + ".");
  iscsi::LoginDecision decision;
  decision.portal_group = target->portal_group;
  decision.target_alias = target->alias;
  decision.asker = target->asker;
  if (!target->access) return decision;
  AccessAnswer answer = target->access->may_log_in(who.initiator_name, target->name);
  switch (answer.verdict) {
    case AccessAnswer::Verdict::allowed:
      break;
    case AccessAnswer::Verdict::unknown:
    case AccessAnswer::Verdict::forbidden:
      decision.in_vain = true;
      decision.reason = who.initiator_name + " is not on the access list of any volume.";
      answer.chap = {{"nobody", "nobody's secret", {}, {}}};
      break;
    case AccessAnswer::Verdict::unavailable:
      return refusal(LoginStatus::service_unavailable, "This node may not serve " + target->name + " now.");
    case AccessAnswer::Verdict::moved:
      decision.status = LoginStatus::moved_temporarily;
      decision.redirect = std::move(answer.redirect);
      decision.reason = target->name + " is served elsewhere for now.";
      break;
  }
  decision.chap = std::move(answer.chap);
  return decision;
}

AccessAnswer AccessList::may_log_in(std::string_view initiator, std::string_view) const {
  AccessAnswer answer;
  answer.verdict = AccessAnswer::Verdict::allowed;
  if (entries_.empty()) return answer;
  bool open = false;
  bool listed = false;
  for (const Entry& entry : entries_) {
    if (normal(entry.initiator) != initiator) continue;
    listed = true;
    if (entry.chap) {
      answer.chap.push_back(*entry.chap);
    } else {
      open = true;
    }
  }
  if (!listed) answer.verdict = AccessAnswer::Verdict::forbidden;
  if (open) answer.chap.clear();
  return answer;
}

}  // namespace lockstep::iscsi_target
