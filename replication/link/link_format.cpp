#include "replication/link/link_format.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "engine/base/byte_order.hpp"
#include "engine/base/crc32c.hpp"

namespace lockstep::replication {
namespace {

using engine::Errc;
using engine::NodeSide;

constexpr std::uint32_t kHelloMagic = 0x4C534849;        // "LSHI"
constexpr std::uint32_t kHelloAnswerMagic = 0x4C534841;  // "LSHA"

struct CdbLayout {
  std::uint8_t opcode;
  std::uint8_t version;
  engine::Be16 header;
  engine::Be32 payload_out;
  engine::Be32 payload_in;
  engine::Be32 crc;  ///< reserved in layout 1
};
static_assert(sizeof(CdbLayout) == kLinkCdbFixed && engine::WireStruct<CdbLayout>);

struct AnswerLayout {
  engine::Be16 header;
  engine::Be16 version;
  engine::Be32 payload;
};
static_assert(sizeof(AnswerLayout) == kAnswerFixed && engine::WireStruct<AnswerLayout>);

struct SealedAnswerLayout {
  AnswerLayout start;
  engine::Be32 crc;
};
static_assert(sizeof(SealedAnswerLayout) == kSealedAnswerFixed && engine::WireStruct<SealedAnswerLayout>);

struct HelloLayout {
  engine::Be32 magic;
  engine::Be16 lowest;  ///< all that a partner looks at that knows no range: it must be the very version that it speaks
  engine::Be16 length;
  std::array<std::uint8_t, 16> pair;
  std::array<std::uint8_t, 16> process;
  std::uint8_t side;
  std::uint8_t reserved;
  engine::Be16 highest;  ///< 0: as the lowest
  std::array<std::uint8_t, 4> more_reserved;
};
static_assert(sizeof(HelloLayout) == kHelloSize && engine::WireStruct<HelloLayout>);

struct HelloAnswerLayout {
  engine::Be32 magic;
  engine::Be16 version;
  engine::Be16 verdict;
  std::array<std::uint8_t, 16> pair;
  std::uint8_t side;
  std::array<std::uint8_t, 7> reserved;
};
static_assert(sizeof(HelloAnswerLayout) == kHelloAnswerFixed && engine::WireStruct<HelloAnswerLayout>);

const char* name_of(NodeSide side) { return side == NodeSide::a ? "A" : "B"; }

CdbLayout layout_of(const LinkCommand& command) {
  assert(command.header.size() <= kMaxLinkHeader);
  return {static_cast<std::uint8_t>(command.opcode),
          static_cast<std::uint8_t>(command.crc ? kSealedVersion : kLinkVersion),
          static_cast<std::uint16_t>(command.header.size()),
          command.payload_out,
          command.payload_in,
          command.crc.value_or(0)};
}

/// Without the payload, wherever that is.
std::optional<AnswerStart> decode_sealed_answer(std::span<const std::byte> bytes) {
  if (bytes.size() < kSealedAnswerFixed) return std::nullopt;
  const auto fixed = engine::layout_of<SealedAnswerLayout>(bytes);
  if (fixed.start.header > kMaxLinkAnswerHeader || fixed.start.header > bytes.size() - kSealedAnswerFixed ||
      fixed.start.payload > kMaxLinkPayload) {
    return std::nullopt;
  }
  return AnswerStart{fixed.start.header, fixed.start.payload, fixed.crc};
}

std::string name_of(LinkVersions versions) {
  if (versions.lowest == versions.highest) return "version " + std::to_string(versions.lowest);
  return "versions " + std::to_string(versions.lowest) + " to " + std::to_string(versions.highest);
}

}  // namespace

std::size_t encode_link_cdb(const LinkCommand& command, LinkCdb& into) {
  const CdbLayout fixed = layout_of(command);
  std::memcpy(into.data(), &fixed, sizeof fixed);
  if (!command.header.empty()) std::memcpy(into.data() + sizeof fixed, command.header.data(), command.header.size());
  const std::size_t used = sizeof fixed + command.header.size();
  if (!command.crc) return used;
  std::memset(into.data() + used, 0, into.size() - used);
  return into.size();
}

std::uint32_t seal_of(const LinkCommand& command, std::span<const std::byte> payload) {
  CdbLayout fixed = layout_of(command);
  fixed.version = kSealedVersion;
  fixed.crc = 0;
  return engine::crc32c(payload, engine::crc32c(command.header, engine::crc32c(engine::bytes_of(fixed))));
}

engine::Result<LinkCommand> decode_link_cdb(std::span<const std::byte> cdb) {
  if (cdb.size() < kLinkCdbFixed) return engine::fail(Errc::corrupt, "A link command is shorter than 16 bytes.");
  const auto fixed = engine::layout_of<CdbLayout>(cdb);
  LinkCommand command;
  command.opcode = static_cast<LinkOpcode>(fixed.opcode);
  if (command.opcode != LinkOpcode::hello && command.opcode != LinkOpcode::request) {
    return engine::fail(Errc::corrupt, "A command on the partner link is none of the link's.");
  }
  // A greeting is read in every version: it is what the versions are compared by.
  const bool sealed = fixed.version == kSealedVersion;
  if (fixed.version != kLinkVersion && !sealed && command.opcode != LinkOpcode::hello) {
    return engine::fail(Errc::wrong_version,
                        "A link command is of version " + std::to_string(fixed.version) + ", known here are 1 and 2.");
  }
  if (sealed) command.crc = fixed.crc;
  if (fixed.header > kMaxLinkHeader || cdb.size() < kLinkCdbFixed + fixed.header) {
    return engine::fail(Errc::corrupt, "A link command's header is longer than its CDB.");
  }
  if (fixed.payload_out > kMaxLinkPayload || fixed.payload_in > kMaxLinkPayload) {
    return engine::fail(Errc::corrupt, "A link command's payload is longer than 1 MiB.");
  }
  command.header = cdb.subspan(kLinkCdbFixed, fixed.header);
  command.payload_out = fixed.payload_out;
  command.payload_in = fixed.payload_in;
  return command;
}

std::size_t encode_answer(std::span<const std::byte> header, std::size_t payload, AnswerPrefix& into) {
  assert(header.size() <= kMaxLinkAnswerHeader && payload <= kMaxLinkPayload);
  const AnswerLayout fixed{static_cast<std::uint16_t>(header.size()), kLinkVersion,
                           static_cast<std::uint32_t>(payload)};
  std::memcpy(into.data(), &fixed, sizeof fixed);
  if (!header.empty()) std::memcpy(into.data() + sizeof fixed, header.data(), header.size());
  const std::size_t used = sizeof fixed + header.size();
  if (payload == 0) return used;
  std::memset(into.data() + used, 0, kAnswerPayloadOffset - used);
  return kAnswerPayloadOffset;
}

std::uint32_t answer_seal_of(std::span<const std::byte> header, std::span<const std::byte> payload,
                             std::uint32_t request) {
  const AnswerLayout fixed{static_cast<std::uint16_t>(header.size()), kSealedVersion,
                           static_cast<std::uint32_t>(payload.size())};
  return engine::crc32c(payload, engine::crc32c(header, engine::crc32c(engine::bytes_of(fixed), request)));
}

std::size_t encode_sealed_answer(std::span<const std::byte> header, std::span<const std::byte> payload,
                                 std::uint32_t request, AnswerPrefix& into) {
  assert(header.size() <= kMaxLinkAnswerHeader && payload.size() <= kMaxLinkPayload);
  const SealedAnswerLayout fixed{
      {static_cast<std::uint16_t>(header.size()), kSealedVersion, static_cast<std::uint32_t>(payload.size())},
      answer_seal_of(header, payload, request)};
  std::memcpy(into.data(), &fixed, sizeof fixed);
  if (!header.empty()) std::memcpy(into.data() + sizeof fixed, header.data(), header.size());
  return sizeof fixed + header.size();
}

std::optional<AnswerStart> decode_answer(std::span<const std::byte> bytes) {
  if (bytes.size() < kAnswerFixed) return std::nullopt;
  const auto fixed = engine::layout_of<AnswerLayout>(bytes);
  if (fixed.version == kSealedVersion) return decode_sealed_answer(bytes);
  if (fixed.version != kLinkVersion || fixed.header > bytes.size() - kAnswerFixed) return std::nullopt;
  if (fixed.payload > kMaxLinkPayload || (fixed.payload > 0 && bytes.size() != kAnswerPayloadOffset))
    return std::nullopt;
  return AnswerStart{fixed.header, fixed.payload, {}};
}

std::array<std::byte, kHelloSize> encode_hello(const Hello& hello) {
  const HelloLayout layout{kHelloMagic,
                           hello.versions.lowest,
                           static_cast<std::uint16_t>(kHelloSize),
                           hello.pair.bytes,
                           hello.process.bytes,
                           static_cast<std::uint8_t>(hello.side),
                           {},
                           hello.versions.highest,
                           {}};
  return engine::bytes_of(layout);
}

std::optional<Hello> decode_hello(std::span<const std::byte> bytes) {
  if (bytes.size() < kHelloSize) return std::nullopt;
  const auto layout = engine::layout_of<HelloLayout>(bytes);
  if (layout.magic != kHelloMagic || layout.side > 1) return std::nullopt;
  LinkVersions versions{layout.lowest, layout.highest};
  if (versions.highest == 0) versions.highest = versions.lowest;
  if (versions.highest < versions.lowest) return std::nullopt;
  return Hello{versions, engine::Uuid{layout.pair}, engine::Uuid{layout.process}, static_cast<NodeSide>(layout.side)};
}

std::size_t encode_hello_answer(const HelloAnswer& answer, std::array<std::byte, kMaxLinkAnswerHeader>& into) {
  const HelloAnswerLayout layout{kHelloAnswerMagic,
                                 answer.version,
                                 static_cast<std::uint16_t>(answer.verdict),
                                 answer.pair.bytes,
                                 static_cast<std::uint8_t>(answer.side),
                                 {}};
  std::memcpy(into.data(), &layout, sizeof layout);
  const std::size_t text = std::min(answer.message.size(), kMaxHelloMessage);
  std::memcpy(into.data() + sizeof layout, answer.message.data(), text);
  return sizeof layout + text;
}

std::optional<HelloAnswer> decode_hello_answer(std::span<const std::byte> bytes) {
  if (bytes.size() < kHelloAnswerFixed) return std::nullopt;
  const auto layout = engine::layout_of<HelloAnswerLayout>(bytes);
  if (layout.magic != kHelloAnswerMagic || layout.side > 1) return std::nullopt;
  const auto text = bytes.subspan(kHelloAnswerFixed);
  return HelloAnswer{layout.version, static_cast<HelloVerdict>(layout.verdict.value()), engine::Uuid{layout.pair},
                     static_cast<NodeSide>(layout.side),
                     std::string(reinterpret_cast<const char*>(text.data()), text.size())};
}

std::optional<std::uint16_t> common_version(LinkVersions one, LinkVersions other) {
  const std::uint16_t highest = std::min(one.highest, other.highest);
  if (!one.contains(highest) || !other.contains(highest)) return std::nullopt;
  return highest;
}

HelloAnswer judge_hello(const Hello& theirs, const Hello& ours) {
  const auto agreed = common_version(theirs.versions, ours.versions);
  HelloAnswer answer{agreed.value_or(ours.versions.highest), HelloVerdict::welcome, ours.pair, ours.side, {}};
  if (!agreed) {
    answer.verdict = HelloVerdict::wrong_version;
    answer.message = "Node " + std::string(name_of(ours.side)) + " speaks " + name_of(ours.versions) +
                     " of the partner link, its partner " + name_of(theirs.versions) + ": upgrade node " +
                     name_of(theirs.versions.highest < ours.versions.lowest ? theirs.side : ours.side) + ".";
  } else if (theirs.pair != ours.pair) {
    answer.verdict = HelloVerdict::foreign_pair;
    answer.message = "Node " + std::string(name_of(ours.side)) + " belongs to pair " + ours.pair.to_string() +
                     ", not to " + theirs.pair.to_string() + ".";
  } else if (theirs.side == ours.side) {
    answer.verdict = HelloVerdict::wrong_side;
    answer.message = "Both nodes are configured as side " + std::string(name_of(ours.side)) + " of the pair.";
  }
  return answer;
}

std::string link_name(const engine::Uuid& pair, NodeSide side) {
  return "iqn.2026-11.io.lockstep:link." + pair.to_string() + (side == NodeSide::a ? ".a" : ".b");
}

std::string link_target_name(const engine::Uuid& pair, NodeSide side, unsigned shard) {
  return link_name(pair, side) + (shard == 0 ? "" : "." + std::to_string(shard));
}

}  // namespace lockstep::replication
