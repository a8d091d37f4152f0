#pragma once
// CHAP as RFC 7143 12.1.3 uses it, both roles of it: whoever proves itself computes a response, whoever checks draws
// the challenge. A login that is authenticated both ways has one of each on either side.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/seams/random.hpp"

namespace lockstep::iscsi {

enum class ChapAlgorithm : std::uint8_t { md5 = 5, sha1 = 6, sha256 = 7, sha3_256 = 8 };  // IANA, PPP authentication

constexpr std::size_t kMaxChapBinary = 1024;        ///< bytes of CHAP_C and CHAP_R, RFC 7143 12.1.3
constexpr std::size_t kMaxChapName = 255;           ///< bytes
constexpr std::string_view kChapOffer = "8,7,6,5";  ///< CHAP_A of an initiator of ours, best first

/// A secret proves `user`; the mutual pair, if any, is what the target answers an initiator's challenge with.
struct ChapCredentials {
  std::string user, secret;
  std::string mutual_user, mutual_secret;
};

[[nodiscard]] std::optional<ChapAlgorithm> parse_chap_algorithm(std::string_view number);
/// The first of an offered list ("7,5") that we have.
[[nodiscard]] std::optional<ChapAlgorithm> choose_chap_algorithm(std::string_view offered);
[[nodiscard]] std::size_t digest_size(ChapAlgorithm algorithm);  ///< bytes

/// H(identifier, secret, challenge); empty when the crypto library lacks the algorithm.
[[nodiscard]] std::vector<std::byte> chap_response(ChapAlgorithm algorithm, std::uint8_t identifier,
                                                   std::string_view secret, std::span<const std::byte> challenge);
/// In time that depends on the lengths only.
[[nodiscard]] bool equal_secretly(std::span<const std::byte> a, std::span<const std::byte> b);

/// "0x..." as RFC 7143 6.1 writes binary values.
[[nodiscard]] std::string encode_hex(std::span<const std::byte> bytes);
/// "0x" hexadecimal or "0b" base64. Nothing for anything else, for stray characters, wrong padding, an empty value or
/// more than kMaxChapBinary bytes.
[[nodiscard]] std::optional<std::vector<std::byte>> decode_binary(std::string_view text);

/// Where the two ends of a login prove themselves with one secret in both directions of calling, a challenge begins
/// with the name of who asks: an answer is then good for that one only, and whoever is asked under its own name is
/// asked by an intruder that sends its challenge back, over whatever connection. False without a name.
[[nodiscard]] bool is_asked_by(std::span<const std::byte> challenge, std::string_view asker);

/// The side that checks: draws a challenge, judges the response to it.
class ChapVerifier {
 public:
  /// `asker` stands before the random bytes; empty: nothing does.
  ChapVerifier(ChapAlgorithm algorithm, engine::Random& random, std::string_view asker = {});
  [[nodiscard]] std::string identifier_text() const { return std::to_string(identifier_); }
  [[nodiscard]] std::string challenge_text() const { return encode_hex(challenge_); }
  [[nodiscard]] ChapAlgorithm algorithm() const { return algorithm_; }
  [[nodiscard]] bool verify(std::string_view secret, std::string_view response_text) const;
  /// A peer that sends our own challenge back wants us to compute its answer.
  [[nodiscard]] bool is_own_challenge(std::span<const std::byte> challenge) const;

 private:
  ChapAlgorithm algorithm_;
  std::uint8_t identifier_;
  std::vector<std::byte> challenge_;
};

}  // namespace lockstep::iscsi
