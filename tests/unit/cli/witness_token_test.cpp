#include "ui-api/cli/witness_token.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mgmt/control/secrets.hpp"

namespace lockstep::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kCa = "-----BEGIN CERTIFICATE-----\nMAo=\n-----END CERTIFICATE-----\n";

json fields() {
  return {{"pair", "pair1"},
          {"id", "0f8fad5b-d9cb-469f-a165-70867728950e"},
          {"ca", kCa},
          {"endpoints", {"https://10.0.0.10:2389"}},
          {"user", "pair-pair1"},
          {"password", "geheim-0815"}};
}

/// With a checksum that fits, as whoever forges a token would make it.
std::string signed_token(const std::string& body) {
  const std::string text = "lsw1." + mgmt::base64url_encode(body);
  return text + "." + mgmt::sha256_hex(text).substr(0, 16);
}
std::string with(const char* field, const json& value) {
  json changed = fields();
  changed[field] = value;
  return signed_token(changed.dump(-1, ' ', false, json::error_handler_t::replace));
}

void is_refused(const std::string& token, const char* why = "This is not a whole witness token") {
  const auto read = witness_token_from(token);
  ASSERT_FALSE(read.has_value()) << token;
  EXPECT_EQ(read.error().exit, Exit::usage);
  EXPECT_THAT(read.error().message, HasSubstr(why));
  EXPECT_THAT(read.error().message, Not(HasSubstr("geheim-0815")));
}

// As lockstep_witness/token.py made it of fields().
constexpr std::string_view kGolden =
    "lsw1."
    "eyJjYSI6Ii0tLS0tQkVHSU4gQ0VSVElGSUNBVEUtLS0tLVxuTUFvPVxuLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLVxuIiwiZW5kcG9pbnRzIjpbIm"
    "h0dHBzOi8vMTAuMC4wLjEwOjIzODkiXSwiaWQiOiIwZjhmYWQ1Yi1kOWNiLTQ2OWYtYTE2NS03MDg2NzcyODk1MGUiLCJwYWlyIjoicGFpcjEiLCJw"
    "YXNzd29yZCI6ImdlaGVpbS0wODE1IiwidXNlciI6InBhaXItcGFpcjEifQ.ad077079da86a51e";

TEST(WitnessToken, IsReadAsTheWitnessPrintsIt) {
  for (const std::string& pasted : {std::string(kGolden), "  " + std::string(kGolden) + "\r\n"}) {
    const auto token = witness_token_from(pasted);
    ASSERT_TRUE(token.has_value()) << token.error().message;
    EXPECT_EQ(token->pair, "pair1");
    EXPECT_EQ(token->id, "0f8fad5b-d9cb-469f-a165-70867728950e");
    EXPECT_EQ(token->access(), (json{{"endpoints", {"https://10.0.0.10:2389"}},
                                     {"ca", kCa},
                                     {"user", "pair-pair1"},
                                     {"password", "geheim-0815"}}));
  }
  EXPECT_EQ(signed_token(fields().dump()), kGolden);
}

TEST(WitnessToken, IsRefusedWhereverItWasCutOff) {
  for (std::size_t size = 0; size < kGolden.size(); ++size) is_refused(std::string(kGolden.substr(0, size)));
  for (std::size_t from = 1; from < kGolden.size(); ++from) is_refused(std::string(kGolden.substr(from)));
}

TEST(WitnessToken, IsRefusedWhereverACharacterIsAnother) {
  for (std::size_t at = 0; at < kGolden.size(); ++at)
    for (const char c : {'A', '0', '.', '\n', '\0', '\xff', '-'}) {
      std::string changed(kGolden);
      if (changed[at] == c) continue;
      changed[at] = c;
      EXPECT_FALSE(witness_token_from(changed).has_value()) << at << " " << static_cast<int>(c);
    }
}

TEST(WitnessToken, OfANewerVersionSaysSo) { is_refused("lsw2.abc.def", "newer version"); }

TEST(WitnessToken, ThatIsFarTooLongIsRefused) { is_refused("lsw1." + std::string(1 << 20, 'a'), "too long"); }

TEST(WitnessToken, IsRefusedWhenAFieldIsHostileEvenWithTheRightChecksum) {
  for (const char* id : {"", "x", "00000000-0000-0000-0000-000000000000", "0f8fad5b-d9cb-469f-a165-70867728950e'"})
    is_refused(with("id", id), "the pair's id cannot be used");
  for (const char* name : {"", "Pair", "$(reboot)", "a b", "a\nb", "a\"b"})
    is_refused(with("pair", name), "pair's name");
  for (const json& list :
       {json(), json::array(), json("https://10.0.0.10:2389"), json::array({"http://10.0.0.10:2389"}), json::array({7}),
        json::array({"https://10.0.0.10:2389\n"}), json::array({"https://`id`:1"}),
        json(std::vector<std::string>(17, "https://10.0.0.10:2389"))})
    is_refused(with("endpoints", list), "the endpoints");
  for (const char* ca : {"", "/etc/passwd", "-----BEGIN CERTIFICATE-----\x1b[2J"}) is_refused(with("ca", ca), "the CA");
  for (const char* word : {"", "a b", "a\nb", "a\x1b[2J", "\xc3\xa4"}) {
    is_refused(with("user", word), "the user");
    is_refused(with("password", word), "the password");
  }
  is_refused(with("password", 7), "the password");
  is_refused(with("password", std::string(256, 'a')), "the password");
}

TEST(WitnessToken, IsRefusedWhenItsContentIsNoObject) {
  for (const char* body : {"", "null", "[]", "7", "{", "\xff\xfe", "{\"id\":\"\xff\"}"})
    EXPECT_FALSE(witness_token_from(signed_token(body)).has_value()) << body;
}

}  // namespace
}  // namespace lockstep::cli
