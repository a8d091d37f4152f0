// What etcd's authentication says, and who may ask for a token when.
#include "replication/arbiter/etcd_auth.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::replication {
namespace {

using engine::TimePoint;
using namespace std::chrono_literals;
using Step = EtcdLogin::Step;

std::string refusal(int code, const std::string& message) {
  return R"({"error":")" + message + R"(","message":")" + message + R"(","code":)" + std::to_string(code) + "}";
}

TEST(EtcdRefusal, IsKnownByEtcdsOwnCodesAndWords) {
  EXPECT_EQ(etcd_refusal(refusal(16, "etcdserver: invalid auth token")), EtcdRefusal::stale_token);
  EXPECT_EQ(etcd_refusal(refusal(3, "etcdserver: revision of auth store is old")), EtcdRefusal::stale_token);
  EXPECT_EQ(etcd_refusal(refusal(3, "etcdserver: user name is empty")), EtcdRefusal::no_user);
  EXPECT_EQ(etcd_refusal(refusal(3, "etcdserver: authentication failed, invalid user ID or password")),
            EtcdRefusal::wrong_password);
  EXPECT_EQ(etcd_refusal(refusal(7, "etcdserver: permission denied")), EtcdRefusal::not_permitted);
  EXPECT_EQ(etcd_refusal(refusal(9, "etcdserver: authentication is not enabled")), EtcdRefusal::auth_off);
}

TEST(EtcdRefusal, IsNotSeenWhereARequestMayHaveBeenCarriedOut) {
  EXPECT_EQ(etcd_refusal(refusal(14, "etcdserver: request timed out")), EtcdRefusal::none);
  EXPECT_EQ(etcd_refusal(refusal(3, "etcdserver: something about user name is empty")), EtcdRefusal::none);
  for (const char* other : {"", "401 Unauthorized", "[]", "{}", R"({"code":16})", R"({"code":"16","message":"x"})",
                            R"({"message":"etcdserver: invalid auth token"})", R"({"code":16,"message":5})"})
    EXPECT_EQ(etcd_refusal(other), EtcdRefusal::none) << other;
}

TEST(EtcdToken, IsTakenFromTheAnswerUnlessItCouldEndItsHeader) {
  EXPECT_EQ(*parse_authenticate_answer(R"({"header":{},"token":"abc.16"})"), "abc.16");
  for (const char* bad : {"", "[]", "{}", R"({"token":5})", R"({"token":""})", R"({"token":"a b"})",
                          R"({"token":"a\r\nHost: b"})", R"({"token":"ä"})"})
    EXPECT_FALSE(parse_authenticate_answer(bad)) << bad;
  EXPECT_FALSE(parse_authenticate_answer(R"({"token":")" + std::string(5000, 'x') + "\"}"));
}

TEST(EtcdToken, IsAskedForWithTheUserAndPasswordAsTheyAre) {
  EXPECT_EQ(etcd_authenticate_request("lock\"step", "pä\\ss"), R"({"name":"lock\"step","password":"pä\\ss"})");
}

TEST(EtcdLogin, NeedsNothingWithoutAUser) {
  EtcdLogin login(false);
  EXPECT_EQ(login.next(TimePoint{}), Step::go);
  EXPECT_EQ(login.token(), "");
  EXPECT_FALSE(login.on_refused(""));
}

TEST(EtcdLogin, HasOneAskAndTheOthersWait) {
  EtcdLogin login(true);
  EXPECT_EQ(login.next(TimePoint{}), Step::ask);
  EXPECT_EQ(login.next(TimePoint{}), Step::wait);
  login.on_token("t1");
  EXPECT_EQ(login.next(TimePoint{}), Step::go);
  EXPECT_EQ(login.token(), "t1");
}

TEST(EtcdLogin, DropsTheTokenThatWasRefusedAndNotOneThatWasGotSince) {
  EtcdLogin login(true);
  ASSERT_EQ(login.next(TimePoint{}), Step::ask);
  login.on_token("t1");
  EXPECT_TRUE(login.on_refused("t1"));
  ASSERT_EQ(login.next(TimePoint{}), Step::ask);
  EXPECT_TRUE(login.on_refused("t1"));  // of a second request that was under way
  EXPECT_EQ(login.next(TimePoint{}), Step::wait);
  login.on_token("t2");
  EXPECT_TRUE(login.on_refused("t1"));
  EXPECT_EQ(login.next(TimePoint{}), Step::go);
  EXPECT_EQ(login.token(), "t2");
}

TEST(EtcdLogin, TriesAnotherTokenWhenSeveralRequestsInARowWereNotAnswered) {
  EtcdLogin login(true);
  ASSERT_EQ(login.next(TimePoint{}), Step::ask);
  login.on_token("t1");
  for (unsigned i = 1; i < EtcdLogin::kUnanswered; ++i) login.on_unanswered("t1");
  login.on_answered("t1");
  for (unsigned i = 1; i < EtcdLogin::kUnanswered; ++i) login.on_unanswered("t1");
  EXPECT_EQ(login.next(TimePoint{}), Step::go);
  login.on_unanswered("t1");
  ASSERT_EQ(login.next(TimePoint{}), Step::ask);
  login.on_token("t2");
  for (unsigned i = 0; i < EtcdLogin::kUnanswered; ++i) login.on_unanswered("t1");
  EXPECT_EQ(login.next(TimePoint{}), Step::go);
}

TEST(EtcdLogin, AsksAgainAtOnceWhenNobodyAnswered) {
  EtcdLogin login(true);
  ASSERT_EQ(login.next(TimePoint{}), Step::ask);
  login.on_no_answer();
  EXPECT_EQ(login.next(TimePoint{}), Step::ask);
}

TEST(EtcdLogin, WaitsLongerAfterEachWrongPasswordUpToALimitAndForgetsItAfterARightOne) {
  EtcdLogin login(true);
  TimePoint now;
  const auto pause_after_wrong = [&] {
    EXPECT_EQ(login.next(now), Step::ask);
    login.on_wrong_password(now, "wrong");
    const TimePoint begun = now;
    while (login.next(now) == Step::fail) {
      EXPECT_EQ(login.problem(), "wrong");
      now = now + 500ms;
    }
    login.on_no_answer();
    return now - begun;
  };
  EXPECT_EQ(pause_after_wrong(), 1s);
  EXPECT_EQ(pause_after_wrong(), 2s);
  EXPECT_EQ(pause_after_wrong(), 4s);
  for (int i = 0; i < 5; ++i) (void)pause_after_wrong();
  EXPECT_EQ(pause_after_wrong(), EtcdLogin::kLongestPause);
  ASSERT_EQ(login.next(now), Step::ask);
  login.on_token("t");
  ASSERT_TRUE(login.on_refused("t"));
  EXPECT_EQ(pause_after_wrong(), 1s);
}

TEST(EtcdLogin, GoesWithoutATokenWhileAuthenticationIsOffUntilOneIsWanted) {
  EtcdLogin login(true);
  ASSERT_EQ(login.next(TimePoint{}), Step::ask);
  login.on_auth_off();
  EXPECT_EQ(login.next(TimePoint{}), Step::go);
  EXPECT_EQ(login.token(), "");
  EXPECT_TRUE(login.on_refused(""));
  EXPECT_EQ(login.next(TimePoint{}), Step::ask);
}

}  // namespace
}  // namespace lockstep::replication
