#pragma once
// The partner link's bytes: what goes into the CDB of its two commands and into the data that answers them. format.md
// beside this file says it with a worked example. Big-endian. Over TCP the session's CRC32C digests cover every byte;
// over RDMA there are none, so that layout 2 carries a checksum of its own.
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "engine/base/result.hpp"
#include "engine/base/uuid.hpp"
#include "engine/metadata/identity.hpp"
#include "replication/core/link.hpp"

namespace lockstep::replication {

constexpr std::uint16_t kLinkVersion = 1;                                          ///< of the frames below,
constexpr std::uint16_t kSealedVersion = 2;                                        ///< and of those with a checksum
constexpr std::size_t kLinkCdbFixed = 16;                                          ///< bytes before the header
constexpr std::size_t kMaxLinkCdb = kLinkCdbFixed + kMaxLinkHeader;                ///< bytes
constexpr std::size_t kAnswerFixed = 8;                                            ///< bytes before the answer's header
constexpr std::size_t kSealedAnswerFixed = 12;                                     ///< with a checksum
constexpr std::size_t kAnswerPayloadOffset = kAnswerFixed + kMaxLinkAnswerHeader;  ///< where an answer's payload starts

constexpr std::uint32_t kLinkFirstBurst = 256 << 10;  ///< bytes of payload that come with a request unasked, at most

enum class LinkOpcode : std::uint8_t {
  hello = 0xC0,    ///< first on every session: who is there, in which version
  request = 0xC1,  ///< one Link::send()
};

struct LinkCommand {
  LinkOpcode opcode{};
  std::span<const std::byte> header;   ///< points into the CDB when decoded
  std::uint32_t payload_out = 0;       ///< bytes
  std::uint32_t payload_in = 0;        ///< bytes of room
  std::optional<std::uint32_t> crc{};  ///< seal_of() it: layout 2
};

using LinkCdb = std::array<std::byte, kMaxLinkCdb>;

/// Gives the CDB's length: in layout 2 always all of it, so that what follows has one place.
std::size_t encode_link_cdb(const LinkCommand& command, LinkCdb& into);
/// Errors: corrupt (a length that does not fit, a reserved byte), wrong_version.
[[nodiscard]] engine::Result<LinkCommand> decode_link_cdb(std::span<const std::byte> cdb);

/// CRC32C (RFC 7143 13.1) of a command's words, but itself, with its payload.
[[nodiscard]] std::uint32_t seal_of(const LinkCommand& command, std::span<const std::byte> payload);

struct AnswerStart {
  std::uint16_t header = 0;            ///< bytes
  std::uint32_t payload = 0;           ///< bytes
  std::optional<std::uint32_t> crc{};  ///< answer_seal_of() it: layout 2
  [[nodiscard]] std::size_t header_at() const { return crc ? kSealedAnswerFixed : kAnswerFixed; }
};
using AnswerPrefix = std::array<std::byte, kSealedAnswerFixed + kMaxLinkAnswerHeader>;

/// Gives how many bytes go out before the payload: all up to its place when there is one, else only what is used. In
/// layout 2 the payload has no place behind it.
std::size_t encode_answer(std::span<const std::byte> header, std::size_t payload, AnswerPrefix& into);
/// `request`: the request's seal, so that an answer is worth nothing for another one.
std::size_t encode_sealed_answer(std::span<const std::byte> header, std::span<const std::byte> payload,
                                 std::uint32_t request, AnswerPrefix& into);
[[nodiscard]] std::uint32_t answer_seal_of(std::span<const std::byte> header, std::span<const std::byte> payload,
                                           std::uint32_t request);
/// `bytes` is everything before the payload that came. Nothing when it makes no sense.
[[nodiscard]] std::optional<AnswerStart> decode_answer(std::span<const std::byte> bytes);

struct Hello {
  LinkVersions versions = kPartnerVersions;
  engine::Uuid pair;
  engine::Uuid process;
  engine::NodeSide side = engine::NodeSide::a;
};

enum class HelloVerdict : std::uint16_t {
  welcome = 0,
  wrong_version = 1,
  foreign_pair = 2,
  wrong_side = 3,
  busy = 4,  ///< another session of the partner's is in
};

struct HelloAnswer {
  std::uint16_t version = 0;  ///< agreed on; of a refusal, the highest that this node speaks
  HelloVerdict verdict = HelloVerdict::welcome;
  engine::Uuid pair;
  engine::NodeSide side = engine::NodeSide::a;
  std::string message;  ///< of a refusal, a whole sentence; at most kMaxHelloMessage bytes are sent
};

constexpr std::size_t kHelloSize = 48;         ///< bytes
constexpr std::size_t kHelloAnswerFixed = 32;  ///< bytes before the message
constexpr std::size_t kMaxHelloMessage = kMaxLinkAnswerHeader - kHelloAnswerFixed;

[[nodiscard]] std::array<std::byte, kHelloSize> encode_hello(const Hello& hello);
/// The versions are not judged: they stand in the same places in every version.
[[nodiscard]] std::optional<Hello> decode_hello(std::span<const std::byte> bytes);
/// Gives the length.
std::size_t encode_hello_answer(const HelloAnswer& answer, std::array<std::byte, kMaxLinkAnswerHeader>& into);
[[nodiscard]] std::optional<HelloAnswer> decode_hello_answer(std::span<const std::byte> bytes);

/// The highest version that both speak.
[[nodiscard]] std::optional<std::uint16_t> common_version(LinkVersions one, LinkVersions other);
/// What to answer to a greeting that came to `ours`.
[[nodiscard]] HelloAnswer judge_hello(const Hello& theirs, const Hello& ours);

/// The names under which a node is the pair's initiator and target: "iqn.2026-11.io.lockstep:link.<pair>.<a or b>". Of
/// another shard than the first, a dot and its number follow in the target's: whoever comes to the wrong one's port
/// finds no target there.
[[nodiscard]] std::string link_name(const engine::Uuid& pair, engine::NodeSide side);
[[nodiscard]] std::string link_target_name(const engine::Uuid& pair, engine::NodeSide side, unsigned shard);

}  // namespace lockstep::replication
