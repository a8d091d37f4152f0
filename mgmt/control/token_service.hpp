#pragma once
// Who may use the API: tokens are random 256-bit secrets, known to the database only by their SHA-256.
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mgmt/control/node_core.hpp"

namespace lockstep::mgmt {

struct NewToken {
  Token token;
  std::string secret;  ///< shown once
};

struct TokenUse {
  Token token;
  std::int64_t last_used_ms = 0;  ///< on this node; 0: never
};

constexpr std::size_t kMaxTokens = 1000;

class TokenService {
 public:
  explicit TokenService(NodeCore& core) : core_(core) {}
  /// At the very first start: makes an admin token and writes it to `file` (mode 0600). Later, where that file is gone:
  /// makes the node's own token anew, an admin's on this node alone, so that whoever may remove the file is never shut
  /// out. An empty file is left alone.
  [[nodiscard]] engine::Result<void> ensure_token_file(const std::filesystem::path& file);

  /// The token whose secret this is, if it is valid now.
  [[nodiscard]] std::optional<Token> authenticate(std::string_view secret);
  /// Whether the token, as it was when it was shown, may still do what it might do then: it was not revoked, has not
  /// expired, and its role is the same.
  [[nodiscard]] bool still_holds(const Token& shown) const;
  [[nodiscard]] std::vector<TokenUse> list() const;
  [[nodiscard]] Outcome<NewToken> create(const std::string& name, Role role, std::int64_t expires_in_seconds);
  [[nodiscard]] Outcome<void> revoke(const Uuid& id);

 private:
  [[nodiscard]] engine::Result<void> make_first_token(const std::filesystem::path& file);
  [[nodiscard]] engine::Result<void> make_own_token(const std::filesystem::path& file);
  [[nodiscard]] std::optional<Token> own_token() const;
  void note_use(const Token& token, std::int64_t now_ms);
  NodeCore& core_;
  std::optional<Token> own_;  ///< this node's, in no configuration; set before any thread asks
  std::mutex mutex_;
  std::map<Uuid, std::int64_t> noted_;  ///< minute of the last use that is in the database
};

}  // namespace lockstep::mgmt
