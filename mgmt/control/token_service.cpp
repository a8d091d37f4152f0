#include "mgmt/control/token_service.hpp"

#include <algorithm>

#include <SQLiteCpp/SQLiteCpp.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "mgmt/control/secrets.hpp"
#include "mgmt/log/log.hpp"

namespace lockstep::mgmt {
namespace {

constexpr std::int64_t kMinute = 60'000;
constexpr const char* kOwnToken = "node_token";  ///< its name, and that of the setting that keeps it

bool valid(const Token& token, std::int64_t now_ms) { return token.expires_ms == 0 || now_ms < token.expires_ms; }

NewToken make(const std::string& name, Role role, std::int64_t expires_in_seconds) {
  const std::string secret = "lst_" + base64url_encode(random_bytes(32));
  const std::int64_t now = wall_clock_ms();
  return {{random_uuid(), name, sha256_hex(secret), role, now,
           expires_in_seconds == 0 ? 0 : now + expires_in_seconds * 1000},
          secret};
}

}  // namespace

engine::Result<void> TokenService::ensure_token_file(const std::filesystem::path& file) {
  file_ = file;
  auto kept = kept_own_tokens();
  {
    const std::lock_guard lock(mutex_);
    own_ = std::move(kept);
  }
  leave_to_the_pair();
  if (core_.configuration()->tokens.empty()) return make_first_token(file);
  see_to_token_file();
  return {};
}

/// A disk without space keeps nobody from starting.
void TokenService::see_to_token_file() {
  std::error_code ignored;
  if (file_.empty()) return;
  if (std::filesystem::symlink_status(file_, ignored).type() != std::filesystem::file_type::not_found) return;
  const auto made = make_own_token(file_);
  if (!made && !told_) log_error(made.error().message);
  told_ = !made;
}

/// A disk without space has it tried again.
void TokenService::leave_to_the_pair() {
  const std::lock_guard one_at_a_time(change_mutex_);
  const auto configuration = core_.configuration();
  if (!configuration->pair) return;
  auto tokens = own();
  const auto is_the_pairs = [&](const Token& mine) {
    return std::ranges::any_of(configuration->tokens,
                               [&](const Token& t) { return t.id == mine.id && t.digest == mine.digest; });
  };
  if (std::erase_if(tokens, is_the_pairs) == 0) return;
  try {
    keep_own_tokens(tokens);
  } catch (const std::exception& e) {
    log_error(fmt::format("A token of this node's own can't be left to the pair yet: {}.", e.what()));
  }
}

engine::Result<void> TokenService::make_first_token(const std::filesystem::path& file) {
  const NewToken first = make("admin", Role::admin, 0);
  // The file first: a token that nobody was told of would lock everyone out.
  if (auto written = write_private_file(file, first.secret + "\n"); !written) return written;
  const auto made = core_.change("First token", [&](Configuration& c) -> Outcome<void> {
    c.tokens.push_back(first.token);
    return {};
  });
  if (!made) return engine::fail(engine::Errc::refused, made.error().detail);
  log_info(fmt::format("The first token is in {}.", file.string()));
  return {};
}

/// No configuration has to be changed for it, so that the partner need not be there. Kept before it is written: a
/// secret in the file that is good for nothing would shut out whoever relies on it.
engine::Result<void> TokenService::make_own_token(const std::filesystem::path& file) {
  const std::lock_guard one_at_a_time(change_mutex_);
  auto tokens = own();
  const std::string name = tokens.empty() ? kOwnToken : fmt::format("{} of {}", kOwnToken, utc_text(wall_clock_ms()));
  const NewToken made = make(name, Role::admin, 0);
  tokens.push_back(made.token);
  if (tokens.size() > kMaxOwnTokens) tokens.erase(tokens.begin());
  try {
    keep_own_tokens(tokens);
  } catch (const std::exception& e) {
    return engine::fail(engine::Errc::io_error,
                        fmt::format("No token can be made for {}: {}", file.string(), e.what()));
  }
  if (auto written = write_private_file(file, made.secret + "\n"); !written) {
    (void)erase_own(made.token.id);
    return written;
  }
  log_warning(fmt::format("{} was gone: it has a new token now, of the role admin, for this node.", file.string()));
  core_.events.append(
      {.kind = "token.created",
       .severity = Severity::warning,
       .side = core_.side(),
       .volume = {},
       .message = fmt::format("{} was gone: a new token of the role admin was made for this node.", file.string())});
  return {};
}

/// From before there could be several it is one alone.
std::vector<Token> TokenService::kept_own_tokens() const {
  std::vector<Token> tokens;
  const auto text = core_.settings.get(kOwnToken);
  if (!text) return tokens;
  try {
    auto kept = nlohmann::json::parse(*text);
    if (kept.is_object()) kept = nlohmann::json::array({kept});
    for (const auto& one : kept)
      if (const auto id = Uuid::parse(one.at("id").get<std::string>()))
        tokens.push_back(
            {*id, one.value("name", std::string(kOwnToken)), one.at("digest"), Role::admin, one.at("created_ms"), 0});
  } catch (const nlohmann::json::exception&) {
    log_warning("This node's own tokens are not readable in mgmt.db, and not good any more.");
  }
  return tokens;
}

void TokenService::keep_own_tokens(const std::vector<Token>& tokens) {
  auto kept = nlohmann::json::array();
  for (const auto& token : tokens)
    kept.push_back({{"id", token.id.to_string()},
                    {"name", token.name},
                    {"digest", token.digest},
                    {"created_ms", token.created_ms}});
  core_.settings.set(kOwnToken, kept.dump());
  const std::lock_guard lock(mutex_);
  own_ = tokens;
}

std::vector<Token> TokenService::own() const {
  const std::lock_guard lock(mutex_);
  return own_;
}

bool TokenService::is_own(const Uuid& id) const {
  const auto tokens = own();
  return std::ranges::find(tokens, id, &Token::id) != tokens.end();
}

bool TokenService::revoke_own(const Uuid& id) {
  const std::lock_guard one_at_a_time(change_mutex_);
  return erase_own(id);
}

bool TokenService::erase_own(const Uuid& id) {
  auto tokens = own();
  if (std::erase_if(tokens, [&](const Token& token) { return token.id == id; }) == 0) return false;
  keep_own_tokens(tokens);
  return true;
}

std::optional<Token> TokenService::authenticate(std::string_view secret) {
  const std::string digest = sha256_hex(secret);
  const auto configuration = core_.configuration();
  const std::int64_t now = wall_clock_ms();
  // Digests of 256 random bits: how long a comparison takes tells nothing that would help to find another secret.
  const auto mine = own();
  if (const auto found = std::ranges::find(mine, digest, &Token::digest); found != mine.end()) {
    note_use(*found, now);
    return *found;
  }
  const auto found = std::ranges::find(configuration->tokens, digest, &Token::digest);
  if (found == configuration->tokens.end() || !valid(*found, now)) return std::nullopt;
  note_use(*found, now);
  return *found;
}

bool TokenService::still_holds(const Token& shown) const {
  const auto mine = own();
  if (std::ranges::find(mine, shown.digest, &Token::digest) != mine.end()) return true;
  const auto configuration = core_.configuration();
  const auto found = std::ranges::find(configuration->tokens, shown.id, &Token::id);
  return found != configuration->tokens.end() && found->digest == shown.digest && found->role == shown.role &&
         valid(*found, wall_clock_ms());
}

/// A disk that takes no note of it keeps nobody out.
void TokenService::note_use(const Token& token, std::int64_t now_ms) {
  {
    const std::lock_guard lock(mutex_);
    auto& minute = noted_[token.id];
    if (minute == now_ms / kMinute) return;
    minute = now_ms / kMinute;
  }
  try {
    core_.database().transact([&](SQLite::Database& db) {
      SQLite::Statement q(
          db, "INSERT INTO token_use VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET used_ms = excluded.used_ms");
      q.bind(1, token.id.to_string());
      q.bind(2, now_ms / kMinute * kMinute);
      q.exec();
    });
  } catch (const std::exception& e) {
    log_error(fmt::format("The use of token {} could not be noted: {}.", token.name, e.what()));
  }
}

std::vector<TokenUse> TokenService::list() const {
  std::vector<TokenUse> list;
  for (const auto& token : core_.configuration()->tokens) list.push_back({token, 0, false});
  for (const auto& token : own()) list.push_back({token, 0, true});
  core_.database().use([&](SQLite::Database& db) {
    SQLite::Statement q(db, "SELECT used_ms FROM token_use WHERE id = ?");
    for (auto& entry : list) {
      q.bind(1, entry.token.id.to_string());
      if (q.executeStep()) entry.last_used_ms = q.getColumn(0).getInt64();
      q.reset();
    }
  });
  return list;
}

Outcome<NewToken> TokenService::create(const std::string& name, Role role, std::int64_t expires_in_seconds) {
  NewToken made = make(name, role, expires_in_seconds);
  const auto changed = core_.change(
      fmt::format("Token {} made", name),
      [&](Configuration& c) -> Outcome<void> {
        if (std::ranges::find(c.tokens, name, &Token::name) != c.tokens.end()) {
          const std::string taken = fmt::format("There is a token named {} already.", name);
          return refuse(RefusalKind::conflict, taken + " Choose another name.", {{"/name", taken}});
        }
        if (c.tokens.size() >= kMaxTokens)
          return refuse(RefusalKind::too_many, fmt::format("There are {} tokens already. Revoke some.", kMaxTokens));
        c.tokens.push_back(made.token);
        return {};
      },
      Agreement::one_is_let);
  if (!changed) return std::unexpected(changed.error());
  core_.events.append(
      {.kind = "token.created", .side = {}, .volume = {}, .message = fmt::format("The token {} was made.", name)});
  return made;
}

/// A node's own token is in the pair's configuration, too, where the node joined with it: it goes there first, so that
/// what could not be revoked everywhere is not said to be.
Outcome<void> TokenService::revoke(const Uuid& id) {
  if (!is_own(id)) return revoke_from_pair(id);
  const auto configuration = core_.configuration();
  if (std::ranges::find(configuration->tokens, id, &Token::id) != configuration->tokens.end())
    if (auto revoked = revoke_from_pair(id); !revoked) return revoked;
  if (revoke_own(id))
    core_.events.append({.kind = "token.deleted",
                         .side = core_.side(),
                         .volume = {},
                         .message = "A token of this node's own was revoked."});
  return {};
}

Outcome<void> TokenService::revoke_from_pair(const Uuid& id) {
  std::string name;
  const auto changed = core_.change(
      "Token revoked",
      [&](Configuration& c) -> Outcome<void> {
        const auto found = std::ranges::find(c.tokens, id, &Token::id);
        if (found == c.tokens.end()) return refuse(RefusalKind::not_found, "There is no token with this id.");
        const std::int64_t now = wall_clock_ms();
        const auto admin = [&](const Token& t) { return t.role == Role::admin && valid(t, now); };
        if (admin(*found) && std::ranges::count_if(c.tokens, admin) == 1)
          return refuse(
              RefusalKind::conflict,
              "This is the last token with the role admin: nobody could manage the pair any more. Make another one "
              "first.");
        name = found->name;
        c.tokens.erase(found);
        return {};
      },
      Agreement::one_is_let);
  if (!changed) return std::unexpected(changed.error());
  core_.events.append(
      {.kind = "token.deleted", .side = {}, .volume = {}, .message = fmt::format("The token {} was revoked.", name)});
  return {};
}

}  // namespace lockstep::mgmt
