// What a token opens, and for how long that may go on.
#include "mgmt/control/token_service.hpp"

#include <algorithm>
#include <optional>

#include "mgmt/control/secrets.hpp"
#include "tests/unit/mgmt/management.hpp"

namespace lockstep::mgmt {
namespace {

class TokenTest : public ManagementTest {
 protected:
  Token made(TokenService& tokens) {
    const auto token = tokens.create("t", Role::admin, 3600);
    EXPECT_TRUE(token) << token.error().detail;
    return token->token;
  }
  void change(const Uuid& id, const std::function<void(Token&)>& edit) {
    const auto changed = node_->core->change("", [&](Configuration& c) -> Outcome<void> {
      edit(*std::ranges::find(c.tokens, id, &Token::id));
      return {};
    });
    ASSERT_TRUE(changed) << changed.error().detail;
  }
};

TEST_F(TokenTest, WorksUntilItIsRevokedAndTheLastAdminsIsNot) {
  TokenService tokens(*node_->core);
  ASSERT_TRUE(tokens.ensure_token_file(folder_.path() / "token"));
  const auto secret = read_file(folder_.path() / "token")->substr(0, 47);
  const auto first = tokens.authenticate(secret);
  ASSERT_TRUE(first);
  EXPECT_FALSE(tokens.authenticate(secret + "x"));
  EXPECT_FALSE(tokens.authenticate(""));
  EXPECT_EQ(tokens.revoke(first->id).error().kind, RefusalKind::conflict);
  const auto second = tokens.create("ops", Role::admin, 0);
  ASSERT_TRUE(second);
  EXPECT_EQ(tokens.create("ops", Role::admin, 0).error().kind, RefusalKind::conflict);
  ASSERT_TRUE(tokens.revoke(first->id));
  EXPECT_FALSE(tokens.authenticate(secret));
  EXPECT_TRUE(tokens.authenticate(second->secret));
  restart();
  EXPECT_TRUE(TokenService(*node_->core).authenticate(second->secret));
}

TEST_F(TokenTest, HoldsUntilItIsRevoked) {
  TokenService tokens(*node_->core);
  const Token token = made(tokens);
  ASSERT_TRUE(tokens.create("another", Role::admin, 0));
  EXPECT_TRUE(tokens.still_holds(token));
  ASSERT_TRUE(tokens.revoke(token.id));
  EXPECT_FALSE(tokens.still_holds(token));
}

TEST_F(TokenTest, HoldsUntilItExpires) {
  TokenService tokens(*node_->core);
  const Token token = made(tokens);
  change(token.id, [](Token& t) { t.expires_ms = 1; });
  EXPECT_FALSE(tokens.still_holds(token));
}

TEST_F(TokenTest, HoldsUntilItsRoleOrItsSecretIsAnother) {
  TokenService tokens(*node_->core);
  const Token token = made(tokens);
  change(token.id, [](Token& t) { t.role = Role::viewer; });
  EXPECT_FALSE(tokens.still_holds(token));
  change(token.id, [](Token& t) { t.role = Role::admin; });
  EXPECT_TRUE(tokens.still_holds(token));
  change(token.id, [](Token& t) { t.digest = "another"; });
  EXPECT_FALSE(tokens.still_holds(token));
}

class OwnTokenTest : public TokenTest {
 protected:
  std::filesystem::path file_;
  void SetUp() override {
    TokenTest::SetUp();
    file_ = folder_.path() / "mgmt/admin.token";
  }
  std::string secret() {
    std::string text = read_file(file_).value_or("");
    while (text.ends_with('\n')) text.pop_back();
    return text;
  }
  /// A token of this node's own; nothing when none could be made.
  std::optional<Token> make_own(TokenService& tokens) {
    EXPECT_TRUE(tokens.ensure_token_file(file_));
    std::filesystem::remove(file_);
    tokens.see_to_token_file();
    return tokens.authenticate(secret());
  }
  /// The same, taken into the pair by a join.
  std::optional<Token> joined_with_own(TokenService& tokens) {
    const auto token = make_own(tokens);
    const auto taken_in = [&](Configuration& c) -> Outcome<void> {
      c.tokens.push_back(*token);
      return {};
    };
    EXPECT_TRUE(token && node_->core->change("Joined", taken_in));
    return token;
  }
  static std::vector<Token> own(const TokenService& tokens) {
    std::vector<Token> all;
    for (const auto& use : tokens.list())
      if (use.here_only) all.push_back(use.token);
    return all;
  }
};

TEST_F(OwnTokenTest, AnotherOneIsMadeWhereTheFileIsGoneAndNoneEndsByIt) {
  TokenService tokens(*node_->core);
  ASSERT_TRUE(tokens.ensure_token_file(file_));
  std::vector<std::string> secrets{secret()};
  for (int i = 0; i < 3; ++i) {
    std::filesystem::remove(file_);
    tokens.see_to_token_file();
    tokens.see_to_token_file();
    secrets.push_back(secret());
  }
  TokenService later(*node_->core);
  ASSERT_TRUE(later.ensure_token_file(file_));
  for (auto* service : {&tokens, &later})
    for (const auto& s : secrets) EXPECT_TRUE(service->authenticate(s)) << s;
  EXPECT_EQ(own(later).size(), 3U) << "the first is the pair's";
  EXPECT_EQ(node_->core->configuration()->tokens.size(), 1U);
}

TEST_F(OwnTokenTest, IsRevokedWhenItIsAskedForAndStaysSo) {
  TokenService tokens(*node_->core);
  const auto token = make_own(tokens);
  ASSERT_TRUE(token);
  EXPECT_TRUE(tokens.is_own(token->id));
  ASSERT_TRUE(tokens.revoke(token->id));
  EXPECT_FALSE(tokens.authenticate(secret()));
  EXPECT_FALSE(tokens.still_holds(*token));
  TokenService later(*node_->core);
  ASSERT_TRUE(later.ensure_token_file(file_));
  EXPECT_FALSE(later.authenticate(secret()));
  EXPECT_FALSE(later.is_own(token->id));
}

/// Who joins with this node's own token has it taken into the pair.
TEST_F(OwnTokenTest, IsThePairsAloneOnceThePairHasIt) {
  TokenService tokens(*node_->core);
  const auto token = make_own(tokens);
  ASSERT_TRUE(token);
  const auto put = [&](bool there) {
    ASSERT_TRUE(node_->core->change("By the other node", [&](Configuration& c) -> Outcome<void> {
      std::erase_if(c.tokens, [&](const Token& t) { return t.id == token->id; });
      if (there) c.tokens.push_back(*token);
      return {};
    }));
  };
  tokens.leave_to_the_pair();
  EXPECT_TRUE(tokens.is_own(token->id));
  put(true);
  tokens.leave_to_the_pair();
  EXPECT_FALSE(tokens.is_own(token->id)) << "its revocation goes to the node that orders changes";
  EXPECT_TRUE(tokens.authenticate(secret()));
  EXPECT_TRUE(tokens.still_holds(*token));
  put(false);
  EXPECT_FALSE(tokens.authenticate(secret()));
  EXPECT_FALSE(tokens.still_holds(*token));
  TokenService later(*node_->core);
  ASSERT_TRUE(later.ensure_token_file(file_));
  EXPECT_FALSE(later.authenticate(secret()));
}

TEST_F(OwnTokenTest, OfANodeThatJoinedBeforeIsLeftToThePairAtTheStart) {
  TokenService tokens(*node_->core);
  const auto token = joined_with_own(tokens);
  ASSERT_TRUE(token);
  TokenService later(*node_->core);
  ASSERT_TRUE(later.ensure_token_file(file_));
  EXPECT_FALSE(later.is_own(token->id));
  EXPECT_TRUE(later.authenticate(secret()));
}

/// Before that is noticed.
TEST_F(OwnTokenTest, IsGoodNowhereOnceRevokedWhereThePairHasItToo) {
  TokenService tokens(*node_->core);
  const auto token = joined_with_own(tokens);
  ASSERT_TRUE(token);
  ASSERT_TRUE(tokens.revoke(token->id));
  EXPECT_FALSE(tokens.authenticate(secret()));
  EXPECT_FALSE(tokens.still_holds(*token));
  EXPECT_EQ(node_->core->configuration()->tokens.size(), 1U);
}

TEST_F(OwnTokenTest, FromBeforeThereCouldBeSeveralIsGoodStill) {
  const std::string secret = "lst_of-before";
  node_->core->settings.set("node_token", R"({"id":")" + random_uuid().to_string() + R"(","digest":")" +
                                              sha256_hex(secret) + R"(","created_ms":5})");
  TokenService tokens(*node_->core);
  ASSERT_TRUE(tokens.ensure_token_file(file_));
  EXPECT_TRUE(tokens.authenticate(secret));
}

TEST_F(OwnTokenTest, ThereAreSoManyAtMostAndTheOldestGoes) {
  TokenService tokens(*node_->core);
  ASSERT_TRUE(tokens.ensure_token_file(file_));
  std::vector<std::string> secrets;
  for (std::size_t i = 0; i <= kMaxOwnTokens; ++i) {
    std::filesystem::remove(file_);
    tokens.see_to_token_file();
    secrets.push_back(secret());
  }
  EXPECT_EQ(own(tokens).size(), kMaxOwnTokens);
  EXPECT_FALSE(tokens.authenticate(secrets.front()));
  EXPECT_TRUE(tokens.authenticate(secrets.back()));
}

}  // namespace
}  // namespace lockstep::mgmt
