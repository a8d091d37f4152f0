#pragma once
// What a logical unit knows beside its blocks and both nodes must agree on: persistent reservations (SPC-4 5.12), SPC-2
// reservations, mode parameters, medium removal, sanitizing, low space. A value and a pure step: apply(state, request)
// says what is answered, what the state is next, and which unit attentions arise. Whoever orders the steps (the
// sequencer of a mirror, or the only node) stores `next` durably where it must be, installs it on both, and only then
// answers.
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/base/result.hpp"
#include "engine/base/uuid.hpp"
#include "engine/scsi/command.hpp"
#include "engine/scsi/sense.hpp"

namespace lockstep::scsi {

constexpr std::size_t kMaxInitiatorName = 223;                ///< bytes, RFC 7143 4.2.7.1
constexpr std::size_t kMaxRegistrations = 128;                ///< more: 5/55/04
constexpr std::size_t kMaxPreventions = 64;                   ///< nexuses that prevent medium removal; more: 5/55/04
constexpr std::size_t kMaxReplays = 32;                       ///< answers kept for requests that come twice
constexpr std::size_t kMaxSanitizePattern = 4096;             ///< bytes: a block
constexpr std::size_t kMaxLuParameters = 8192;                ///< bytes of a parameter list
constexpr std::size_t kMaxLuState = std::size_t{60} << 10;    ///< bytes, encoded
constexpr std::size_t kMaxLuRequest = std::size_t{16} << 10;  ///< bytes, encoded
constexpr std::size_t kMaxLuEvents = std::size_t{60} << 10;   ///< bytes, a list of events encoded
constexpr std::size_t kLuAnswerSize = 24;                     ///< bytes, encoded

/// An I_T nexus by its names, which mean the same on both nodes and after every restart.
struct NexusKey {
  std::string initiator{};  ///< iSCSI name, at most kMaxInitiatorName bytes
  std::array<std::uint8_t, 6> isid{};
  bool any_isid = false;   ///< in a registration that names the initiator alone: stands for each of its ports
  std::uint16_t port = 0;  ///< relative target port identifier
  bool operator==(const NexusKey&) const = default;
  /// True when `nexus` is this one, or one of those that this stands for.
  [[nodiscard]] bool covers(const NexusKey& nexus) const {
    return port == nexus.port && (any_isid || isid == nexus.isid) && initiator == nexus.initiator;
  }
};

/// What a command does, as far as reservations, write protection and the medium are concerned (SPC-4 table 66, SBC-3
/// table 13).
enum class AccessClass : std::uint8_t {
  unrestricted,  ///< never refused: INQUIRY, REPORT LUNS, what a node does on its own account
  status,        ///< refused only while another nexus has reserved with RESERVE: TEST UNIT READY
  configure,     ///< refused under every reservation of others; touches no medium: MODE SELECT
  read,          ///< refused under Exclusive Access
  write,         ///< refused under every reservation of others, and when write-protected
};

enum class ReservationType : std::uint8_t {  // SPC-4 table 64
  write_exclusive = 1,
  exclusive_access = 3,
  write_exclusive_registrants_only = 5,
  exclusive_access_registrants_only = 6,
  write_exclusive_all_registrants = 7,
  exclusive_access_all_registrants = 8,
};
[[nodiscard]] constexpr bool for_all_registrants(ReservationType t) {
  return t == ReservationType::write_exclusive_all_registrants ||
         t == ReservationType::exclusive_access_all_registrants;
}
[[nodiscard]] constexpr bool for_registrants(ReservationType t) { return static_cast<std::uint8_t>(t) >= 5; }
[[nodiscard]] constexpr bool excludes_reads(ReservationType t) {
  return t == ReservationType::exclusive_access || t == ReservationType::exclusive_access_registrants_only ||
         t == ReservationType::exclusive_access_all_registrants;
}

struct Registration {
  NexusKey nexus{};
  std::uint64_t key = 0;
  bool operator==(const Registration&) const = default;
};

/// Scope is always the logical unit.
struct Reservation {
  ReservationType type = ReservationType::write_exclusive;
  NexusKey holder{};  ///< the registration's; of no meaning for the all-registrants types
  bool operator==(const Reservation&) const = default;
};

/// What MODE SELECT may change, and what reset puts back.
struct LuMode {
  bool descriptor_sense = false;        ///< D_SENSE
  bool software_write_protect = false;  ///< SWP
  bool threshold_off = false;           ///< the soft threshold of thin provisioning is not ENABLED
  bool operator==(const LuMode&) const = default;
  /// These, but `now` where `kept` says so.
  [[nodiscard]] LuMode keeping(const LuMode& kept, const LuMode& now) const;
};

/// SANITIZE (SBC-3 4.11): goes on through resets, reconnects and restarts until it is over.
struct SanitizeState {
  enum class Phase : std::uint8_t { none, running, failed };
  enum class Method : std::uint8_t { overwrite = 1, block_erase = 2, cryptographic_erase = 3 };  // service actions
  Phase phase = Phase::none;
  Method method = Method::block_erase;
  bool unrestricted_exit = false;    ///< AUSE: EXIT FAILURE MODE is allowed
  std::uint8_t passes = 1;           ///< of overwrite
  bool invert = false;               ///< the pattern is inverted between passes
  std::uint16_t port = 0;            ///< whose node does it
  std::vector<std::byte> pattern{};  ///< of overwrite, repeated over each block; at most kMaxSanitizePattern bytes
  bool operator==(const SanitizeState&) const = default;
};

/// How a request ended. Sense without information.
struct LuAnswer {
  Status status = Status::good;
  Sense sense{};
  bool operator==(const LuAnswer&) const = default;
  [[nodiscard]] std::array<std::byte, kLuAnswerSize> encode() const;
  [[nodiscard]] static engine::Result<LuAnswer> decode(std::span<const std::byte> bytes);
};

struct Replay {
  engine::Uuid request{};
  LuAnswer answer{};
  bool operator==(const Replay&) const = default;
};

struct LuState {
  std::uint64_t version = 0;     ///< one more with every change
  std::uint32_t generation = 0;  ///< PRGENERATION
  bool persistent = false;       ///< APTPL: registrations and reservation outlive power loss
  std::vector<Registration> registrations{};
  std::optional<Reservation> reservation{};
  std::optional<NexusKey> reserved_by{};  ///< SPC-2 RESERVE
  LuMode mode{};
  bool ejected = false;                 ///< of a removable medium
  std::uint8_t low_space = 0;           ///< bit n: little is left in the store of the node of relative target port n
  std::vector<NexusKey> preventions{};  ///< who prevents its removal
  SanitizeState sanitize{};
  std::vector<Replay> replays{};  ///< the last requests that changed something, oldest first

  bool operator==(const LuState&) const = default;

  /// False: every command of every nexus is allowed, and check() need not be called.
  [[nodiscard]] bool restricted() const {
    return reservation || reserved_by || mode.software_write_protect || ejected ||
           sanitize.phase != SanitizeState::Phase::none;
  }
  /// The soft threshold is enabled and reached: by the store of either node, for what one lacks both refuse.
  [[nodiscard]] bool warns_of_space() const { return low_space != 0 && !mode.threshold_off; }
  [[nodiscard]] bool is_low(std::uint16_t port) const { return port < 8 && (low_space >> port & 1); }
  /// ok, reservation_conflict, write_protected, or not_ready (no medium, sanitizing or failed to). `nexus` may be null
  /// with AccessClass::unrestricted only.
  [[nodiscard]] engine::Errc check(const NexusKey* nexus, AccessClass access) const;
  /// Whether reservations let `nexus` do it; nothing else is looked at.
  [[nodiscard]] bool allows(const NexusKey& nexus, AccessClass access) const;

  /// The registration of `nexus`: its own rather than one that stands for all ports of its initiator.
  [[nodiscard]] const Registration* find(const NexusKey& nexus) const;
  /// With an all-registrants type every registration holds it.
  [[nodiscard]] bool holds(const Registration& registration) const;

  /// What is left when the node of `port` died: its nexuses are lost, and its store is not written to. Equal to *this
  /// when nothing is.
  [[nodiscard]] LuState after_port_lost(std::uint16_t port, std::uint16_t survivor) const;
  /// What is left when both nodes were without power, or the only one restarted. The version is one higher if anything
  /// changed.
  [[nodiscard]] LuState after_power_loss() const;

  /// At most kMaxLuState bytes: format version, checksum, big-endian.
  [[nodiscard]] std::vector<std::byte> encode() const;
  /// Errors: corrupt, wrong_version. Survives any input, and gives back only what encode() could have written.
  [[nodiscard]] static engine::Result<LuState> decode(std::span<const std::byte> bytes);
};

enum class LuRequestKind : std::uint8_t {
  reserve_out = 1,  ///< PERSISTENT RESERVE OUT
  reserve,          ///< SPC-2 RESERVE(6), RESERVE(10)
  release,          ///< SPC-2 RELEASE
  mode_select,
  unit_reset,    ///< LOGICAL UNIT RESET
  target_reset,  ///< warm or cold
  nexus_lost,    ///< the session is over
  port_lost,     ///< the node of `port` died
  power_on,      ///< both nodes had been without power
  prevent,       ///< PREVENT ALLOW MEDIUM REMOVAL, PREVENT one
  allow,         ///< …, zero
  load,          ///< START STOP UNIT
  eject,
  sanitize,           ///< begins: `sanitize`
  sanitize_finished,  ///< by the node that does it
  sanitize_failed,
  exit_failure_mode,
  space_low,  ///< in the store of the node of `port` little is left
  space_enough,
};
constexpr auto kLastLuRequestKind = LuRequestKind::space_enough;

struct LuRequest {
  LuRequestKind kind = LuRequestKind::reserve_out;
  engine::Uuid id{};  ///< nil: not remembered; else a request that comes again is answered as it was the first time
  NexusKey nexus{};   ///< who asks; empty for port_lost, power_on and what the unit does on its own account
  // PERSISTENT RESERVE OUT:
  std::uint8_t service_action = 0;
  std::uint8_t scope_and_type = 0;      ///< byte 2 of the CDB
  std::uint16_t target_ports = 0;       ///< bit n: relative target port n exists; for ALL_TG_PT
  bool may_persist = false;             ///< APTPL is possible
  std::vector<std::byte> parameters{};  ///< the parameter list, at most kMaxLuParameters bytes
  // Others:
  LuMode mode{};               ///< mode_select
  LuMode kept{};               ///< … of `mode`, what its list does not name: it stays as it is
  SanitizeState sanitize{};    ///< sanitize; its phase is not looked at
  std::uint16_t port = 0;      ///< port_lost: the dead one; space_low, space_enough: whose store
  std::uint16_t survivor = 0;  ///< port_lost: the port that is left
  bool operator==(const LuRequest&) const = default;

  /// At most kMaxLuRequest bytes.
  [[nodiscard]] std::vector<std::byte> encode() const;
  /// Errors: corrupt, wrong_version. Survives any input.
  [[nodiscard]] static engine::Result<LuRequest> decode(std::span<const std::byte> bytes);
};

enum class LuAttention : std::uint8_t {
  bus_reset,                ///< 29/02
  unit_reset,               ///< 29/03
  mode_parameters_changed,  ///< 2A/01
  reservations_preempted,   ///< 2A/03
  reservations_released,    ///< 2A/04
  registrations_preempted,  ///< 2A/05
  medium_may_have_changed,  ///< 28/00
  soft_threshold_reached,   ///< 38/07
};
constexpr auto kLastLuAttention = LuAttention::soft_threshold_reached;

/// A unit attention that a step raises.
struct LuEvent {
  LuAttention kind = LuAttention::unit_reset;
  bool for_others = true;  ///< for every nexus but `nexuses`; false: for `nexuses` only
  std::vector<NexusKey> nexuses{};
  bool operator==(const LuEvent&) const = default;
  [[nodiscard]] bool concerns(const NexusKey& nexus) const;
};
/// At most kMaxLuEvents bytes.
[[nodiscard]] std::vector<std::byte> encode_events(std::span<const LuEvent> events);
[[nodiscard]] engine::Result<std::vector<LuEvent>> decode_events(std::span<const std::byte> bytes);

struct LuOutcome {
  LuAnswer answer{};
  bool changed = false;  ///< false: `next` equals the state before, and there are no events
  LuState next{};
  std::vector<LuEvent> events{};
};

/// One step. Never fails: what is wrong with the request is in the answer.
[[nodiscard]] LuOutcome apply(const LuState& state, const LuRequest& request);

/// Hears of every state that a disk installs.
class LuStateListener {
 public:
  virtual ~LuStateListener() = default;
  virtual void on_state(const LuState& state, std::span<const LuEvent> events) = 0;
};

}  // namespace lockstep::scsi
