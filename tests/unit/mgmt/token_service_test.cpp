// For how long what a token opened may go on.
#include "mgmt/control/token_service.hpp"

#include <algorithm>

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

}  // namespace
}  // namespace lockstep::mgmt
