#include "engine/iscsi/login_initiator.hpp"

#include <utility>

namespace lockstep::iscsi {
namespace {

using engine::Errc;

constexpr unsigned kMaxLoginTurns = 64;

const char* describe(LoginStatus status) {
  switch (status) {
    case LoginStatus::authentication_failure:
      return "authentication failed; check the CHAP names and secrets";
    case LoginStatus::authorization_failure:
      return "this initiator is not let in; check the access list";
    case LoginStatus::not_found:
      return "it knows no such target; check the target's name";
    case LoginStatus::target_removed:
      return "the target was removed";
    case LoginStatus::unsupported_version:
      return "it speaks another version of iSCSI";
    case LoginStatus::too_many_connections:
      return "this initiator has too many sessions already";
    case LoginStatus::missing_parameter:
      return "it misses a parameter";
    case LoginStatus::service_unavailable:
      return "it may not serve now; try again later";
    case LoginStatus::out_of_resources:
      return "it has no resources left; try again later";
    case LoginStatus::moved_temporarily:
    case LoginStatus::moved_permanently:
      return "the target has moved";
    default:
      return "it refused the login";
  }
}

std::string status_text(std::uint16_t status) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string out = "0x";
  for (int shift = 12; shift >= 0; shift -= 4) out.push_back(digits[status >> shift & 15]);
  return out;
}

}  // namespace

InitiatorLogin::Step InitiatorLogin::start() {
  const bool discovery = settings_.target_name.empty();
  agreed_.max_recv = settings_.offers.max_recv;
  add_pair(outgoing_, "InitiatorName", settings_.initiator_name);
  add_pair(outgoing_, "SessionType", discovery ? "Discovery" : "Normal");
  if (!discovery) add_pair(outgoing_, "TargetName", settings_.target_name);
  if (settings_.chap) {
    add_pair(outgoing_, "AuthMethod", "CHAP");
    chap_ = Chap::method_offered;
    return request(0);
  }
  add_pair(outgoing_, "AuthMethod", "None");
  return request(kTransit | static_cast<std::uint8_t>(Stage::operational));
}

InitiatorLogin::Step InitiatorLogin::on_response(const LoginResponseHeader& header, std::span<const std::byte> text) {
  if (auto bad = check(header)) {
    if (header.status >> 8 == 1 && incoming_.append(text)) {
      const std::string whole = incoming_.take();
      const auto pairs = parse_text(whole);
      if (const auto* to = pairs ? find_value(*pairs, "TargetAddress") : nullptr) redirect_ = *to;
    }
    return *std::move(bad);
  }
  if (++turns_ > kMaxLoginTurns) return fail(Errc::refused, "The login does not come to an end.");
  if (!incoming_.append(text)) return fail(Errc::corrupt, "The target's login text is longer than 64 KiB.");
  if (header.flags & kContinue) return request(0);
  const std::string whole = incoming_.take();
  const auto pairs = parse_text(whole);
  if (!pairs) {
    return fail(Errc::corrupt,
                std::string("The target's login answer is not understood: ") + to_string(pairs.error()) + ".");
  }
  if (auto bad = take_keys(*pairs)) return *std::move(bad);
  if (stage_ == Stage::security) {
    if (auto bad = security(*pairs)) return *std::move(bad);
  }
  return advance(header);
}

std::optional<InitiatorLogin::Step> InitiatorLogin::check(const LoginResponseHeader& header) {
  if (opcode_of(header.opcode) != Opcode::login_response) {
    return fail(Errc::corrupt, "The target answers a login with something else; is this an iSCSI target?");
  }
  if (header.status != 0) {
    return fail(Errc::refused, std::string("The target refuses the login: ") +
                                   describe(static_cast<LoginStatus>(header.status.value())) + " (status " +
                                   status_text(header.status) + ").");
  }
  if (header.version_active != 0) return fail(Errc::wrong_version, "The target speaks another version of iSCSI.");
  if (header.isid != settings_.isid || header.task_tag != 0u) {
    return fail(Errc::corrupt, "The target answers somebody else's login.");
  }
  if ((header.flags & kTransit) && (header.flags & kContinue)) {
    return fail(Errc::corrupt, "The target's login answer has both T and C set.");
  }
  exp_stat_sn_ = Serial(header.stat_sn) + 1;
  max_cmd_sn_ = Serial(header.max_cmd_sn);
  return std::nullopt;
}

std::optional<InitiatorLogin::Step> InitiatorLogin::take_keys(const Pairs& pairs) {
  for (const TextPair& pair : pairs) {
    const KeyRule* rule = find_rule(pair.key);
    if (rule == nullptr) {
      if (pair.value != "NotUnderstood") add_pair(outgoing_, pair.key, "NotUnderstood");
      continue;
    }
    if (rule->key == Key::target_portal_group_tag) {
      portal_group_ = static_cast<std::uint16_t>(parse_number(pair.value).value_or(0));
      continue;
    }
    if (rule->use == kInSecurity || rule->kind == KeyKind::text) continue;
    if (pair.value == "Irrelevant" && settings_.target_name.empty()) continue;
    if (!accept_answer(*rule, pair.value, settings_.offers, agreed_)) {
      return fail(Errc::refused,
                  "The target answers " + std::string(rule->name) + " with a value that we did not offer.");
    }
  }
  return std::nullopt;
}

std::optional<InitiatorLogin::Step> InitiatorLogin::security(const Pairs& pairs) {
  const auto* method = find_value(pairs, "AuthMethod");
  switch (chap_) {
    case Chap::none:
      if (method != nullptr && *method != "None")
        return fail(Errc::refused, "The target wants to be logged in to with CHAP.");
      return std::nullopt;
    case Chap::method_offered:
      if (method == nullptr) return std::nullopt;
      if (*method != "CHAP") return fail(Errc::refused, "The target does not do CHAP; we do not log in without.");
      add_pair(outgoing_, "CHAP_A", kChapOffer);
      chap_ = Chap::algorithm_offered;
      return std::nullopt;
    case Chap::algorithm_offered:
      return respond_to_challenge(pairs);
    case Chap::responded:
      return verify_target(pairs);
    case Chap::finished:
      return std::nullopt;
  }
  return std::nullopt;
}

std::optional<InitiatorLogin::Step> InitiatorLogin::respond_to_challenge(const Pairs& pairs) {
  const auto* algorithm = find_value(pairs, "CHAP_A");
  const auto* identifier_text = find_value(pairs, "CHAP_I");
  const auto* challenge_text = find_value(pairs, "CHAP_C");
  if (algorithm == nullptr || identifier_text == nullptr || challenge_text == nullptr) {
    return fail(Errc::refused, "The target's CHAP challenge lacks a key.");
  }
  const auto chosen = parse_chap_algorithm(*algorithm);
  const auto identifier = parse_number(*identifier_text);
  const auto challenge = decode_binary(*challenge_text);
  if (!chosen || !identifier || *identifier > 255 || !challenge) {
    return fail(Errc::corrupt, "The target's CHAP challenge is malformed.");
  }
  if (is_asked_by(*challenge, settings_.asker)) {
    return fail(Errc::refused, "The target sent us a challenge of our own; somebody stands in for it.");
  }
  algorithm_ = *chosen;
  const auto response =
      chap_response(algorithm_, static_cast<std::uint8_t>(*identifier), settings_.chap->secret, *challenge);
  if (response.empty()) return fail(Errc::refused, "The CHAP algorithm that the target chose is not available here.");
  add_pair(outgoing_, "CHAP_N", settings_.chap->user);
  add_pair(outgoing_, "CHAP_R", encode_hex(response));
  if (settings_.chap->mutual_user.empty()) {
    chap_ = Chap::finished;
    return std::nullopt;
  }
  verifier_.emplace(algorithm_, random_, settings_.asker);
  add_pair(outgoing_, "CHAP_I", verifier_->identifier_text());
  add_pair(outgoing_, "CHAP_C", verifier_->challenge_text());
  chap_ = Chap::responded;
  return std::nullopt;
}

std::optional<InitiatorLogin::Step> InitiatorLogin::verify_target(const Pairs& pairs) {
  const auto* name = find_value(pairs, "CHAP_N");
  const auto* response = find_value(pairs, "CHAP_R");
  if (name == nullptr || response == nullptr || *name != settings_.chap->mutual_user ||
      !verifier_->verify(settings_.chap->mutual_secret, *response)) {
    return fail(Errc::refused, "The target did not prove itself; check the mutual CHAP name and secret on both sides.");
  }
  chap_ = Chap::finished;
  return std::nullopt;
}

InitiatorLogin::Step InitiatorLogin::advance(const LoginResponseHeader& header) {
  const bool security_over = chap_ == Chap::none || chap_ == Chap::finished;
  if (header.flags & kTransit) {
    if (!security_over) return fail(Errc::refused, "The target ends the authentication without having proven itself.");
    if (next_stage(header.flags) == Stage::full_feature && stage_ == Stage::operational && offered_) {
      tsih_ = header.tsih;
      if (agreed_.first_burst > agreed_.max_burst) agreed_.first_burst = agreed_.max_burst;
      return Step{.next = Step::Next::done, .header = {}, .text = {}, .error = {}};
    }
    if (next_stage(header.flags) != Stage::operational || stage_ != Stage::security) {
      return fail(Errc::corrupt, "The target goes on to a login stage that we did not ask for.");
    }
    stage_ = Stage::operational;
  }
  if (stage_ == Stage::operational) {
    if (!std::exchange(offered_, true)) outgoing_ += make_offers(settings_.offers, settings_.target_name.empty());
    return request(kTransit | static_cast<std::uint8_t>(Stage::full_feature));
  }
  // The last word of the authentication is ours once we have answered the challenge.
  const bool ask = chap_ == Chap::none || chap_ == Chap::responded || chap_ == Chap::finished;
  return request(ask ? kTransit | static_cast<std::uint8_t>(Stage::operational) : 0);
}

InitiatorLogin::Step InitiatorLogin::request(std::uint8_t flags) {
  Step step;
  auto header = make_header<LoginRequestHeader>(Opcode::login_request, flags);
  header.opcode |= kImmediate;
  header.flags |= static_cast<std::uint8_t>(static_cast<std::uint8_t>(stage_) << 2);
  header.isid = settings_.isid;
  header.cid = settings_.cid;
  header.cmd_sn = settings_.cmd_sn.value();
  header.exp_stat_sn = exp_stat_sn_.value();
  step.header = header;
  step.text = std::exchange(outgoing_, {});
  return step;
}

InitiatorLogin::Step InitiatorLogin::fail(Errc code, std::string message) {
  Step step;
  step.next = Step::Next::failed;
  step.error = {make_error_code(code), std::move(message)};
  return step;
}

}  // namespace lockstep::iscsi
