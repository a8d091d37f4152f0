#include "replication/link/channel/channel_frames.hpp"

#include <algorithm>
#include <cstring>

#include "engine/base/byte_order.hpp"

namespace lockstep::replication {
namespace {

using engine::Errc;

constexpr std::uint32_t kFrameMagic = 0x4C534E52;  // "LSNR"
constexpr std::uint8_t kFrameVersion = 1;

struct RequestFrameLayout {
  engine::Be32 magic;
  std::uint8_t version;
  std::uint8_t kind;
  std::array<std::uint8_t, 2> reserved;
  engine::Be64 number;  ///< of a join: the session's
  engine::Be64 acknowledged;
};
static_assert(sizeof(RequestFrameLayout) == kRequestFrame && engine::WireStruct<RequestFrameLayout>);

struct JoinFrameLayout {
  engine::Be32 magic;
  std::uint8_t version;
  std::uint8_t kind;
  std::array<std::uint8_t, 2> reserved;
  engine::Be64 session;
  std::array<std::uint8_t, 16> process;
  std::array<std::uint8_t, 16> partner;
};
static_assert(sizeof(JoinFrameLayout) == kJoinFrame && engine::WireStruct<JoinFrameLayout>);
static_assert(offsetof(JoinFrameLayout, session) == offsetof(RequestFrameLayout, number));

struct AnswerFrameLayout {
  engine::Be32 magic;
  std::uint8_t version;
  std::uint8_t kind;
  std::array<std::uint8_t, 2> reserved;
  engine::Be64 number;
};
static_assert(sizeof(AnswerFrameLayout) == kAnswerFrame && engine::WireStruct<AnswerFrameLayout>);

struct JoinAnswerLayout {
  engine::Be32 magic;
  std::uint8_t version;
  std::uint8_t verdict;
  std::uint8_t addresses;
  std::uint8_t reserved;
  std::array<std::uint8_t, 16> process;
};
static_assert(sizeof(JoinAnswerLayout) == kJoinAnswerFixed && engine::WireStruct<JoinAnswerLayout>);

struct PathAddressLayout {
  std::array<std::uint8_t, 16> ip;
  engine::Be16 port;
  std::uint8_t transports;  ///< bit 0 TCP, bit 1 RDMA
  std::uint8_t order;
  engine::Be32 megabits;
};
static_assert(sizeof(PathAddressLayout) == kPathAddress && engine::WireStruct<PathAddressLayout>);
static_assert(kJoinAnswerFixed + kMaxPathAddresses * kPathAddress <= kMaxLinkAnswerHeader);

constexpr std::uint8_t kTcp = 1, kRdma = 2;

/// What all frames begin with: magic, version, kind.
engine::Result<void> look_at_start(std::span<const std::byte> header, std::size_t least) {
  if (header.size() < least) return engine::fail(Errc::corrupt, "A frame of the partner link is too short.");
  if (engine::load_be<std::uint32_t>(header.data()) != kFrameMagic) {
    return engine::fail(Errc::corrupt, "The partner sent something else than a frame of the link session.");
  }
  const auto version = std::to_integer<unsigned>(header[4]);
  if (version != kFrameVersion) {
    return engine::fail(Errc::wrong_version,
                        "A frame of the partner link is of version " + std::to_string(version) + ", known here is 1.");
  }
  return {};
}

std::optional<FrameKind> kind_of(std::span<const std::byte> header) {
  if (!is_channel_frame(header) || header.size() < kRequestFrame) return std::nullopt;
  return static_cast<FrameKind>(header[5]);
}

}  // namespace

bool is_channel_frame(std::span<const std::byte> header) {
  return header.size() >= 4 && engine::load_be<std::uint32_t>(header.data()) == kFrameMagic;
}

std::span<const std::byte> header_behind_frame(std::span<const std::byte> header) {
  return is_channel_frame(header) && header.size() >= kRequestFrame ? header.subspan(kRequestFrame) : header;
}

bool frame_goes_ahead(std::span<const std::byte> header) {
  const auto kind = kind_of(header);
  return kind && (*kind == FrameKind::ahead || *kind == FrameKind::probe || *kind == FrameKind::join);
}

bool is_join(std::span<const std::byte> header) { return kind_of(header) == FrameKind::join; }

std::array<std::byte, kRequestFrame> encode_request_frame(const RequestFrame& frame) {
  assert(frame.kind != FrameKind::join);
  return engine::bytes_of(RequestFrameLayout{kFrameMagic,
                                             kFrameVersion,
                                             static_cast<std::uint8_t>(frame.kind),
                                             {},
                                             frame.number.value,
                                             frame.acknowledged.value});
}

engine::Result<RequestFrame> decode_request_frame(std::span<const std::byte> header) {
  if (auto start = look_at_start(header, kRequestFrame); !start) return std::unexpected(start.error());
  const auto in = engine::layout_of<RequestFrameLayout>(header);
  const auto kind = static_cast<FrameKind>(in.kind);
  const bool has_number = kind == FrameKind::numbered || kind == FrameKind::ahead;
  const bool has_none = kind == FrameKind::probe || kind == FrameKind::measure;
  if ((in.number != 0 ? !has_number : !has_none) || in.reserved != decltype(in.reserved){} ||
      (kind == FrameKind::measure && in.acknowledged != 0)) {
    return engine::fail(Errc::corrupt, "A request's frame on the partner link makes no sense.");
  }
  return RequestFrame{kind, {in.number}, {in.acknowledged}};
}

std::array<std::byte, kAnswerFrame> encode_answer_frame(const AnswerFrame& frame) {
  return engine::bytes_of(
      AnswerFrameLayout{kFrameMagic, kFrameVersion, static_cast<std::uint8_t>(frame.kind), {}, frame.number.value});
}

engine::Result<AnswerFrame> decode_answer_frame(std::span<const std::byte> header) {
  if (auto start = look_at_start(header, kAnswerFrame); !start) return std::unexpected(start.error());
  const auto in = engine::layout_of<AnswerFrameLayout>(header);
  const auto kind = static_cast<AnswerKind>(in.kind);
  const bool known = kind >= AnswerKind::answer && kind <= AnswerKind::over;
  if (!known || in.reserved != decltype(in.reserved){} || (kind == AnswerKind::answer) != (in.number != 0)) {
    return engine::fail(Errc::corrupt, "An answer's frame on the partner link makes no sense.");
  }
  return AnswerFrame{kind, {in.number}};
}

std::array<std::byte, kJoinFrame> encode_join(const JoinFrame& frame) {
  return engine::bytes_of(JoinFrameLayout{kFrameMagic,
                                          kFrameVersion,
                                          static_cast<std::uint8_t>(FrameKind::join),
                                          {},
                                          frame.session,
                                          frame.process.bytes,
                                          frame.partner.bytes});
}

engine::Result<JoinFrame> decode_join(std::span<const std::byte> header) {
  if (auto start = look_at_start(header, kJoinFrame); !start) return std::unexpected(start.error());
  const auto in = engine::layout_of<JoinFrameLayout>(header);
  if (in.kind != static_cast<std::uint8_t>(FrameKind::join) || in.reserved != decltype(in.reserved){} ||
      in.session == 0) {
    return engine::fail(Errc::corrupt, "The frame by which a path joins a link session makes no sense.");
  }
  return JoinFrame{in.session, engine::Uuid{in.process}, engine::Uuid{in.partner}};
}

std::size_t encode_join_answer(const JoinAnswer& answer, std::array<std::byte, kMaxLinkAnswerHeader>& into) {
  assert(answer.addresses.size() <= kMaxPathAddresses);
  const JoinAnswerLayout fixed{kFrameMagic,
                               kFrameVersion,
                               static_cast<std::uint8_t>(answer.verdict),
                               static_cast<std::uint8_t>(answer.addresses.size()),
                               0,
                               answer.process.bytes};
  std::memcpy(into.data(), &fixed, sizeof fixed);
  std::size_t used = sizeof fixed;
  for (const PathAddress& a : answer.addresses) {
    const auto transports = static_cast<std::uint8_t>((a.tcp ? kTcp : 0) | (a.rdma ? kRdma : 0));
    const PathAddressLayout address{a.ip, a.port, transports, a.order, a.megabits};
    std::memcpy(into.data() + used, &address, sizeof address);
    used += sizeof address;
  }
  return used;
}

engine::Result<JoinAnswer> decode_join_answer(std::span<const std::byte> header) {
  if (auto start = look_at_start(header, kJoinAnswerFixed); !start) return std::unexpected(start.error());
  const auto in = engine::layout_of<JoinAnswerLayout>(header);
  JoinAnswer answer{static_cast<JoinVerdict>(in.verdict), engine::Uuid{in.process}, {}};
  const bool fits = header.size() == kJoinAnswerFixed + in.addresses * kPathAddress;
  if (answer.verdict > JoinVerdict::overtaken || in.addresses > kMaxPathAddresses || in.reserved != 0 || !fits) {
    return engine::fail(Errc::corrupt, "The answer to a path that joins a link session makes no sense.");
  }
  for (std::size_t i = 0; i < in.addresses; ++i) {
    const auto a = engine::layout_of<PathAddressLayout>(header.subspan(kJoinAnswerFixed + i * kPathAddress));
    if ((a.transports & ~(kTcp | kRdma)) != 0) {
      return engine::fail(Errc::corrupt, "The partner can be reached by a transport that is not known here.");
    }
    answer.addresses.push_back(
        {a.ip, a.port, (a.transports & kRdma) != 0, (a.transports & kTcp) != 0, a.order, a.megabits});
  }
  return answer;
}

JoinVerdict judge_join(const JoinFrame& join, const KnownSession& known, const engine::Uuid& ours) {
  if (!join.partner.is_nil()) {
    if (!known.current || join.partner != ours) return JoinVerdict::over;
    const bool same = join.session == known.current->session && join.process == known.current->process;
    return same ? JoinVerdict::welcome : JoinVerdict::over;
  }
  // What a process that is gone has left in a socket may be read after the next one's first words.
  if (std::ranges::find(known.replaced, join.process) != known.replaced.end()) return JoinVerdict::overtaken;
  if (join.process == known.last_process && join.session <= known.last_number) return JoinVerdict::overtaken;
  return JoinVerdict::welcome;
}

}  // namespace lockstep::replication
