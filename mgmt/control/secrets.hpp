#pragma once
// Random secrets, their digests and their text forms, and files that only this user may read.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "engine/base/result.hpp"
#include "engine/base/uuid.hpp"

namespace lockstep::mgmt {

/// From the system's generator; never fails (it aborts if the system has no randomness to give).
[[nodiscard]] std::string random_bytes(std::size_t count);
[[nodiscard]] engine::Uuid random_uuid();
/// `characters` letters and digits, for CHAP secrets that a person may have to type.
[[nodiscard]] std::string random_password(std::size_t characters);

[[nodiscard]] std::string sha256_hex(std::string_view bytes);
[[nodiscard]] std::string to_hex(std::string_view bytes);
/// RFC 4648 5, without padding.
[[nodiscard]] std::string base64url_encode(std::string_view bytes);
[[nodiscard]] std::optional<std::string> base64url_decode(std::string_view text);
/// Takes the same time wherever the difference is.
[[nodiscard]] bool equal_in_constant_time(std::string_view a, std::string_view b);

/// Written beside, flushed and renamed into place, mode 0600: there is always the old content or the new.
[[nodiscard]] engine::Result<void> write_private_file(const std::filesystem::path& path, std::string_view content);
/// Makes the folder (and its parents) with mode 0700 if it is not there.
[[nodiscard]] engine::Result<void> make_private_folder(const std::filesystem::path& path);
[[nodiscard]] engine::Result<std::string> read_file(const std::filesystem::path& path);

/// Milliseconds since 1970, for what people read.
[[nodiscard]] std::int64_t wall_clock_ms();
/// How long ago a moment of that clock is. One that is yet to come, by more than a time service corrects, shows that
/// the clock was set back: any time may have passed since, and the longest is given.
[[nodiscard]] std::int64_t age_ms(std::int64_t then_ms);
/// "2026-11-23 18:00:05 UTC"
[[nodiscard]] std::string utc_text(std::int64_t at_ms);

}  // namespace lockstep::mgmt
