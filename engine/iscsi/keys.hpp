#pragma once
// What the text keys of RFC 7143 chapter 13 mean, as one table, and what two sides agree on by it.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace lockstep::iscsi {

enum class Key : std::uint8_t {
  header_digest,
  data_digest,
  max_connections,
  send_targets,
  target_name,
  initiator_name,
  target_alias,
  initiator_alias,
  target_address,
  target_portal_group_tag,
  initial_r2t,
  immediate_data,
  max_recv_data_segment_length,
  max_burst_length,
  first_burst_length,
  default_time2wait,
  default_time2retain,
  max_outstanding_r2t,
  data_pdu_in_order,
  data_sequence_in_order,
  error_recovery_level,
  session_type,
  task_reporting,
  protocol_level,
  auth_method,
  rdma_extensions,
  marker_in,
  marker_out,
  marker_interval_in,
  marker_interval_out,
  chap_a,
  chap_i,
  chap_c,
  chap_n,
  chap_r,
  initiator_segment,
  target_segment,
  max_unexpected,
  max_ahs,
  tagged_for_solicited,
  hello_required,
  count,
};

enum class KeyKind : std::uint8_t {
  both_yes,    ///< Yes when both say so
  either_yes,  ///< Yes when one says so
  smaller,     ///< the smaller of the two numbers
  larger,      ///< the larger of the two numbers
  choice,      ///< the first of the offered list that the acceptor has
  number,      ///< declared, not answered
  text,        ///< declared, not answered
  obsolete,    ///< answered with Reject
};

enum KeyUse : std::uint8_t {  // where a key may stand; bits
  kInSecurity = 1,
  kInOperational = 2,
  kInFullFeature = 4,
  kNormalOnly = 8,   ///< Irrelevant in a discovery session
  kFromTarget = 16,  ///< an initiator may not declare it
  kRdmaOnly = 32,    ///< of RFC 7145: not understood by who has no RDMA
};

struct KeyRule {
  Key key;
  std::string_view name;
  KeyKind kind;
  std::uint8_t use;                 ///< KeyUse
  std::uint32_t low = 0, high = 0;  ///< of numbers; `high` is the longest value of texts, bytes
};

[[nodiscard]] std::span<const KeyRule> key_rules();
/// Null for a key that this product does not know.
[[nodiscard]] const KeyRule* find_rule(std::string_view name);
[[nodiscard]] const KeyRule& rule_of(Key key);

/// What holds for a session, at first RFC 7143's defaults.
struct Parameters {
  bool header_digest = false;
  bool data_digest = false;
  bool initial_r2t = true;
  bool immediate_data = true;
  std::uint32_t max_burst = 262144;  ///< bytes
  std::uint32_t first_burst = 65536;
  std::uint32_t max_outstanding_r2t = 1;
  std::uint32_t time2wait = 2, time2retain = 20;  ///< seconds
  std::uint32_t protocol_level = 1;
  std::uint32_t max_send = 8192;            ///< bytes in a data segment: what the peer declared
  std::uint32_t max_recv = 8192;            ///< and what we did
  std::uint32_t most_to_send = UINT32_MAX;  ///< bytes in a data segment, whatever the peer declares
  // RFC 7145 §6
  bool rdma = false;
  std::uint32_t initiator_segment = 8192;  ///< bytes of data in a PDU to the initiator
  std::uint32_t target_segment = 8192;     ///< and to the target
  /// The address of a write's memory is that of what does not come with the command. RFC 7145 §6.9 has No as the
  /// default; Linux, and so everybody, means Yes.
  bool tagged_is_advanced = true;
};

/// What this side is ready for, as offerer or acceptor.
struct Offers {
  enum class Digest : std::uint8_t { none, either, crc32c };  ///< `crc32c` insists
  Digest header_digest = Digest::either;
  Digest data_digest = Digest::either;
  bool initial_r2t = false;
  bool immediate_data = true;
  std::uint32_t max_burst = 1 << 20;  ///< bytes
  std::uint32_t first_burst = 256 << 10;
  std::uint32_t max_outstanding_r2t = 4;
  std::uint32_t time2wait = 0, time2retain = 0;  ///< seconds
  std::uint32_t max_recv = 256 << 10;            ///< bytes, declared
  bool rdma = false;
  std::uint32_t initiator_segment = (1 << 24) - 1, target_segment = (1 << 24) - 1;  ///< bytes
};

constexpr std::uint32_t kRdmaSegment = 8192;       ///< bytes of data that come with a PDU over RDMA
constexpr std::uint32_t kRdmaAnswerSegment = 128;  ///< and that an initiator has room for, whatever it declares
/// What a target that is ready for `ours` over TCP is ready for over RDMA.
[[nodiscard]] Offers rdma_offers(Offers ours);

/// The value, or nothing when it is no number of decimal or 0x-hexadecimal digits that fits.
[[nodiscard]] std::optional<std::uint32_t> parse_number(std::string_view text);

/// As acceptor: the answer to an offered operational key, and its effect on `agreed`. Nothing: no answer is due.
/// "Reject" for a value outside the rule: the caller ends the login where RFC 7143 6.2 wants that.
[[nodiscard]] std::optional<std::string> accept_offer(const KeyRule& rule, std::string_view offered, const Offers& ours,
                                                      bool discovery, Parameters& agreed);
/// As offerer: the text of everything that `ours` offers for an operational negotiation.
[[nodiscard]] std::string make_offers(const Offers& ours, bool discovery);
/// As offerer: takes the acceptor's answer. False when it is none that our offer allows.
[[nodiscard]] bool accept_answer(const KeyRule& rule, std::string_view answer, const Offers& ours, Parameters& agreed);

constexpr std::size_t kMaxIscsiName = 223;  ///< bytes
/// The normal (lower-case) form of an "iqn.", "eui." or "naa." name of RFC 7143 4.2.7; nothing when it is none.
[[nodiscard]] std::optional<std::string> normal_iscsi_name(std::string_view name);

}  // namespace lockstep::iscsi
