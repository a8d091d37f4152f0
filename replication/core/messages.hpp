#pragma once
// What the two nodes say to one another: one header of fixed layout for every request and answer, big-endian, with
// magic, version and CRC32C. Payloads (data, epoch records, map words, region numbers) travel beside it; the link's own
// digest covers them. decode() is the only reader: bytes that it lets through are within their ranges.
#include <array>
#include <cstdint>
#include <expected>
#include <span>

#include "engine/base/extent.hpp"
#include "engine/base/result.hpp"
#include "engine/base/uuid.hpp"
#include "engine/disk.hpp"
#include "replication/core/link.hpp"

namespace lockstep::replication {

enum class MessageType : std::uint8_t {
  /// First on every session: process, pair, side; stamp in the answer. Both ways: in `number` the sender's lease
  /// setting in nanoseconds (0: it tells none), in `tag` its margin for drift in percent; in `watermark` the sender's
  /// count, in `lowest_tag` the highest that it has heard of the process `volume` (memory_watch.hpp; 0: it tells none).
  /// Answered stale: the sender was set back with its memory
  hello = 1,
  /// Payload: volume and epoch ids, 32 bytes each; answer: a byte each, 1 = lease granted. In `number` and `tag` the
  /// sender's lease, as in hello: it may have another one by now. Counts as in hello; in `nexus` the sender's clock, so
  /// that no two are the same bytes
  heartbeat = 2,
  state = 3,  ///< payload: a ReplicaState, both ways; generations in `tag` (its own) and `sequence` (the
  ///< receiver's, as known); in `nexus` the witness that it knows (witness_agreement.hpp). Answered: nothing of an old
  ///< session's is started any more
  propose = 4,  ///< payload: the next epoch record, already agreeable; `epoch` is the proposer's current one
  resume = 5,   ///< both go on in the epoch that they share
  /// An ordered operation: sequence, opcode, extent, data; `tag` when it came by FORWARD. With kFlagByReference,
  /// instead of the data, `forwarder`: the process that sent the forward, and keeps its data. Answered refused: they
  /// are not to be had any more, the order is to be sent again with its data, and keeps its place until then
  replicate = 6,
  /// An operation for the sequencer: process, tag, lowest open tag, stamp; in `sequence` the version of the unit's
  /// state that it was checked under, in `number` its age when it was sent (nanoseconds since its command was
  /// received), in `watermark` another tag whose answer came (0: none). Answered with aborted: not carried out, that is
  /// not the state in force. With kFlagByReference the sender keeps the data: the order may come by reference, and an
  /// answer with kFlagHalfDone before the order is carried out: the receiver's store has it, in the epoch `epoch`
  forward = 7,
  watermark = 8,  ///< nothing but the watermark
  flush = 9,      ///< flush the data store
  clear = 10,     ///< payload: region numbers, 8 bytes each: clear these bits
  map = 11,       ///< answer's payload: `length` words of the dirty map from word `offset`
  copy = 12,      ///< resync: data to be stored as it is
  fetch = 13,     ///< answer's payload: the extent as the partner's store has it
  equal = 14,     ///< resync is done: the other member may read its own store
  /// The logical unit's state, from the node that orders: `sequence` its version, payload: the state (`extent.offset`
  /// bytes), then the events (`extent.length` bytes). Answered when it is durable and in force. With kFlagAgree and a
  /// newer one at the receiver: miscompare, payload: that one. With kFlagPowerOn the receiver lets nothing in before
  /// the next one. With kFlagLate, or kFlagAgree, the events may not be all that the receiver has missed
  lu_state = 15,
  /// Have the space of `extent` set aside: no_space when there is none. The answer's extent is what has its space, at
  /// least what was asked for. Who knows nothing of it answers corrupt, and finds out when it writes
  reserve = 16,
  /// The forward with this `tag` is given up: what of it was not started is not started any more. Answered
  /// unknown_outcome while it is under way. A partner that does not know this answers corrupt: the forward goes on
  cancel = 17,
  /// From the node that orders: `tag` is a new generation of its replica, durable there. Answered when it is known
  /// durably, with a new one of the receiver's in `tag`
  generation = 18,
};
constexpr std::uint8_t kLastMessageType = 18;

/// One header, request or answer. Fields that a type does not use are zero.
struct Message {
  MessageType type = MessageType::hello;
  bool answer = false;
  engine::DiskOpcode opcode = engine::DiskOpcode::read;
  std::uint16_t flags = 0;                 ///< kFlag…
  engine::Errc status = engine::Errc::ok;  ///< answers
  std::uint32_t payload = 0;               ///< bytes that travel beside this header
  engine::Uuid volume;                     ///< of hello and heartbeat a process
  engine::Uuid epoch;                      ///< id of the sender's epoch
  std::uint64_t number = 0;                ///< its number
  engine::Uuid process;                    ///< the sender's incarnation; hello also names the pair in `epoch`
  std::uint64_t sequence = 0;              ///< hello: NodeSettings::boot
  std::uint64_t watermark = 0;             ///< every sequence up to here is finished on both
  std::uint64_t tag = 0;
  std::uint64_t lowest_tag = 0;  ///< every tag below is acknowledged
  engine::Extent extent;         ///< bytes of the volume; words for map
  std::uint64_t stamp = 0;       ///< the receiver's clock as the sender last saw it, or the answerer's own; of an
                                 ///< order the sender's
  std::uint64_t nexus = 0;
  engine::Uuid forwarder;  ///< replicate, by reference: whose tag it is
};

constexpr std::uint16_t kFlagFua = 1;  ///< durable before it is answered, whatever the volume's write cache
constexpr std::uint16_t kFlagMayUnmap = 2;
constexpr std::uint16_t kFlagSideB = 4;   ///< hello: the sender is side B
constexpr std::uint16_t kFlagEqual = 8;   ///< propose: the two stores are equal, reads need not be forwarded
constexpr std::uint16_t kFlagAgree = 16;  ///< lu_state: both members begin with the newer of their two
/// lu_state, beside kFlagAgree: both were without power, and the next state is without what that ends. Who does not
/// know it lets in at once, and refuses for a moment what the next state allows.
constexpr std::uint16_t kFlagPowerOn = 1;
/// lu_state, without kFlagAgree: not with the change that made it, whose events the receiver has not heard if it did
/// not have it. Who does not know it goes on with what came before that change.
constexpr std::uint16_t kFlagLate = 2;
// From version kOrdersByReference on:
constexpr std::uint16_t kFlagByReference = 32;  ///< forward: the order may be so; replicate: it is
constexpr std::uint16_t kFlagHalfDone = 64;     ///< a forward's answer: ordered, and durable at the sequencer
constexpr std::uint16_t kKnownFlags = 127;

constexpr std::size_t kMessageBytes = 160;
static_assert(kMessageBytes <= kMaxLinkHeader && kMessageBytes <= kMaxLinkAnswerHeader);
/// Operations with data are cut into pieces of this many bytes.
constexpr std::uint64_t kMaxPiece = kMaxLinkPayload;

/// A status that may travel: what is not of engine::Errc is io_error.
[[nodiscard]] engine::Errc to_errc(std::error_code code);

using MessageBytes = std::array<std::byte, kMessageBytes>;
[[nodiscard]] MessageBytes encode(const Message& message);
/// corrupt (size, checksum, magic, values out of range), wrong_version. Never reads `extent` against a volume: the
/// receiver does that.
[[nodiscard]] engine::IoResult<Message> decode(std::span<const std::byte> bytes);
/// Looks at nothing but what kind of request it is: for those who carry it.
/// A request whose payload, either way, is of a volume's blocks.
[[nodiscard]] bool moves_blocks(std::span<const std::byte> header);
[[nodiscard]] bool is_heartbeat(std::span<const std::byte> header);

}  // namespace lockstep::replication
