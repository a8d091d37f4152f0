#pragma once
// What stands before the mirror's own header in requests and answers of a link session over several paths, and the
// frames by which a path joins one (replication/link/format.md, "Several paths").
#include <array>
#include <optional>
#include <span>
#include <vector>

#include "engine/base/result.hpp"
#include "engine/base/uuid.hpp"
#include "replication/core/link.hpp"
#include "replication/link/channel/numbers.hpp"
#include "replication/link/channel/path_manager.hpp"

namespace lockstep::replication {

constexpr std::size_t kNumberedWindow = 240;  ///< requests of a link session: as many as one path takes
constexpr std::size_t kAheadWindow = 8;       ///< heartbeats beside them

enum class FrameKind : std::uint8_t {
  numbered = 1,  ///< a Link::send()
  ahead = 2,     ///< a heartbeat: a stream of its own, by every path
  probe = 3,     ///< says that the sender lives, and what it acknowledges
  join = 4,      ///< first on every path
  measure = 5,   ///< of one path, with any payload, which nobody reads; waits as numbered ones do
};

struct RequestFrame {
  FrameKind kind{};  ///< not join
  RequestNumber number;
  AnswerNumber acknowledged;  ///< of the stream; of a probe: of the numbered one; of a measurement: none
  bool operator==(const RequestFrame&) const = default;
};
constexpr std::size_t kRequestFrame = 24;  ///< bytes before the mirror's header
constexpr std::size_t kMaxNumberedHeader = kMaxLinkHeader - kRequestFrame;

enum class AnswerKind : std::uint8_t {
  answer = 1,  ///< the mirror's header follows
  stale = 2,   ///< the sender had acknowledged the answer: nobody waits for this one
  alive = 3,   ///< of a probe and of a measurement
  over = 4,    ///< the link session is over
};

struct AnswerFrame {
  AnswerKind kind{};
  AnswerNumber number;
  bool operator==(const AnswerFrame&) const = default;
};
constexpr std::size_t kAnswerFrame = 16;  ///< bytes before the mirror's header

/// A link session is known by its sender's process and the number that this has given it.
struct JoinFrame {
  std::uint64_t session = 0;
  engine::Uuid process;  ///< the sender's
  engine::Uuid partner;  ///< the receiver's, with which the session was begun; nil: it begins with this
  bool operator==(const JoinFrame&) const = default;
};
constexpr std::size_t kJoinFrame = 48;  ///< bytes

enum class JoinVerdict : std::uint8_t {
  welcome = 0,
  over = 1,       ///< the session is not known, or no more
  overtaken = 2,  ///< a later session, or another process, is in
};

/// Where the partner can be reached, too.
struct PathAddress {
  std::array<std::uint8_t, 16> ip{};  ///< IPv6, or IPv4 as ::ffff:0:0/96
  std::uint16_t port = 0;
  bool rdma = false, tcp = true;
  std::uint8_t order = 0;  ///< the operator's: less is better
  std::uint32_t megabits = 0;
  bool operator==(const PathAddress&) const = default;
};
constexpr std::size_t kPathAddress = 24;  ///< bytes
constexpr std::size_t kMaxPathAddresses = 6;

struct JoinAnswer {
  JoinVerdict verdict = JoinVerdict::welcome;
  engine::Uuid process;                ///< the receiver's
  std::vector<PathAddress> addresses;  ///< of a welcome; at most kMaxPathAddresses
  bool operator==(const JoinAnswer&) const = default;
};
constexpr std::size_t kJoinAnswerFixed = 24;  ///< bytes before the addresses

[[nodiscard]] std::array<std::byte, kRequestFrame> encode_request_frame(const RequestFrame& frame);
[[nodiscard]] std::array<std::byte, kAnswerFrame> encode_answer_frame(const AnswerFrame& frame);
[[nodiscard]] std::array<std::byte, kJoinFrame> encode_join(const JoinFrame& frame);
/// Gives the length.
std::size_t encode_join_answer(const JoinAnswer& answer, std::array<std::byte, kMaxLinkAnswerHeader>& into);

/// What begins so is one of these frames; what does not is the mirror's own header, of a partner of an earlier version.
[[nodiscard]] bool is_channel_frame(std::span<const std::byte> header);
/// The mirror's own header, which a frame may stand before.
[[nodiscard]] std::span<const std::byte> header_behind_frame(std::span<const std::byte> header);
/// Looks at nothing but that: a channel frame that waits for nothing that numbered requests wait for.
[[nodiscard]] bool frame_goes_ahead(std::span<const std::byte> header);
[[nodiscard]] bool is_join(std::span<const std::byte> header);
// Errors: corrupt (a length, a reserved byte or a value that does not fit), wrong_version.
[[nodiscard]] engine::Result<RequestFrame> decode_request_frame(std::span<const std::byte> header);
[[nodiscard]] engine::Result<AnswerFrame> decode_answer_frame(std::span<const std::byte> header);
[[nodiscard]] engine::Result<JoinFrame> decode_join(std::span<const std::byte> header);
[[nodiscard]] engine::Result<JoinAnswer> decode_join_answer(std::span<const std::byte> header);

constexpr std::size_t kMaxReplaced = 16;
/// The receiver's session, if there is one, and what it remembers of those before.
struct KnownSession {
  std::optional<JoinFrame> current;
  std::uint64_t last_number = 0;  ///< of that process, also when it is over
  engine::Uuid last_process;
  std::vector<engine::Uuid> replaced;  ///< processes that were known before, the latest last
};
/// What becomes of a path that wants to join. Welcome with a nil `partner`: a new session takes the place of the
/// current.
[[nodiscard]] JoinVerdict judge_join(const JoinFrame& join, const KnownSession& known, const engine::Uuid& ours);

}  // namespace lockstep::replication
