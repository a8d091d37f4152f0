#include "mgmt/control/token_service.hpp"

#include <algorithm>

#include <SQLiteCpp/SQLiteCpp.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <spdlog/spdlog.h>

#include "mgmt/control/secrets.hpp"

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
  own_ = own_token();
  if (core_.configuration()->tokens.empty()) return make_first_token(file);
  std::error_code ignored;
  const auto there = std::filesystem::symlink_status(file, ignored).type();
  if (there != std::filesystem::file_type::not_found) return {};
  // A disk without space keeps nobody from starting.
  if (auto made = make_own_token(file); !made) spdlog::error("{}", made.error().message);
  return {};
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
  spdlog::info("The first token is in {}.", file.string());
  return {};
}

/// No configuration has to be changed for it, so that the partner need not be there.
engine::Result<void> TokenService::make_own_token(const std::filesystem::path& file) {
  const NewToken own = make(kOwnToken, Role::admin, 0);
  const nlohmann::json kept = {
      {"id", own.token.id.to_string()}, {"digest", own.token.digest}, {"created_ms", own.token.created_ms}};
  try {
    core_.settings.set(kOwnToken, kept.dump());
  } catch (const std::exception& e) {
    return engine::fail(engine::Errc::io_error,
                        fmt::format("No token can be made for {}: {}", file.string(), e.what()));
  }
  own_ = own.token;
  if (auto written = write_private_file(file, own.secret + "\n"); !written) return written;
  spdlog::warn("{} was gone: it has a new token now, of the role admin, for this node.", file.string());
  core_.events.append(
      {.kind = "token.created",
       .severity = Severity::warning,
       .side = core_.side(),
       .volume = {},
       .message = fmt::format("{} was gone: a new token of the role admin was made for this node.", file.string())});
  return {};
}

std::optional<Token> TokenService::own_token() const {
  const auto text = core_.settings.get(kOwnToken);
  if (!text) return std::nullopt;
  try {
    const auto kept = nlohmann::json::parse(*text);
    const auto id = Uuid::parse(kept.at("id").get<std::string>());
    if (id) return Token{*id, kOwnToken, kept.at("digest"), Role::admin, kept.at("created_ms"), 0};
  } catch (const nlohmann::json::exception&) {
    spdlog::warn("This node's own token is not readable in mgmt.db, and not good any more.");
  }
  return std::nullopt;
}

std::optional<Token> TokenService::authenticate(std::string_view secret) {
  const std::string digest = sha256_hex(secret);
  const auto configuration = core_.configuration();
  const std::int64_t now = wall_clock_ms();
  // Digests of 256 random bits: how long a comparison takes tells nothing that would help to find another secret.
  if (own_ && own_->digest == digest) return own_;
  const auto found = std::ranges::find(configuration->tokens, digest, &Token::digest);
  if (found == configuration->tokens.end() || !valid(*found, now)) return std::nullopt;
  note_use(*found, now);
  return *found;
}

bool TokenService::still_holds(const Token& shown) const {
  if (own_ && own_->digest == shown.digest) return true;
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
    spdlog::error("The use of token {} could not be noted: {}.", token.name, e.what());
  }
}

std::vector<TokenUse> TokenService::list() const {
  std::vector<TokenUse> list;
  for (const auto& token : core_.configuration()->tokens) list.push_back({token, 0});
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

Outcome<void> TokenService::revoke(const Uuid& id) {
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
