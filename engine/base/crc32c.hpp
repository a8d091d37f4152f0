#pragma once
// CRC32C (Castagnoli), the checksum of iSCSI digests (RFC 7143 13.1, vectors in its appendix A.4) and of everything
// this project keeps on disk. The value is the finished one: initial remainder all ones, complemented at the end.
#include <cstddef>
#include <cstdint>
#include <span>

namespace lockstep::engine {

/// Continues `previous`: crc32c(b, crc32c(a)) is the checksum of a followed by b. On the wire of RFC 7143 the value
/// goes out least significant byte first (E3069283h of "123456789" as 83 92 06 E3); on our disks it is a Be32.
[[nodiscard]] std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t previous = 0);

}  // namespace lockstep::engine
