#include "engine/iscsi/keys.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <charconv>

#include "engine/iscsi/text.hpp"

namespace lockstep::iscsi {
namespace {

constexpr std::uint32_t kMaxSegment = (1u << 24) - 1;
constexpr std::uint8_t kLogin = kInSecurity | kInOperational;
constexpr std::uint8_t kAny = kLogin | kInFullFeature;
constexpr std::uint8_t kOfRdma = kInOperational | kRdmaOnly;

constexpr std::array<KeyRule, static_cast<std::size_t>(Key::count)> kRules{{
    {Key::header_digest, "HeaderDigest", KeyKind::choice, kInOperational, 0, 255},
    {Key::data_digest, "DataDigest", KeyKind::choice, kInOperational, 0, 255},
    {Key::max_connections, "MaxConnections", KeyKind::smaller, kInOperational | kNormalOnly, 1, 65535},
    {Key::send_targets, "SendTargets", KeyKind::text, kInFullFeature, 0, kMaxIscsiName},
    {Key::target_name, "TargetName", KeyKind::text, kAny, 0, kMaxIscsiName},
    {Key::initiator_name, "InitiatorName", KeyKind::text, kLogin, 0, kMaxIscsiName},
    {Key::target_alias, "TargetAlias", KeyKind::text, kAny | kFromTarget, 0, 255},
    {Key::initiator_alias, "InitiatorAlias", KeyKind::text, kAny, 0, 255},
    {Key::target_address, "TargetAddress", KeyKind::text, kAny | kFromTarget, 0, 255},
    {Key::target_portal_group_tag, "TargetPortalGroupTag", KeyKind::number, kLogin | kFromTarget, 0, 65535},
    {Key::initial_r2t, "InitialR2T", KeyKind::either_yes, kInOperational | kNormalOnly},
    {Key::immediate_data, "ImmediateData", KeyKind::both_yes, kInOperational | kNormalOnly},
    {Key::max_recv_data_segment_length, "MaxRecvDataSegmentLength", KeyKind::number, kAny, 512, kMaxSegment},
    {Key::max_burst_length, "MaxBurstLength", KeyKind::smaller, kInOperational | kNormalOnly, 512, kMaxSegment},
    {Key::first_burst_length, "FirstBurstLength", KeyKind::smaller, kInOperational | kNormalOnly, 512, kMaxSegment},
    {Key::default_time2wait, "DefaultTime2Wait", KeyKind::larger, kInOperational, 0, 3600},
    {Key::default_time2retain, "DefaultTime2Retain", KeyKind::smaller, kInOperational, 0, 3600},
    {Key::max_outstanding_r2t, "MaxOutstandingR2T", KeyKind::smaller, kInOperational | kNormalOnly, 1, 65535},
    {Key::data_pdu_in_order, "DataPDUInOrder", KeyKind::either_yes, kInOperational | kNormalOnly},
    {Key::data_sequence_in_order, "DataSequenceInOrder", KeyKind::either_yes, kInOperational | kNormalOnly},
    {Key::error_recovery_level, "ErrorRecoveryLevel", KeyKind::smaller, kInOperational, 0, 2},
    {Key::session_type, "SessionType", KeyKind::text, kLogin, 0, 255},
    {Key::task_reporting, "TaskReporting", KeyKind::choice, kInOperational | kNormalOnly, 0, 255},
    {Key::protocol_level, "iSCSIProtocolLevel", KeyKind::smaller, kInOperational, 0, 31},
    {Key::auth_method, "AuthMethod", KeyKind::choice, kInSecurity, 0, 255},
    {Key::rdma_extensions, "RDMAExtensions", KeyKind::both_yes, kInOperational},
    {Key::marker_in, "IFMarker", KeyKind::obsolete, kInOperational},
    {Key::marker_out, "OFMarker", KeyKind::obsolete, kInOperational},
    {Key::marker_interval_in, "IFMarkInt", KeyKind::obsolete, kInOperational},
    {Key::marker_interval_out, "OFMarkInt", KeyKind::obsolete, kInOperational},
    {Key::chap_a, "CHAP_A", KeyKind::choice, kInSecurity, 0, 255},
    {Key::chap_i, "CHAP_I", KeyKind::number, kInSecurity, 0, 255},
    {Key::chap_c, "CHAP_C", KeyKind::text, kInSecurity, 0, 2050},
    {Key::chap_n, "CHAP_N", KeyKind::text, kInSecurity, 0, 255},
    {Key::chap_r, "CHAP_R", KeyKind::text, kInSecurity, 0, 2050},
    {Key::initiator_segment, "InitiatorRecvDataSegmentLength", KeyKind::smaller, kOfRdma, 512, kMaxSegment},
    {Key::target_segment, "TargetRecvDataSegmentLength", KeyKind::smaller, kOfRdma, 512, kMaxSegment},
    {Key::max_unexpected, "MaxOutstandingUnexpectedPDUs", KeyKind::number, kOfRdma, 0, UINT32_MAX},
    {Key::max_ahs, "MaxAHSLength", KeyKind::number, kOfRdma, 0, UINT32_MAX},
    {Key::tagged_for_solicited, "TaggedBufferForSolicitedDataOnly", KeyKind::text, kOfRdma, 0, 3},
    {Key::hello_required, "iSERHelloRequired", KeyKind::text, kOfRdma, 0, 3},
}};

constexpr bool in_order() {
  for (std::size_t i = 0; i < kRules.size(); ++i) {
    if (static_cast<std::size_t>(kRules[i].key) != i) return false;
  }
  return true;
}
static_assert(in_order(), "the table is indexed by Key");

// Our own value of a key whose result is a number.
std::uint32_t our_number(Key key, const Offers& ours) {
  switch (key) {
    case Key::max_burst_length:
      return ours.max_burst;
    case Key::first_burst_length:
      return ours.first_burst;
    case Key::default_time2wait:
      return ours.time2wait;
    case Key::default_time2retain:
      return ours.time2retain;
    case Key::max_outstanding_r2t:
      return ours.max_outstanding_r2t;
    case Key::max_connections:
      return 1;
    case Key::error_recovery_level:
      return 0;
    case Key::protocol_level:
      return 1;
    case Key::initiator_segment:
      return ours.initiator_segment;
    case Key::target_segment:
      return ours.target_segment;
    default:
      return 0;
  }
}

void set_number(Key key, std::uint32_t value, Parameters& agreed) {
  switch (key) {
    case Key::max_burst_length:
      agreed.max_burst = value;
      break;
    case Key::first_burst_length:
      agreed.first_burst = value;
      break;
    case Key::default_time2wait:
      agreed.time2wait = value;
      break;
    case Key::default_time2retain:
      agreed.time2retain = value;
      break;
    case Key::max_outstanding_r2t:
      agreed.max_outstanding_r2t = value;
      break;
    case Key::protocol_level:
      agreed.protocol_level = value;
      break;
    case Key::max_recv_data_segment_length:
      agreed.max_send = std::min(value, agreed.most_to_send);
      break;
    case Key::initiator_segment:
      agreed.initiator_segment = value;
      break;
    case Key::target_segment:
      agreed.target_segment = value;
      break;
    default:
      break;  // bounded to the only value that we have
  }
}

bool our_bool(Key key, const Offers& ours) {
  switch (key) {
    case Key::initial_r2t:
      return ours.initial_r2t;
    case Key::immediate_data:
      return ours.immediate_data;
    case Key::rdma_extensions:
      return ours.rdma;
    default:
      return true;  // data always comes in order
  }
}

void set_bool(Key key, bool value, Parameters& agreed) {
  if (key == Key::initial_r2t) agreed.initial_r2t = value;
  if (key == Key::immediate_data) agreed.immediate_data = value;
  if (key == Key::rdma_extensions) agreed.rdma = value;
}

Offers::Digest our_digest(Key key, const Offers& ours) {
  return key == Key::header_digest ? ours.header_digest : ours.data_digest;
}

bool have_choice(Key key, std::string_view value, const Offers& ours) {
  if (key == Key::task_reporting) return value == "RFC3720";
  const auto digest = our_digest(key, ours);
  if (value == "CRC32C") return digest != Offers::Digest::none;
  return value == "None" && digest != Offers::Digest::crc32c;
}

void set_choice(Key key, std::string_view value, Parameters& agreed) {
  if (key == Key::header_digest) agreed.header_digest = value == "CRC32C";
  if (key == Key::data_digest) agreed.data_digest = value == "CRC32C";
}

std::string accept_choice(const KeyRule& rule, std::string_view offered, const Offers& ours, Parameters& agreed) {
  while (!offered.empty()) {
    const std::size_t comma = offered.find(',');
    const std::string_view value = offered.substr(0, comma);
    if (have_choice(rule.key, value, ours)) {
      set_choice(rule.key, value, agreed);
      return std::string(value);
    }
    offered = comma == std::string_view::npos ? std::string_view{} : offered.substr(comma + 1);
  }
  return "Reject";
}

std::string accept_number(const KeyRule& rule, std::string_view offered, const Offers& ours, Parameters& agreed) {
  const auto value = parse_number(offered);
  if (!value || *value < rule.low || *value > rule.high) return "Reject";
  const std::uint32_t mine = our_number(rule.key, ours);
  const std::uint32_t result = rule.kind == KeyKind::smaller ? std::min(*value, mine) : std::max(*value, mine);
  set_number(rule.key, result, agreed);
  return std::to_string(result);
}

std::string accept_bool(const KeyRule& rule, std::string_view offered, const Offers& ours, Parameters& agreed) {
  if (offered != "Yes" && offered != "No") return "Reject";
  const bool theirs = offered == "Yes";
  const bool mine = our_bool(rule.key, ours);
  const bool result = rule.kind == KeyKind::both_yes ? theirs && mine : theirs || mine;
  set_bool(rule.key, result, agreed);
  return result ? "Yes" : "No";
}

std::string_view digest_offer(Offers::Digest digest) {
  switch (digest) {
    case Offers::Digest::none:
      return "None";
    case Offers::Digest::either:
      return "CRC32C,None";
    case Offers::Digest::crc32c:
      return "CRC32C";
  }
  return "None";
}

bool is_hex(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

}  // namespace

std::span<const KeyRule> key_rules() { return kRules; }

const KeyRule* find_rule(std::string_view name) {
  const auto at = std::find_if(kRules.begin(), kRules.end(), [&](const KeyRule& rule) { return rule.name == name; });
  return at == kRules.end() ? nullptr : &*at;
}

const KeyRule& rule_of(Key key) { return kRules[static_cast<std::size_t>(key)]; }

std::optional<std::uint32_t> parse_number(std::string_view text) {
  int base = 10;
  if (text.starts_with("0x") || text.starts_with("0X")) {
    text.remove_prefix(2);
    base = 16;
  }
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

Offers rdma_offers(Offers ours) {
  ours.header_digest = ours.data_digest = Offers::Digest::none;
  ours.initial_r2t = true;
  ours.first_burst = kRdmaSegment;
  ours.max_recv = kRdmaSegment;
  ours.rdma = true;
  ours.target_segment = kRdmaSegment;
  return ours;
}

std::optional<std::string> accept_offer(const KeyRule& rule, std::string_view offered, const Offers& ours,
                                        bool discovery, Parameters& agreed) {
  if ((rule.use & kRdmaOnly) && !ours.rdma) return "NotUnderstood";
  if (discovery && (rule.use & kNormalOnly)) return "Irrelevant";
  switch (rule.kind) {
    case KeyKind::both_yes:
    case KeyKind::either_yes:
      return accept_bool(rule, offered, ours, agreed);
    case KeyKind::smaller:
    case KeyKind::larger:
      return accept_number(rule, offered, ours, agreed);
    case KeyKind::choice:
      return accept_choice(rule, offered, ours, agreed);
    case KeyKind::obsolete:
      return "Reject";
    case KeyKind::number: {
      const auto value = parse_number(offered);
      if (!value || *value < rule.low || *value > rule.high) return "Reject";
      set_number(rule.key, *value, agreed);
      return std::nullopt;
    }
    case KeyKind::text:
      if (offered.size() > rule.high) return "Reject";
      if (rule.key == Key::tagged_for_solicited) agreed.tagged_is_advanced = offered != "No";
      if (rule.key == Key::hello_required && offered != "No") return "Reject";
      return std::nullopt;
  }
  return std::nullopt;
}

std::string make_offers(const Offers& ours, bool discovery) {
  std::string text;
  for (const KeyRule& rule : kRules) {
    if (!(rule.use & kInOperational) || (discovery && (rule.use & kNormalOnly))) continue;
    if ((rule.use & kRdmaOnly) && !ours.rdma) continue;
    if (rule.key == Key::rdma_extensions || rule.key == Key::task_reporting) continue;
    switch (rule.kind) {
      case KeyKind::both_yes:
      case KeyKind::either_yes:
        add_pair(text, rule.name, our_bool(rule.key, ours) ? "Yes" : "No");
        break;
      case KeyKind::smaller:
      case KeyKind::larger:
        add_pair(text, rule.name, std::to_string(our_number(rule.key, ours)));
        break;
      case KeyKind::choice:
        add_pair(text, rule.name, digest_offer(our_digest(rule.key, ours)));
        break;
      default:
        break;
    }
  }
  add_pair(text, rule_of(Key::max_recv_data_segment_length).name, std::to_string(ours.max_recv));
  // Last: the keys that it makes irrelevant come before it (RFC 7145 6.3).
  if (ours.rdma && !discovery) add_pair(text, rule_of(Key::rdma_extensions).name, "Yes");
  return text;
}

bool accept_answer(const KeyRule& rule, std::string_view answer, const Offers& ours, Parameters& agreed) {
  if (rule.key == Key::protocol_level && answer == "NotUnderstood") return agreed.protocol_level = 0, true;
  const bool number = rule.kind == KeyKind::smaller || rule.kind == KeyKind::larger;
  if (number || rule.kind == KeyKind::number) {
    const auto value = parse_number(answer);
    if (!value || *value < rule.low || *value > rule.high) return false;
    const std::uint32_t mine = our_number(rule.key, ours);
    if (rule.kind == KeyKind::smaller && *value > mine) return false;
    if (rule.kind == KeyKind::larger && *value < mine) return false;
    return set_number(rule.key, *value, agreed), true;
  }
  if (rule.kind == KeyKind::choice) {
    if (!have_choice(rule.key, answer, ours)) return false;
    return set_choice(rule.key, answer, agreed), true;
  }
  if (rule.kind == KeyKind::both_yes || rule.kind == KeyKind::either_yes) {
    if (answer != "Yes" && answer != "No") return false;
    const bool result = answer == "Yes";
    const bool mine = our_bool(rule.key, ours);
    if (rule.kind == KeyKind::both_yes ? result && !mine : !result && mine) return false;
    return set_bool(rule.key, result, agreed), true;
  }
  return true;
}

std::optional<std::string> normal_iscsi_name(std::string_view name) {
  if (name.size() > kMaxIscsiName || name.size() < 5) return std::nullopt;
  std::string normal(name);
  for (char& c : normal) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    const bool fine = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || std::string_view(".:-_").contains(c) ||
                      static_cast<unsigned char>(c) >= 0x80;
    if (!fine) return std::nullopt;
  }
  const std::string_view rest = std::string_view(normal).substr(4);
  if (normal.starts_with("iqn.")) return normal;
  if (normal.starts_with("eui.") && rest.size() == 16 && is_hex(rest)) return normal;
  if (normal.starts_with("naa.") && (rest.size() == 16 || rest.size() == 32) && is_hex(rest)) return normal;
  return std::nullopt;
}

}  // namespace lockstep::iscsi
