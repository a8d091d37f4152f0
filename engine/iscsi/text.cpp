#include "engine/iscsi/text.hpp"

#include <algorithm>

namespace lockstep::iscsi {
namespace {

// RFC 7143 6.1: a key is at most 63 of letters, digits, '.', '-', '+', '@', '_' and starts with a capital (or is a
// vendor's "X-..." and the like).
bool is_key(std::string_view key) {
  if (key.empty() || key.size() > kMaxKey) return false;
  return std::all_of(key.begin(), key.end(), [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
           std::string_view(".-+@_#").contains(c);
  });
}

}  // namespace

const char* to_string(TextError error) {
  switch (error) {
    case TextError::no_terminator:
      return "text does not end with a zero byte";
    case TextError::no_equals:
      return "text has a key without '='";
    case TextError::bad_key:
      return "text has a key that is empty, too long or not a key";
    case TextError::value_too_long:
      return "text has a value that is too long";
    case TextError::too_many_keys:
      return "text has too many keys";
    case TextError::too_long:
      return "text is too long";
  }
  return "unknown";
}

std::expected<std::vector<TextPair>, TextError> parse_text(std::string_view text) {
  if (text.size() > kMaxTextTotal) return std::unexpected(TextError::too_long);
  std::vector<TextPair> pairs;
  while (!text.empty()) {
    const std::size_t end = text.find('\0');
    if (end == std::string_view::npos) return std::unexpected(TextError::no_terminator);
    const std::string_view item = text.substr(0, end);
    text.remove_prefix(end + 1);
    if (item.empty()) continue;  // some initiators pad with zero bytes
    const std::size_t equals = item.find('=');
    if (equals == std::string_view::npos) return std::unexpected(TextError::no_equals);
    const TextPair pair{item.substr(0, equals), item.substr(equals + 1)};
    if (!is_key(pair.key)) return std::unexpected(TextError::bad_key);
    if (pair.value.size() > kMaxTextValue) return std::unexpected(TextError::value_too_long);
    if (pairs.size() == kMaxTextKeys) return std::unexpected(TextError::too_many_keys);
    pairs.push_back(pair);
  }
  return pairs;
}

const std::string_view* find_value(const std::vector<TextPair>& pairs, std::string_view key) {
  const auto at = std::find_if(pairs.begin(), pairs.end(), [&](const TextPair& pair) { return pair.key == key; });
  return at == pairs.end() ? nullptr : &at->value;
}

void add_pair(std::string& text, std::string_view key, std::string_view value) {
  text.append(key).push_back('=');
  text.append(value).push_back('\0');
}

bool TextAssembler::append(std::span<const std::byte> piece) {
  if (piece.size() > kMaxTextTotal - text_.size()) return text_.clear(), false;
  text_.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  return true;
}

TextSender::Piece TextSender::next(std::size_t limit) {
  const std::size_t n = std::min(limit, text_.size() - at_);
  Piece piece{text_.substr(at_, n), at_ + n < text_.size()};
  at_ += n;
  return piece;
}

}  // namespace lockstep::iscsi
