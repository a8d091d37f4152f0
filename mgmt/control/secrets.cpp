#include "mgmt/control/secrets.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iterator>
#include <limits>

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <sys/stat.h>
#include <unistd.h>

namespace lockstep::mgmt {
namespace {

constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

engine::Error system_error(std::string what) {
  const int error = errno;
  return {std::error_code(error, std::generic_category()), fmt::format("{}: {}.", what, std::strerror(error))};
}

}  // namespace

std::string random_bytes(std::size_t count) {
  std::string bytes(count, '\0');
  if (RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()), static_cast<int>(count)) != 1) {
    std::fputs("lockstep: the system has no random bytes to give.\n", stderr);
    std::abort();
  }
  return bytes;
}

engine::Uuid random_uuid() {
  engine::Uuid id;
  const std::string bytes = random_bytes(id.bytes.size());
  std::memcpy(id.bytes.data(), bytes.data(), id.bytes.size());
  id.bytes[6] = static_cast<std::uint8_t>((id.bytes[6] & 0x0f) | 0x40);  // version 4
  id.bytes[8] = static_cast<std::uint8_t>((id.bytes[8] & 0x3f) | 0x80);  // variant 10
  return id;
}

std::string random_password(std::size_t characters) {
  constexpr std::string_view letters = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz23456789";
  std::string password;
  while (password.size() < characters) {
    for (const char c : random_bytes(characters)) {
      const auto byte = static_cast<unsigned char>(c);
      // Bytes beyond the last whole multiple would make some letters likelier than others.
      if (byte < 256 - 256 % letters.size() && password.size() < characters) password += letters[byte % letters.size()];
    }
  }
  return password;
}

std::string to_hex(std::string_view bytes) {
  std::string hex;
  hex.reserve(bytes.size() * 2);
  for (const char c : bytes) {
    hex += "0123456789abcdef"[static_cast<unsigned char>(c) >> 4];
    hex += "0123456789abcdef"[static_cast<unsigned char>(c) & 15];
  }
  return hex;
}

std::string sha256_hex(std::string_view bytes) {
  std::string digest(32, '\0');
  unsigned length = 0;
  EVP_Digest(bytes.data(), bytes.size(), reinterpret_cast<unsigned char*>(digest.data()), &length, EVP_sha256(),
             nullptr);
  return to_hex(digest);
}

std::string base64url_encode(std::string_view bytes) {
  std::string text;
  unsigned pending = 0;
  int bits = 0;
  for (const char c : bytes) {
    pending = (pending << 8) | static_cast<unsigned char>(c);
    for (bits += 8; bits >= 6; bits -= 6) text += kAlphabet[(pending >> (bits - 6)) & 63];
  }
  if (bits > 0) text += kAlphabet[(pending << (6 - bits)) & 63];
  return text;
}

std::optional<std::string> base64url_decode(std::string_view text) {
  std::string bytes;
  unsigned pending = 0;
  int bits = 0;
  for (const char c : text) {
    const auto value = kAlphabet.find(c);
    if (value == std::string_view::npos) return std::nullopt;
    pending = (pending << 6) | static_cast<unsigned>(value);
    bits += 6;
    if (bits >= 8) {
      bits -= 8;
      bytes += static_cast<char>((pending >> bits) & 255);
    }
  }
  const bool leftover = bits >= 6 || (pending & ((1u << bits) - 1)) != 0;
  if (leftover) return std::nullopt;
  return bytes;
}

bool equal_in_constant_time(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

engine::Result<void> write_private_file(const std::filesystem::path& path, std::string_view content) {
  const std::string beside = path.string() + ".new";
  const int file = ::open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) return std::unexpected(system_error(fmt::format("Cannot write {}", beside)));
  std::size_t written = 0;
  while (written < content.size()) {
    const ssize_t n = ::write(file, content.data() + written, content.size() - written);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    written += static_cast<std::size_t>(n);
  }
  const bool good = written == content.size() && ::fchmod(file, 0600) == 0 && ::fsync(file) == 0;
  if (!good) {
    auto error = system_error(fmt::format("Cannot write {}", beside));
    ::close(file);
    ::unlink(beside.c_str());
    return std::unexpected(std::move(error));
  }
  ::close(file);
  if (::rename(beside.c_str(), path.c_str()) != 0)
    return std::unexpected(system_error(fmt::format("Cannot put {} into place", path.string())));
  const int folder = ::open(path.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder >= 0) {
    ::fsync(folder);
    ::close(folder);
  }
  return {};
}

engine::Result<void> make_private_folder(const std::filesystem::path& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return {};
  std::filesystem::create_directories(path, error);
  if (error)
    return std::unexpected(
        engine::Error{error, fmt::format("Cannot make the folder {}: {}.", path.string(), error.message())});
  std::filesystem::permissions(path, std::filesystem::perms::owner_all, error);
  return {};
}

engine::Result<std::string> read_file(const std::filesystem::path& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::unexpected(system_error(fmt::format("Cannot read {}", path.string())));
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::int64_t wall_clock_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::int64_t age_ms(std::int64_t then_ms) {
  constexpr std::int64_t kCorrected = 5'000;  // by a time service, in use
  const std::int64_t age = wall_clock_ms() - then_ms;
  return age < -kCorrected ? std::numeric_limits<std::int64_t>::max() : std::max<std::int64_t>(age, 0);
}

std::string utc_text(std::int64_t at_ms) {
  const std::time_t seconds = at_ms / 1000;
  std::tm at{};
  ::gmtime_r(&seconds, &at);
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}:{:02} UTC", at.tm_year + 1900, at.tm_mon + 1, at.tm_mday,
                     at.tm_hour, at.tm_min, at.tm_sec);
}

}  // namespace lockstep::mgmt
