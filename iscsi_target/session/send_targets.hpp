#pragma once
// The answers to text requests in full feature phase: SendTargets (RFC 7143 appendix C), and MaxRecvDataSegmentLength,
// the one key that may be declared anew.
#include <string>
#include <vector>

#include "engine/iscsi/keys.hpp"
#include "engine/iscsi/login_target.hpp"
#include "engine/iscsi/text.hpp"
#include "iscsi_target/session/target.hpp"

namespace lockstep::iscsi_target {

struct TextContext {
  const TargetDirectory& directory;
  const iscsi::LoginIdentity& who;
  const Target* target;              ///< null in a discovery session
  const std::string& local_address;  ///< stands in for a target without portals
};

[[nodiscard]] std::string answer_text(const std::vector<iscsi::TextPair>& pairs, const TextContext& context,
                                      iscsi::Parameters& parameters);

}  // namespace lockstep::iscsi_target
