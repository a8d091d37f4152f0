// The forms of a logical unit's state, of requests and answers on disk and between the nodes: big-endian, each in an
// envelope with magic, version, length and CRC32C.
#include <algorithm>
#include <cassert>

#include "engine/base/byte_order.hpp"
#include "engine/base/crc32c.hpp"
#include "engine/scsi/lu_state.hpp"

namespace lockstep::scsi {
namespace {

using engine::ByteReader;
using engine::ByteWriter;
using engine::Errc;
using engine::Result;

constexpr std::uint32_t kStateMagic = 0x4C534C55;    // "LSLU"
constexpr std::uint32_t kRequestMagic = 0x4C534C52;  // "LSLR"
constexpr std::uint32_t kEventsMagic = 0x4C534C45;   // "LSLE"
constexpr std::uint32_t kAnswerMagic = 0x4C534C41;   // "LSLA"
constexpr std::uint16_t kVersion = 1;
constexpr std::size_t kEnvelope = 16;  // magic, version, two zero bytes, payload bytes, CRC32C of all but itself

// ---- envelope

std::uint32_t checksum(std::span<const std::byte> whole) {
  return engine::crc32c(whole.subspan(kEnvelope), engine::crc32c(whole.first(kEnvelope - 4)));
}

template <class Write>
std::vector<std::byte> sealed(std::uint32_t magic, std::size_t bound, Write write) {
  std::vector<std::byte> bytes(bound);
  ByteWriter out(bytes);
  out.be32(magic);
  out.be16(kVersion);
  out.be16(0);
  out.zeros(8);
  write(out);
  assert(out.ok());  // every list in it has a bound
  bytes.resize(out.size());
  engine::store_be<std::uint32_t>(&bytes[8], static_cast<std::uint32_t>(bytes.size() - kEnvelope));
  engine::store_be<std::uint32_t>(&bytes[12], checksum(bytes));
  return bytes;
}

std::unexpected<engine::Error> bad(const char* what, const char* why) {
  return engine::fail(Errc::corrupt, std::string("A logical unit's ") + what + " " + why + ".");
}

/// The payload of an envelope that is whole.
Result<std::span<const std::byte>> opened(std::span<const std::byte> bytes, std::uint32_t magic, const char* what) {
  ByteReader in(bytes);
  const std::uint32_t found = in.be32();
  const std::uint16_t version = in.be16();
  const std::uint16_t zero = in.be16();
  const std::uint32_t size = in.be32();
  const std::uint32_t crc = in.be32();
  if (!in.ok() || found != magic || size > in.remaining()) return bad(what, "is cut off or something else");
  const auto whole = bytes.first(kEnvelope + size);
  if (crc != checksum(whole)) return bad(what, "fails its checksum");
  if (version != kVersion) {
    return engine::fail(Errc::wrong_version, std::string("A logical unit's ") + what + " is of version " +
                                                 std::to_string(version) + ", which this program does not know.");
  }
  if (zero != 0) return bad(what, "has bits set that are reserved");
  return whole.subspan(kEnvelope);
}

// ---- parts

void put(ByteWriter& out, const NexusKey& nexus) {
  out.u8(static_cast<std::uint8_t>(nexus.initiator.size()));
  out.bytes(std::as_bytes(std::span(nexus.initiator)));
  out.bytes(std::as_bytes(std::span(nexus.isid)));
  out.u8(nexus.any_isid ? 1 : 0);
  out.be16(nexus.port);
}

bool get_flag(ByteReader& in, bool& valid) {
  const std::uint8_t value = in.u8();
  valid &= value <= 1;
  return value == 1;
}

NexusKey get_nexus(ByteReader& in, bool& valid) {
  NexusKey nexus;
  const auto name = in.bytes(in.u8());
  nexus.initiator.assign(reinterpret_cast<const char*>(name.data()), name.size());
  valid &= name.size() <= kMaxInitiatorName;
  in.copy(std::as_writable_bytes(std::span(nexus.isid)));
  nexus.any_isid = get_flag(in, valid);
  nexus.port = in.be16();
  return nexus;
}

void put(ByteWriter& out, const engine::Uuid& id) { out.bytes(std::as_bytes(std::span(id.bytes))); }
engine::Uuid get_uuid(ByteReader& in) {
  engine::Uuid id;
  in.copy(std::as_writable_bytes(std::span(id.bytes)));
  return id;
}

void put(ByteWriter& out, const std::vector<std::byte>& bytes) {
  out.be16(static_cast<std::uint16_t>(bytes.size()));
  out.bytes(bytes);
}
std::vector<std::byte> get_bytes(ByteReader& in, std::size_t bound, bool& valid) {
  const auto bytes = in.bytes(in.be16());
  valid &= bytes.size() <= bound;
  return {bytes.begin(), bytes.end()};
}

std::uint8_t bits_of(LuMode mode) {
  return static_cast<std::uint8_t>((mode.descriptor_sense ? 1 : 0) | (mode.software_write_protect ? 2 : 0) |
                                   (mode.threshold_off ? 4 : 0));
}
void put(ByteWriter& out, LuMode mode) { out.u8(bits_of(mode)); }
LuMode mode_of(std::uint8_t bits, bool& valid) {
  valid &= bits <= 7;
  return {
      .descriptor_sense = (bits & 1) != 0, .software_write_protect = (bits & 2) != 0, .threshold_off = (bits & 4) != 0};
}

LuMode get_mode(ByteReader& in, bool& valid) { return mode_of(in.u8(), valid); }

/// Both in one byte: ports are 1 and 2.
void put_medium(ByteWriter& out, const LuState& s) {
  out.u8(static_cast<std::uint8_t>((s.ejected ? 1 : 0) | (s.low_space & 6)));
}
void get_medium(ByteReader& in, LuState& s, bool& valid) {
  const std::uint8_t bits = in.u8();
  valid &= bits <= 7;
  s.ejected = bits & 1;
  s.low_space = bits & 6;
}

void put(ByteWriter& out, const SanitizeState& s) {
  out.u8(static_cast<std::uint8_t>(s.phase));
  out.u8(static_cast<std::uint8_t>(s.method));
  out.u8(s.unrestricted_exit);
  out.u8(s.passes);
  out.u8(s.invert);
  out.be16(s.port);
  put(out, s.pattern);
}
SanitizeState get_sanitize(ByteReader& in, bool& valid) {
  SanitizeState s;
  const std::uint8_t phase = in.u8();
  const std::uint8_t method = in.u8();
  valid &= phase <= 2 && method >= 1 && method <= 3;
  s.phase = static_cast<SanitizeState::Phase>(phase);
  s.method = static_cast<SanitizeState::Method>(method);
  s.unrestricted_exit = get_flag(in, valid);
  s.passes = in.u8();
  s.invert = get_flag(in, valid);
  s.port = in.be16();
  s.pattern = get_bytes(in, kMaxSanitizePattern, valid);
  return s;
}

void put_nexuses(ByteWriter& out, const std::vector<NexusKey>& nexuses) {
  out.u8(static_cast<std::uint8_t>(nexuses.size()));
  for (const NexusKey& each : nexuses) put(out, each);
}
std::vector<NexusKey> get_nexuses(ByteReader& in, std::size_t bound, bool& valid) {
  std::vector<NexusKey> nexuses(in.u8());
  valid &= nexuses.size() <= bound;
  for (NexusKey& each : nexuses) each = get_nexus(in, valid);
  return nexuses;
}

// ---- answer

void put(ByteWriter& out, const LuAnswer& answer) {
  const FieldPointer field = answer.sense.field.value_or(FieldPointer{});
  out.be32(kAnswerMagic);
  out.u8(kVersion);
  out.u8(static_cast<std::uint8_t>(answer.status));
  out.u8(static_cast<std::uint8_t>(answer.sense.key));
  out.u8(answer.sense.additional.code);
  out.u8(answer.sense.additional.qualifier);
  out.u8(static_cast<std::uint8_t>((answer.sense.field ? 1 : 0) | (field.in_cdb ? 2 : 0)));
  out.be16(field.byte);
  out.u8(static_cast<std::uint8_t>(field.bit));
  out.zeros(7);
  const auto bytes = out.written().last(kLuAnswerSize - 4);
  out.be32(engine::crc32c(bytes));
}

bool is_status(std::uint8_t value) {
  switch (static_cast<Status>(value)) {
    case Status::good:
    case Status::check_condition:
    case Status::condition_met:
    case Status::busy:
    case Status::reservation_conflict:
    case Status::task_set_full:
    case Status::task_aborted:
      return true;
  }
  return false;
}

LuAnswer get_answer(ByteReader& in, bool& valid) {
  const auto bytes = in.bytes(kLuAnswerSize);
  LuAnswer answer;
  if (bytes.empty()) return answer;
  ByteReader part(bytes);
  valid &= part.be32() == kAnswerMagic && part.u8() == kVersion;
  const std::uint8_t status = part.u8();
  valid &= is_status(status);
  answer.status = static_cast<Status>(status);
  answer.sense.key = static_cast<SenseKey>(part.u8());
  valid &= static_cast<std::uint8_t>(answer.sense.key) <= 0x0F;
  answer.sense.additional.code = part.u8();
  answer.sense.additional.qualifier = part.u8();
  const std::uint8_t flags = part.u8();
  valid &= flags <= 3;
  const FieldPointer field{.in_cdb = (flags & 2) != 0, .byte = part.be16(), .bit = static_cast<std::int8_t>(part.u8())};
  valid &= field.bit >= -1 && field.bit <= 7;
  if (flags & 1) answer.sense.field = field;
  part.zeros(7);
  valid &= part.be32() == engine::crc32c(bytes.first(kLuAnswerSize - 4)) && part.ok();
  return answer;
}

// ---- state

bool is_type(std::uint8_t value) { return value == 1 || value == 3 || (value >= 5 && value <= 8); }

bool unique(const std::vector<Registration>& registrations) {
  for (std::size_t i = 1; i < registrations.size(); ++i) {
    const auto before = std::span(registrations).first(i);
    if (std::ranges::find(before, registrations[i].nexus, &Registration::nexus) != before.end()) return false;
  }
  return true;
}

/// What apply() keeps true.
bool makes_sense(const LuState& s) {
  if (s.registrations.size() > kMaxRegistrations || !unique(s.registrations)) return false;
  if (std::ranges::find(s.registrations, std::uint64_t{0}, &Registration::key) != s.registrations.end()) return false;
  if (!s.reservation) return true;
  if (for_all_registrants(s.reservation->type)) return !s.registrations.empty();
  return std::ranges::find(s.registrations, s.reservation->holder, &Registration::nexus) != s.registrations.end();
}

void get_reservations(ByteReader& in, LuState& s, bool& valid) {
  s.registrations.resize(in.u8());
  for (Registration& each : s.registrations) {
    each.nexus = get_nexus(in, valid);
    each.key = in.be64();
  }
  if (const std::uint8_t type = in.u8(); type != 0) {
    valid &= is_type(type);
    s.reservation = Reservation{.type = static_cast<ReservationType>(type), .holder = get_nexus(in, valid)};
  }
  if (get_flag(in, valid)) s.reserved_by = get_nexus(in, valid);
}

}  // namespace

std::array<std::byte, kLuAnswerSize> LuAnswer::encode() const {
  std::array<std::byte, kLuAnswerSize> bytes{};
  ByteWriter out(bytes);
  put(out, *this);
  return bytes;
}

Result<LuAnswer> LuAnswer::decode(std::span<const std::byte> bytes) {
  bool valid = bytes.size() == kLuAnswerSize;
  ByteReader in(bytes);
  const LuAnswer answer = get_answer(in, valid);
  if (!valid) return bad("answer", "is damaged");
  return answer;
}

std::vector<std::byte> LuState::encode() const {
  return sealed(kStateMagic, kMaxLuState, [this](ByteWriter& out) {
    out.be64(version);
    out.be32(generation);
    out.u8(persistent);
    out.u8(static_cast<std::uint8_t>(registrations.size()));
    for (const Registration& each : registrations) {
      put(out, each.nexus);
      out.be64(each.key);
    }
    out.u8(reservation ? static_cast<std::uint8_t>(reservation->type) : 0);
    if (reservation) put(out, reservation->holder);
    out.u8(reserved_by.has_value());
    if (reserved_by) put(out, *reserved_by);
    put(out, mode);
    put_medium(out, *this);
    put_nexuses(out, preventions);
    put(out, sanitize);
    out.u8(static_cast<std::uint8_t>(replays.size()));
    for (const Replay& each : replays) {
      put(out, each.request);
      put(out, each.answer);
    }
  });
}

Result<LuState> LuState::decode(std::span<const std::byte> bytes) {
  const auto payload = opened(bytes, kStateMagic, "state");
  if (!payload) return std::unexpected(payload.error());
  ByteReader in(*payload);
  bool valid = true;
  LuState s;
  s.version = in.be64();
  s.generation = in.be32();
  s.persistent = get_flag(in, valid);
  get_reservations(in, s, valid);
  s.mode = get_mode(in, valid);
  get_medium(in, s, valid);
  s.preventions = get_nexuses(in, kMaxPreventions, valid);
  s.sanitize = get_sanitize(in, valid);
  s.replays.resize(in.u8());
  valid &= s.replays.size() <= kMaxReplays;
  for (Replay& each : s.replays) {
    each.request = get_uuid(in);
    each.answer = get_answer(in, valid);
  }
  if (!in.finished() || !valid || !makes_sense(s)) return bad("state", "says what can't be");
  return s;
}

std::vector<std::byte> LuRequest::encode() const {
  return sealed(kRequestMagic, kMaxLuRequest, [this](ByteWriter& out) {
    out.u8(static_cast<std::uint8_t>(kind));
    put(out, id);
    put(out, nexus);
    out.u8(kind == LuRequestKind::mode_select ? bits_of(kept) : service_action);
    out.u8(scope_and_type);
    out.be16(target_ports);
    out.u8(may_persist);
    put(out, parameters);
    put(out, mode);
    put(out, sanitize);
    out.be16(port);
    out.be16(survivor);
  });
}

Result<LuRequest> LuRequest::decode(std::span<const std::byte> bytes) {
  const auto payload = opened(bytes, kRequestMagic, "request");
  if (!payload) return std::unexpected(payload.error());
  ByteReader in(*payload);
  bool valid = true;
  LuRequest r;
  const std::uint8_t kind = in.u8();
  valid &= kind != 0 && kind <= static_cast<std::uint8_t>(kLastLuRequestKind);
  r.kind = static_cast<LuRequestKind>(kind);
  r.id = get_uuid(in);
  r.nexus = get_nexus(in, valid);
  const std::uint8_t action = in.u8();
  // Of older nodes 0, which keeps nothing; and they pass over it.
  if (r.kind == LuRequestKind::mode_select) {
    r.kept = mode_of(action, valid);
  } else {
    r.service_action = action;
  }
  r.scope_and_type = in.u8();
  r.target_ports = in.be16();
  r.may_persist = get_flag(in, valid);
  r.parameters = get_bytes(in, kMaxLuParameters, valid);
  r.mode = get_mode(in, valid);
  r.sanitize = get_sanitize(in, valid);
  r.port = in.be16();
  r.survivor = in.be16();
  valid &= !r.nexus.any_isid;
  if (!in.finished() || !valid) return bad("request", "says what can't be");
  return r;
}

std::vector<std::byte> encode_events(std::span<const LuEvent> events) {
  return sealed(kEventsMagic, kMaxLuEvents, [&](ByteWriter& out) {
    out.u8(static_cast<std::uint8_t>(events.size()));
    for (const LuEvent& each : events) {
      out.u8(static_cast<std::uint8_t>(each.kind));
      out.u8(each.for_others);
      put_nexuses(out, each.nexuses);
    }
  });
}

Result<std::vector<LuEvent>> decode_events(std::span<const std::byte> bytes) {
  const auto payload = opened(bytes, kEventsMagic, "list of events");
  if (!payload) return std::unexpected(payload.error());
  ByteReader in(*payload);
  bool valid = true;
  std::vector<LuEvent> events(in.u8());
  for (LuEvent& each : events) {
    const std::uint8_t kind = in.u8();
    valid &= kind <= static_cast<std::uint8_t>(kLastLuAttention);
    each.kind = static_cast<LuAttention>(kind);
    each.for_others = get_flag(in, valid);
    each.nexuses = get_nexuses(in, kMaxRegistrations, valid);
    if (in.failed()) break;
  }
  if (!in.finished() || !valid) return bad("list of events", "says what can't be");
  return events;
}

}  // namespace lockstep::scsi
