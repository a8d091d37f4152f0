#include "iscsi_target/session/send_targets.hpp"

#include <algorithm>

namespace lockstep::iscsi_target {
namespace {

void describe(std::string& text, const Target& target, const std::string& local_address) {
  iscsi::add_pair(text, "TargetName", target.name);
  if (target.portals.empty()) {
    iscsi::add_pair(text, "TargetAddress", local_address + "," + std::to_string(target.portal_group));
  }
  for (const Portal& portal : target.portals) {
    iscsi::add_pair(text, "TargetAddress", portal.address + "," + std::to_string(portal.group));
  }
}

/// RFC 7143 appendix C: "All" must not be supported in a normal session, an empty value means its own target.
void send_targets(std::string& text, std::string_view which, const TextContext& context) {
  if (which == "All" && context.target != nullptr) return iscsi::add_pair(text, "SendTargets", "Reject");
  if (which.empty()) {
    if (context.target != nullptr) describe(text, *context.target, context.local_address);
    return;
  }
  const auto name = iscsi::normal_iscsi_name(which);
  for (const auto& target : context.directory.discoverable()) {
    if (which == "All" || name == target->name) describe(text, *target, context.local_address);
  }
}

}  // namespace

std::string answer_text(const std::vector<iscsi::TextPair>& pairs, const TextContext& context,
                        iscsi::Parameters& parameters) {
  std::string text;
  for (const auto& [key, value] : pairs) {
    const iscsi::KeyRule* rule = iscsi::find_rule(key);
    if (rule == nullptr || ((rule->use & iscsi::kRdmaOnly) && !parameters.rdma)) {
      iscsi::add_pair(text, key, "NotUnderstood");
    } else if (rule->key == iscsi::Key::send_targets) {
      send_targets(text, value, context);
    } else if (rule->key == iscsi::Key::max_recv_data_segment_length) {
      if (iscsi::accept_offer(*rule, value, {}, false, parameters)) iscsi::add_pair(text, key, "Reject");
    } else {
      iscsi::add_pair(text, key, "Reject");
    }
  }
  return text;
}

}  // namespace lockstep::iscsi_target
