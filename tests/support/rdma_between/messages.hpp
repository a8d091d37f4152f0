#pragma once
// What two processes say to each other, one packet a message: a header, then its bytes. Both are on one machine, so
// numbers are in its byte order. All memory is read and written by the process that it belongs to; a peer asks.
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace lockstep::test::between {

enum class Kind : std::uint8_t {
  call = 1,    ///< the caller's and the called address, each ended by a zero, then private data; `length`: reads served
  accept = 2,  ///< private data; `length`: reads served
  refuse = 3,
  ready = 4,  ///< the caller has heard that its call was accepted
  send = 5,   ///< a piece of a message, at `offset` of `length`; with the last one `key` is to be invalidated, if it is
              ///< not 0
  write = 6,  ///< a piece, for `address` + `offset` of the window `key`
  read = 7,   ///< asks for `length` bytes from `address` of the window `key`
  data = 8,   ///< a piece of what was asked for
  done = 9,   ///< all sends and writes up to this one are carried out
  failed_send = 10,  ///< a send or write: `status` says why
  failed_read = 11,
};

enum class Status : std::uint8_t { no_receive = 1, remote_access = 2, remote_invalid = 3 };

struct Header {
  static constexpr std::uint32_t kMagic = 0x4c534642;

  std::uint32_t magic = kMagic;
  Kind kind{};
  Status status{};
  std::uint16_t reserved = 0;
  std::uint32_t sequence = 0;  ///< of sends and writes together, of reads by themselves: 1, 2, 3, …
  std::uint32_t key = 0;
  std::uint64_t address = 0;
  std::uint32_t length = 0;
  std::uint32_t offset = 0;
};
static_assert(sizeof(Header) == 32 && std::is_trivially_copyable_v<Header>);

constexpr std::size_t kPiece = std::size_t{32} << 10;  ///< bytes behind a header, at most
constexpr std::uint32_t kReadsServed = 16;             ///< of a peer's, under way on one connection
constexpr std::uint32_t kMaxMessage = 1u << 30;
constexpr std::size_t kCallData = 56, kAnswerData = 196;  ///< private data, as librdmacm pads it

}  // namespace lockstep::test::between
