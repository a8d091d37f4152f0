#pragma once
// Who may use the API: tokens are random 256-bit secrets, known to the database only by their SHA-256. Those of the
// pair are in its configuration. A node's own are in no configuration, and good on that node alone: whoever is root
// there can always have one, whatever became of the others and of the partner. None of either kind ends but by its own
// time, or because somebody revoked it.
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
  bool here_only = false;         ///< one of this node's own
};

constexpr std::size_t kMaxTokens = 1000;
constexpr std::size_t kMaxOwnTokens = 16;  ///< of a node; one more, and the oldest goes

class TokenService {
 public:
  explicit TokenService(NodeCore& core) : core_(core) {}
  /// At the very first start: makes an admin token and writes it to `file` (mode 0600). Later as see_to_token_file().
  [[nodiscard]] engine::Result<void> ensure_token_file(const std::filesystem::path& file);
  /// Where that file is gone: makes another token of the node's own, an admin's, and writes it there, so that whoever
  /// may remove the file is never shut out. An empty file is left alone. To be called every now and then.
  void see_to_token_file();
  /// Of this node's own tokens those that the pair has, too, as that of a node which joined with it, are the pair's
  /// alone from then on: so their revocation is both nodes'. To be called every now and then.
  void leave_to_the_pair();

  /// The token whose secret this is, if it is valid now.
  [[nodiscard]] std::optional<Token> authenticate(std::string_view secret);
  /// Whether the token, as it was when it was shown, may still do what it might do then: it was not revoked, has not
  /// expired, and its role is the same.
  [[nodiscard]] bool still_holds(const Token& shown) const;
  [[nodiscard]] std::vector<TokenUse> list() const;
  [[nodiscard]] Outcome<NewToken> create(const std::string& name, Role role, std::int64_t expires_in_seconds);
  /// Also one of this node's own.
  [[nodiscard]] Outcome<void> revoke(const Uuid& id);
  [[nodiscard]] bool is_own(const Uuid& id) const;

 private:
  [[nodiscard]] engine::Result<void> make_first_token(const std::filesystem::path& file);
  [[nodiscard]] engine::Result<void> make_own_token(const std::filesystem::path& file);
  [[nodiscard]] std::vector<Token> kept_own_tokens() const;
  void keep_own_tokens(const std::vector<Token>& tokens);
  [[nodiscard]] std::vector<Token> own() const;
  [[nodiscard]] Outcome<void> revoke_from_pair(const Uuid& id);
  [[nodiscard]] bool revoke_own(const Uuid& id);
  [[nodiscard]] bool erase_own(const Uuid& id);  ///< change_mutex_ is held
  void note_use(const Token& token, std::int64_t now_ms);
  NodeCore& core_;
  std::filesystem::path file_;
  bool told_ = false;        ///< that no token could be written there
  std::mutex change_mutex_;  ///< held while own_ is read, changed and kept
  mutable std::mutex mutex_;
  std::vector<Token> own_;              ///< this node's, the oldest first
  std::map<Uuid, std::int64_t> noted_;  ///< minute of the last use that is in the database
};

}  // namespace lockstep::mgmt
