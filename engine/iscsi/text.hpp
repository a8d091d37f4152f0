#pragma once
// Text segments (RFC 7143 6.1): "key=value" strings, each ended by a zero byte, that may run over several PDUs with the
// C bit. Everything from outside is bounded: keys, values, their number and the whole.
#include <cstddef>
#include <expected>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::iscsi {

constexpr std::size_t kMaxKey = 63;                           ///< bytes, RFC 7143 6.1
constexpr std::size_t kMaxTextValue = 8192;                   ///< bytes; most keys' rules allow far less
constexpr std::size_t kMaxTextTotal = std::size_t{64} << 10;  ///< bytes of one exchange, over all its PDUs
constexpr std::size_t kMaxTextKeys = 128;                     ///< keys in one exchange

enum class TextError : std::uint8_t { no_terminator, no_equals, bad_key, value_too_long, too_many_keys, too_long };
[[nodiscard]] const char* to_string(TextError error);

struct TextPair {
  std::string_view key, value;
  bool operator==(const TextPair&) const = default;
};
/// The views point into `text`.
[[nodiscard]] std::expected<std::vector<TextPair>, TextError> parse_text(std::string_view text);
/// The first value of `key`, or null.
[[nodiscard]] const std::string_view* find_value(const std::vector<TextPair>& pairs, std::string_view key);

void add_pair(std::string& text, std::string_view key, std::string_view value);

/// Puts together what comes in pieces.
class TextAssembler {
 public:
  /// False when the whole would exceed kMaxTextTotal; then it is empty again.
  [[nodiscard]] bool append(std::span<const std::byte> piece);
  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] bool empty() const { return text_.empty(); }
  void clear() { text_.clear(); }
  std::string take() { return std::exchange(text_, {}); }

 private:
  std::string text_;
};

/// Hands out a long text in pieces of at most what the peer takes in one segment.
class TextSender {
 public:
  void start(std::string text) { text_ = std::move(text), at_ = 0; }
  struct Piece {
    std::string text;
    bool more = false;  ///< goes out with the C bit
  };
  [[nodiscard]] Piece next(std::size_t limit);
  [[nodiscard]] bool finished() const { return at_ >= text_.size(); }

 private:
  std::string text_;
  std::size_t at_ = 0;
};

}  // namespace lockstep::iscsi
