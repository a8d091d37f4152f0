#pragma once
// Base64 with padding (RFC 4648, 4), as etcd's JSON gateway carries keys and values.
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::replication {

[[nodiscard]] std::string base64_encode(std::span<const std::byte> bytes);
[[nodiscard]] std::string base64_encode(std::string_view text);
/// Nothing unless `text` is canonical: a whole number of quads, padded, no stray characters or bits.
[[nodiscard]] std::optional<std::vector<std::byte>> base64_decode(std::string_view text);

}  // namespace lockstep::replication
