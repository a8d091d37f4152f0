#pragma once
// Additional header segments (RFC 7143 11.2.2): the tail of a long CDB, and a bidirectional command's read length.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "engine/iscsi/pdu.hpp"

namespace lockstep::iscsi {

constexpr std::size_t kMaxExtendedCdb = 244;  ///< bytes beyond the 16 in the basic header: 260 together

struct AdditionalHeaders {
  std::span<const std::byte> extended_cdb;  ///< points into what was parsed
  std::optional<std::uint32_t> bidi_read_length;
};

/// Nothing when a segment runs beyond `bytes`, is repeated, or has an impossible length. Unknown types are passed over.
[[nodiscard]] std::optional<AdditionalHeaders> parse_ahs(std::span<const std::byte> bytes);

/// Writes the segments that are there into `into` (kMaxAhs suffices), padded; gives their length in bytes.
std::size_t write_ahs(const AdditionalHeaders& ahs, std::span<std::byte> into);

}  // namespace lockstep::iscsi
