#include "engine/iscsi/login_target.hpp"

#include <algorithm>
#include <utility>

namespace lockstep::iscsi {
namespace {

constexpr std::size_t kLoginSegment = 8192;  // bytes: MaxRecvDataSegmentLength before anybody declared one

bool list_has(std::string_view list, std::string_view wanted) {
  while (!list.empty()) {
    const std::size_t comma = list.find(',');
    if (list.substr(0, comma) == wanted) return true;
    list = comma == std::string_view::npos ? std::string_view{} : list.substr(comma + 1);
  }
  return false;
}

bool is_reserved_word(std::string_view value) {
  return value == "NotUnderstood" || value == "Irrelevant" || value == "Reject";
}

Stage current_stage(std::uint8_t flags) { return static_cast<Stage>(flags >> 2 & 3); }

std::string printable(std::string_view text) {
  std::string out(text.substr(0, 64));
  for (char& c : out) {
    if (c < 0x20 || c == 0x7F) c = '?';
  }
  return out;
}

}  // namespace

TargetLogin::Step TargetLogin::on_request(const LoginRequestHeader& header, std::span<const std::byte> text) {
  if (auto bad = check_header(header)) return *std::move(bad);
  if (++requests_ > kMaxLoginRequests) {
    return fail(LoginStatus::initiator_error, "The login did not come to an end within the requests allowed.");
  }
  if (!incoming_.append(text)) return fail(LoginStatus::initiator_error, "The login text is longer than 64 KiB.");
  if (header.flags & kContinue) return answer_step(0);
  if (!outgoing_.finished()) {
    if (incoming_.empty()) return respond();
    return fail(LoginStatus::initiator_error, "The initiator goes on before it has heard our answer to the end.");
  }
  const std::string whole = incoming_.take();
  const auto pairs = parse_text(whole);
  if (!pairs) {
    return fail(LoginStatus::initiator_error,
                std::string("The login is not understood: ") + to_string(pairs.error()) + ".");
  }
  if (auto bad = named_ ? repeated_names(*pairs) : names(*pairs)) return *std::move(bad);
  if (stage_ == Stage::operational && !authenticated()) {
    return fail(LoginStatus::authentication_failure, "The initiator did not authenticate, as this target wants.");
  }
  if (auto bad = take_keys(*pairs)) return *std::move(bad);
  if (stage_ == Stage::security) {
    if (auto bad = security(*pairs)) return *std::move(bad);
  }
  return respond();
}

std::optional<TargetLogin::Step> TargetLogin::check_header(const LoginRequestHeader& header) {
  const LoginRequestHeader before = std::exchange(request_, header);
  const Stage stage = current_stage(header.flags);
  if (first_) {
    stat_sn_ = Serial(header.exp_stat_sn);
    cmd_sn_ = Serial(header.cmd_sn);
    who_.isid = header.isid;
    who_.tsih = header.tsih;
    who_.cid = header.cid;
    stage_ = stage;
  }
  if (header.version_min > 0) {
    return fail(LoginStatus::unsupported_version, "The initiator speaks no version of iSCSI that we speak (0).");
  }
  const bool transit = header.flags & kTransit;
  const bool stages_exist = (stage == Stage::security || stage == Stage::operational) &&
                            (!transit || (next_stage(header.flags) > stage && next_stage(header.flags) != Stage{2}));
  if (!stages_exist || (transit && (header.flags & kContinue))) {
    return fail(LoginStatus::initiator_error, "The login request's stages make no sense.");
  }
  if (!std::exchange(first_, false)) {
    const bool same = before.isid == header.isid && before.tsih == header.tsih && before.cid == header.cid;
    if (!same || stage != stage_) {
      return fail(LoginStatus::invalid_request, "The login request does not continue the one before it.");
    }
  } else if (header.tsih != 0) {
    return fail(LoginStatus::session_does_not_exist,
                "The initiator asks for another connection of a session; each has one.");
  }
  return std::nullopt;
}

std::optional<TargetLogin::Step> TargetLogin::names(const Pairs& pairs) {
  const auto* initiator = find_value(pairs, "InitiatorName");
  const auto* target = find_value(pairs, "TargetName");
  const auto* type = find_value(pairs, "SessionType");
  if (initiator == nullptr) return fail(LoginStatus::missing_parameter, "The login gives no InitiatorName.");
  if (type != nullptr && *type != "Normal" && *type != "Discovery") {
    return fail(LoginStatus::session_type_not_supported, "There is no session type \"" + printable(*type) + "\".");
  }
  who_.discovery = type != nullptr && *type == "Discovery";
  if (!who_.discovery && target == nullptr) {
    return fail(LoginStatus::missing_parameter, "The login gives no TargetName.");
  }
  const auto initiator_name = normal_iscsi_name(*initiator);
  if (!initiator_name) {
    return fail(LoginStatus::initiator_error, "\"" + printable(*initiator) + "\" is no iSCSI name.");
  }
  who_.initiator_name = *initiator_name;
  if (!who_.discovery) {
    const auto target_name = normal_iscsi_name(*target);
    if (!target_name) return fail(LoginStatus::not_found, "\"" + printable(*target) + "\" is no iSCSI name.");
    who_.target_name = *target_name;
  }
  named_ = true;
  decision_ = authority_.decide(who_);
  if (decision_.status == LoginStatus::success) return std::nullopt;
  if (!decision_.redirect.empty()) answer("TargetAddress", decision_.redirect);
  return fail(decision_.status, decision_.reason);
}

std::optional<TargetLogin::Step> TargetLogin::repeated_names(const Pairs& pairs) {
  const auto differs = [&](std::string_view key, std::string_view before) {
    const auto* value = find_value(pairs, key);
    return value != nullptr && normal_iscsi_name(*value) != std::string(before);
  };
  if (differs("InitiatorName", who_.initiator_name) || (!who_.discovery && differs("TargetName", who_.target_name))) {
    return fail(LoginStatus::initiator_error, "The login changes its names midway.");
  }
  const auto* type = find_value(pairs, "SessionType");
  if (type != nullptr && *type != (who_.discovery ? "Discovery" : "Normal")) {
    return fail(LoginStatus::initiator_error, "The login changes its session type midway.");
  }
  return std::nullopt;
}

std::optional<TargetLogin::Step> TargetLogin::take_keys(const Pairs& pairs) {
  const std::uint8_t here = stage_ == Stage::security ? kInSecurity : kInOperational;
  for (const TextPair& pair : pairs) {
    const KeyRule* rule = find_rule(pair.key);
    if (rule == nullptr || ((rule->use & kRdmaOnly) && !offers_.rdma)) {
      if (!is_reserved_word(pair.value)) answer(pair.key, "NotUnderstood");
      continue;
    }
    if (rule->use & kFromTarget) {
      return fail(LoginStatus::initiator_error,
                  "The initiator declares " + std::string(rule->name) + ", a target's key.");
    }
    if (!(rule->use & here)) {
      if (!is_reserved_word(pair.value)) answer(pair.key, "Reject");
      continue;
    }
    if (rule->use == kInSecurity) continue;  // security() sees to these
    if (auto bad = operational_key(*rule, pair.value)) return bad;
  }
  return std::nullopt;
}

std::optional<TargetLogin::Step> TargetLogin::operational_key(const KeyRule& rule, std::string_view value) {
  if (rule.key == Key::initiator_alias) who_.initiator_alias = value;
  const bool declared = rule.kind == KeyKind::number || rule.kind == KeyKind::text;
  if (!declared) {
    const auto seen =
        std::find_if(settled_.begin(), settled_.end(), [&](const auto& s) { return s.first == rule.key; });
    if (seen == settled_.end()) {
      settled_.emplace_back(rule.key, value);
    } else if (seen->second != value) {
      return fail(LoginStatus::initiator_error, "The initiator negotiates " + std::string(rule.name) + " twice.");
    }
  }
  const auto reply = accept_offer(rule, value, offers_, who_.discovery, agreed_);
  if (!reply) return std::nullopt;
  const bool digest = rule.key == Key::header_digest || rule.key == Key::data_digest;
  if (*reply == "Reject" && (declared || digest)) {
    return fail(LoginStatus::initiator_error, std::string(rule.name) + "=" + printable(value) + " is not acceptable.");
  }
  answer(rule.name, *reply);
  return std::nullopt;
}

TargetLogin::Step TargetLogin::respond() {
  if (outgoing_.finished()) {
    if (!who_.discovery && !std::exchange(group_told_, true)) {
      answer(rule_of(Key::target_portal_group_tag).name, std::to_string(decision_.portal_group));
    }
    if (stage_ == Stage::operational && !std::exchange(limits_told_, true)) {
      if (!decision_.target_alias.empty()) answer(rule_of(Key::target_alias).name, decision_.target_alias);
      if (!offers_.rdma) answer(rule_of(Key::max_recv_data_segment_length).name, std::to_string(offers_.max_recv));
      agreed_.max_recv = offers_.max_recv;
    }
    outgoing_.start(std::exchange(answers_, {}));
  }
  TextSender::Piece piece = outgoing_.next(std::min<std::size_t>(kLoginSegment, agreed_.max_send));
  const bool transit = (request_.flags & kTransit) && !piece.more && authenticated();
  if ((request_.flags & kTransit) && !authenticated() && chap_ == Chap::none) {
    return fail(LoginStatus::authentication_failure, "The initiator offers no authentication; this target wants CHAP.");
  }
  piece_ = std::move(piece.text);
  if (!transit) return answer_step(piece.more ? kContinue : 0);
  if (next_stage(request_.flags) != Stage::full_feature) {
    const Step step = answer_step(kTransit);
    stage_ = next_stage(request_.flags);
    return step;
  }
  if (auto bad = check_agreement()) return *std::move(bad);
  return Step{.next = Step::Next::admit, .header = {}, .text = {}, .reason = {}};
}

std::optional<TargetLogin::Step> TargetLogin::check_agreement() {
  if (offers_.rdma && !who_.discovery && !agreed_.rdma) {
    return fail(LoginStatus::initiator_error, "The initiator came over RDMA without RDMAExtensions=Yes.");
  }
  if (offers_.rdma) {
    agreed_.most_to_send = who_.discovery ? kRdmaSegment : std::min(agreed_.initiator_segment, kRdmaAnswerSegment);
    agreed_.max_send = who_.discovery ? std::min(agreed_.max_send, kRdmaSegment) : agreed_.most_to_send;
  }
  if (agreed_.first_burst <= agreed_.max_burst) return std::nullopt;
  const bool offered =
      std::any_of(settled_.begin(), settled_.end(), [](const auto& s) { return s.first == Key::first_burst_length; });
  if (offered) return fail(LoginStatus::initiator_error, "FirstBurstLength exceeds MaxBurstLength.");
  agreed_.first_burst = agreed_.max_burst;  // nobody spoke of it: the default gives way
  return std::nullopt;
}

TargetLogin::Step TargetLogin::admit(std::uint16_t tsih, std::uint32_t window) {
  who_.tsih = tsih;
  Step step = answer_step(kTransit);
  step.next = Step::Next::done;
  step.header.tsih = tsih;
  step.header.max_cmd_sn = (cmd_sn_ + (window - 1)).value();
  return step;
}

TargetLogin::Step TargetLogin::refuse(LoginStatus status, std::string reason) {
  piece_.clear();
  return fail(status, std::move(reason));
}

TargetLogin::Step TargetLogin::answer_step(std::uint8_t flags) {
  Step step;
  step.header = response_header(flags);
  step.text = std::exchange(piece_, {});
  return step;
}

TargetLogin::Step TargetLogin::fail(LoginStatus status, std::string reason) {
  Step step;
  step.next = Step::Next::failed;
  step.header = response_header(0);
  step.header.status = static_cast<std::uint16_t>(status);
  // Only a redirection says anything more than its status.
  if (!decision_.redirect.empty() && status == decision_.status) step.text = std::exchange(answers_, {});
  step.reason = decision_.in_vain ? decision_.reason + " " + reason : std::move(reason);
  return step;
}

LoginResponseHeader TargetLogin::response_header(std::uint8_t flags) {
  auto header = make_header<LoginResponseHeader>(Opcode::login_response, flags);
  header.flags |= static_cast<std::uint8_t>(static_cast<std::uint8_t>(stage_) << 2);
  if (flags & kTransit) header.flags |= request_.flags & 3;
  header.isid = request_.isid;
  header.tsih = request_.tsih;
  header.task_tag = request_.task_tag;
  header.stat_sn = stat_sn_.value();
  ++stat_sn_;
  header.exp_cmd_sn = cmd_sn_.value();
  header.max_cmd_sn = cmd_sn_.value();
  return header;
}

void TargetLogin::answer(std::string_view key, std::string_view value) { add_pair(answers_, key, value); }

// ---- Security negotiation ----

std::optional<TargetLogin::Step> TargetLogin::security(const Pairs& pairs) {
  if (const auto* methods = find_value(pairs, "AuthMethod")) {
    if (auto bad = choose_method(*methods)) return bad;
  }
  if (const auto* algorithms = find_value(pairs, "CHAP_A")) {
    if (auto bad = challenge(*algorithms)) return bad;
  }
  if (find_value(pairs, "CHAP_R") != nullptr || find_value(pairs, "CHAP_N") != nullptr) return verify(pairs);
  return std::nullopt;
}

std::optional<TargetLogin::Step> TargetLogin::choose_method(std::string_view offered) {
  if (chap_ != Chap::none) return fail(LoginStatus::initiator_error, "The initiator negotiates AuthMethod twice.");
  if (!decision_.chap.empty()) {
    if (!list_has(offered, "CHAP")) {
      return fail(LoginStatus::authentication_failure, "The initiator does not offer CHAP, which this target wants.");
    }
    answer("AuthMethod", "CHAP");
    chap_ = Chap::method_chosen;
    return std::nullopt;
  }
  if (!list_has(offered, "None")) {
    return fail(LoginStatus::authentication_failure,
                "The initiator insists on authentication, but no credentials are configured for it.");
  }
  answer("AuthMethod", "None");
  return std::nullopt;
}

std::optional<TargetLogin::Step> TargetLogin::challenge(std::string_view algorithms) {
  if (chap_ != Chap::method_chosen) return fail(LoginStatus::initiator_error, "CHAP_A came out of turn.");
  const auto algorithm = choose_chap_algorithm(algorithms);
  if (!algorithm) {
    return fail(LoginStatus::authentication_failure, "The initiator offers no CHAP algorithm that we have.");
  }
  verifier_.emplace(*algorithm, random_, decision_.asker);
  answer("CHAP_A", std::to_string(static_cast<unsigned>(*algorithm)));
  answer("CHAP_I", verifier_->identifier_text());
  answer("CHAP_C", verifier_->challenge_text());
  chap_ = Chap::challenged;
  return std::nullopt;
}

std::optional<TargetLogin::Step> TargetLogin::verify(const Pairs& pairs) {
  const auto* name = find_value(pairs, "CHAP_N");
  const auto* response = find_value(pairs, "CHAP_R");
  if (chap_ != Chap::challenged) return fail(LoginStatus::initiator_error, "CHAP_R came out of turn.");
  if (name == nullptr || response == nullptr || name->size() > kMaxChapName) {
    return fail(LoginStatus::initiator_error, "The CHAP response lacks its name or its value.");
  }
  chap_ = Chap::method_chosen;  // a challenge is good for one answer
  for (const ChapCredentials& credentials : decision_.chap) {
    // Also of a wrong name: the time that it takes does not tell which names there are.
    const bool right = verifier_->verify(credentials.secret, *response);
    if (!right || credentials.user != *name || decision_.in_vain) continue;
    if (auto bad = prove_ourselves(pairs, credentials)) return bad;
    chap_ = Chap::passed;
    proof_ = credentials;
    return std::nullopt;
  }
  return fail(LoginStatus::authentication_failure, "Wrong CHAP name or secret (name \"" + printable(*name) + "\").");
}

std::optional<TargetLogin::Step> TargetLogin::prove_ourselves(const Pairs& pairs, const ChapCredentials& credentials) {
  const auto* identifier_text = find_value(pairs, "CHAP_I");
  const auto* challenge_text = find_value(pairs, "CHAP_C");
  if (identifier_text == nullptr && challenge_text == nullptr) return std::nullopt;
  if (identifier_text == nullptr || challenge_text == nullptr) {
    return fail(LoginStatus::initiator_error, "The initiator's challenge lacks CHAP_I or CHAP_C.");
  }
  const auto identifier = parse_number(*identifier_text);
  const auto bytes = decode_binary(*challenge_text);
  if (!identifier || *identifier > 255 || !bytes) {
    return fail(LoginStatus::initiator_error, "The initiator's CHAP challenge is malformed.");
  }
  if (credentials.mutual_user.empty()) {
    return fail(LoginStatus::authentication_failure,
                "The initiator wants us to authenticate, but no mutual credentials are configured for it.");
  }
  if (credentials.mutual_secret ==
      credentials.secret) {  // RFC 7143 9.2.1: else one side can be made to answer for both
    return fail(LoginStatus::authentication_failure,
                "The CHAP secrets of both directions are the same; configure two different ones.");
  }
  if (verifier_->is_own_challenge(*bytes) || is_asked_by(*bytes, decision_.asker)) {
    return fail(LoginStatus::authentication_failure, "The initiator sent our own CHAP challenge back.");
  }
  const auto response =
      chap_response(verifier_->algorithm(), static_cast<std::uint8_t>(*identifier), credentials.mutual_secret, *bytes);
  if (response.empty()) return fail(LoginStatus::target_error, "The CHAP algorithm is not available here.");
  answer("CHAP_N", credentials.mutual_user);
  answer("CHAP_R", encode_hex(response));
  return std::nullopt;
}

}  // namespace lockstep::iscsi
