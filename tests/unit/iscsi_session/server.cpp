// Sessions among each other and the server around them.
#include <set>

#include "engine/net/tcp.hpp"
#include "tests/unit/iscsi_session/text_requests.hpp"

namespace lockstep::test {
namespace {

using namespace iscsi;
using Kind = iscsi_target::SessionEvent::Kind;

// ---- Reinstatement ----

TEST(Reinstatement, TheSamePortReplacesItsOldSession) {
  TestServer server;
  RawInitiator first(server.address), second(server.address);
  ASSERT_EQ(first.log_in(), "");
  ASSERT_EQ(second.log_in(), "");
  EXPECT_TRUE(first.is_closed());
  EXPECT_EQ(server.server->sessions().size(), 1u);
  EXPECT_EQ(server.awaited_reasons(Kind::closed), std::vector<std::string>{"The initiator logged in anew."});
  second.send(second.read10(0, 1));
  EXPECT_TRUE(second.receive());
}

TEST(Reinstatement, TheNewSessionWaitsUntilTheOldOnesCommandsAreOver) {
  TestServer server;
  RawInitiator first(server.address), second(server.address);
  ASSERT_EQ(first.log_in(), "");
  server.storage.hold = true;
  first.send(first.read10(0, 1));
  ASSERT_TRUE(eventually([&] { return server.storage.held == 1; }));
  std::atomic<bool> in = false;
  std::thread login([&] {
    EXPECT_EQ(second.log_in(), "");
    in = true;
  });
  EXPECT_TRUE(first.is_closed());  // the old one is dead at once
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(in);
  EXPECT_EQ(server.storage.nexuses_opened, 1);
  server.release_held();
  login.join();
  EXPECT_EQ(server.storage.nexuses_opened, 2);
  EXPECT_EQ(server.storage.nexuses_open, 1);
}

TEST(Reinstatement, ALoginThatWaitedInVainForTheOldSessionsCommandsSaysSo) {
  TestServer server({.session = {.offers = {}, .login_timeout = std::chrono::milliseconds(200)}});
  RawInitiator first(server.address), second(server.address);
  ASSERT_EQ(first.log_in(), "");
  server.storage.hold = true;
  first.send(first.read10(0, 1));
  ASSERT_TRUE(eventually([&] { return server.storage.held == 1; }));
  EXPECT_NE(second.log_in(), "");
  EXPECT_EQ(server.awaited_reasons(Kind::refused),
            std::vector<std::string>{
                "The commands of the initiator's previous session have not ended yet; look at this node's disks."});
  server.release_held();
}

TEST(Reinstatement, AnotherIsidIsAnotherSession) {
  TestServer server;
  RawInitiator first(server.address), second(server.address);
  ASSERT_EQ(first.log_in(), "");
  ASSERT_EQ(second.log_in({.isid = {0x80, 0, 0, 0, 0, 2}}), "");
  EXPECT_EQ(server.server->sessions().size(), 2u);
  first.send(first.read10(0, 1));
  EXPECT_TRUE(first.receive());
}

TEST(Reinstatement, ManyAtOnceLeaveExactlyOne) {
  TestServer server;
  std::vector<std::unique_ptr<RawInitiator>> all;
  std::vector<std::thread> threads;
  for (int i = 0; i < 16; ++i) all.push_back(std::make_unique<RawInitiator>(server.address));
  for (auto& one : all) threads.emplace_back([&one] { (void)one->log_in(); });
  for (auto& thread : threads) thread.join();
  EXPECT_TRUE(eventually([&] { return server.server->sessions().size() == 1 && server.storage.nexuses_open == 1; }));
}

// ---- Fencing and closing ----

TEST(Fencing, EverySessionFallsSilentAndIsDrained) {
  TestServer server;
  RawInitiator one(server.address), two(server.address);
  ASSERT_EQ(one.log_in(), "");
  ASSERT_EQ(two.log_in({.isid = {0x80, 0, 0, 0, 0, 2}}), "");
  server.storage.hold = true;
  one.send(one.read10(0, 1));
  two.send(two.read10(0, 1));
  ASSERT_TRUE(eventually([&] { return server.storage.held == 2; }));
  std::promise<void> drained;
  auto done = drained.get_future();
  server.server->close_all_sessions([&] { drained.set_value(); });
  EXPECT_FALSE(one.receive());  // nothing more comes
  EXPECT_FALSE(two.receive());
  EXPECT_EQ(done.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
  server.release_held();
  EXPECT_EQ(done.wait_for(std::chrono::seconds(10)), std::future_status::ready);
  EXPECT_EQ(server.storage.nexuses_open, 0);
  RawInitiator again(server.address);
  EXPECT_EQ(again.log_in(), "");
}

TEST(HeldLogins, AreAnsweredWhenTheyAreReleased) {
  TestServer server;
  server.server->hold_logins(std::chrono::minutes(5));
  std::atomic<bool> in = false;
  std::thread login([&] {
    RawInitiator one(server.address);
    EXPECT_EQ(one.log_in(), "");
    in = true;
  });
  RawInitiator lister(server.address);
  EXPECT_EQ(lister.log_in({.target = ""}), "") << "discovery asks no unit";
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(in);
  EXPECT_EQ(server.storage.nexuses_opened, 0);
  server.server->release_logins();
  login.join();
  EXPECT_TRUE(in);
  RawInitiator later(server.address);
  EXPECT_EQ(later.log_in({.isid = {0x80, 0, 0, 0, 0, 2}}), "");
}

TEST(HeldLogins, ThatAreNotReleasedInTimeSaySo) {
  TestServer server({.session = {.offers = {}, .login_timeout = std::chrono::milliseconds(200)}});
  server.server->hold_logins(std::chrono::minutes(5));
  RawInitiator one(server.address);
  EXPECT_NE(one.log_in(), "");
  EXPECT_EQ(server.awaited_reasons(Kind::refused),
            std::vector<std::string>{"The node did not decide in time whether it serves."});
}

TEST(HeldLogins, AreAnsweredWhenPatienceIsOver) {
  TestServer server;
  server.server->hold_logins(std::chrono::minutes(5));
  const auto begun = std::chrono::steady_clock::now();
  server.server->hold_logins(std::chrono::milliseconds(200));
  RawInitiator one(server.address);
  EXPECT_EQ(one.log_in(), "");
  EXPECT_GE(std::chrono::steady_clock::now() - begun, std::chrono::milliseconds(200));
}

TEST(Closing, OnlyTheSessionsThatMatchAreClosed) {
  TestServer server;
  RawInitiator one(server.address), two(server.address);
  ASSERT_EQ(one.log_in(), "");
  ASSERT_EQ(two.log_in({.initiator = "iqn.2026-11.io.lockstep:second"}), "");
  std::promise<void> closed;
  server.server->close_sessions([](const auto& info) { return info.initiator == kInitiator; },
                                [&] { closed.set_value(); });
  EXPECT_EQ(closed.get_future().wait_for(std::chrono::seconds(10)), std::future_status::ready);
  EXPECT_TRUE(one.is_closed());
  two.send(two.read10(0, 1));
  EXPECT_TRUE(two.receive());
}

TEST(Closing, InitiatorsAreAskedToLogOutBeforeTheyAreClosed) {
  TestServer server;
  RawInitiator polite(server.address), deaf(server.address);
  ASSERT_EQ(polite.log_in(), "");
  ASSERT_EQ(deaf.log_in({.isid = {0x80, 0, 0, 0, 0, 2}}), "");
  server.server->request_logout(std::chrono::seconds(1));
  const auto message = polite.receive();
  ASSERT_TRUE(message && message->opcode() == Opcode::async_message);
  EXPECT_EQ(message->as<AsyncMessageHeader>().event, 1);
  EXPECT_EQ(message->as<AsyncMessageHeader>().parameter3, 1);
  auto logout = make_header<LogoutRequestHeader>(Opcode::logout_request);
  logout.opcode |= kImmediate;
  logout.reason = kFinal;
  polite.send(logout);
  const auto bye = polite.receive();
  ASSERT_TRUE(bye && bye->opcode() == Opcode::logout_response);
  EXPECT_TRUE(polite.is_closed());
  (void)deaf.receive();  // the message
  EXPECT_TRUE(deaf.is_closed());
}

TEST(Closing, RetiringTakesNoNewSessionsAndIsOverWhenTheLastInitiatorHasLoggedOut) {
  TestServer server;
  RawInitiator polite(server.address);
  ASSERT_EQ(polite.log_in(), "");
  std::promise<void> retired;
  server.server->retire(std::chrono::seconds(60), [&] { retired.set_value(); });
  const auto message = polite.receive();
  ASSERT_TRUE(message && message->opcode() == Opcode::async_message);
  EXPECT_EQ(message->as<AsyncMessageHeader>().event, 1);
  EXPECT_THROW(RawInitiator{server.address}, std::runtime_error);
  polite.send(polite.read10(0, 1));  // what it has begun it may finish
  EXPECT_TRUE(polite.receive());
  auto logout = make_header<LogoutRequestHeader>(Opcode::logout_request);
  logout.opcode |= kImmediate;
  logout.reason = kFinal;
  polite.send(logout);
  EXPECT_EQ(retired.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
}

TEST(Closing, RetiringWaitsForDeafInitiatorsOnlySoLong) {
  TestServer server;
  RawInitiator deaf(server.address);
  ASSERT_EQ(deaf.log_in(), "");
  std::promise<void> retired;
  server.server->retire(std::chrono::milliseconds(50), [&] { retired.set_value(); });
  EXPECT_EQ(retired.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
}

TEST(Logout, EveryFormIsAnswered) {
  TestServer server;
  RawInitiator initiator(server.address);
  ASSERT_EQ(initiator.log_in(), "");
  const auto log_out = [&](int reason, std::uint16_t cid) {
    auto logout = make_header<LogoutRequestHeader>(Opcode::logout_request);
    logout.opcode |= kImmediate;
    logout.reason = static_cast<std::uint8_t>(kFinal | reason);
    logout.cid = cid;
    initiator.send(logout);
    return initiator.receive();
  };
  EXPECT_EQ(log_out(1, 99)->as<LogoutResponseHeader>().response, 1);  // no such connection
  EXPECT_EQ(log_out(2, 0)->as<LogoutResponseHeader>().response, 2);   // no recovery here
  EXPECT_EQ(static_cast<int>(log_out(9, 0)->opcode()), static_cast<int>(Opcode::reject));
  EXPECT_EQ(log_out(1, 0)->as<LogoutResponseHeader>().response, 0);
  EXPECT_TRUE(initiator.is_closed());
}

// ---- Keepalive and the login's time ----

TEST(Keepalive, ASilentInitiatorIsAskedAndThenGivenUp) {
  iscsi_target::ServerOptions options;
  options.session.keepalive = std::chrono::milliseconds(100);
  TestServer server(options);
  RawInitiator silent(server.address), answering(server.address);
  ASSERT_EQ(silent.log_in(), "");
  ASSERT_EQ(answering.log_in({.isid = {0x80, 0, 0, 0, 0, 2}}), "");
  for (int i = 0; i < 4; ++i) {
    const auto ping = answering.receive();
    ASSERT_TRUE(ping && ping->opcode() == Opcode::nop_in);
    const auto in = ping->as<NopInHeader>();
    EXPECT_EQ(in.task_tag, kReservedTag);
    EXPECT_NE(in.transfer_tag, kReservedTag);
    auto pong = make_header<NopOutHeader>(Opcode::nop_out, kFinal);
    pong.opcode |= kImmediate;
    pong.task_tag = kReservedTag;
    pong.transfer_tag = in.transfer_tag;
    answering.send(pong);
  }
  const auto ping = silent.receive();
  EXPECT_TRUE(ping && ping->opcode() == Opcode::nop_in);
  EXPECT_TRUE(silent.is_closed());
  EXPECT_EQ(server.awaited_reasons(Kind::closed), std::vector<std::string>{"The initiator has fallen silent."});
}

TEST(Keepalive, ANopIsEchoed) {
  TestServer server;
  RawInitiator initiator(server.address);
  ASSERT_EQ(initiator.log_in(), "");
  const auto data = bytes_pattern(777, 1);
  auto nop = initiator.nop();
  nop.lun = 0x0001000000000000;
  initiator.send(nop, data);
  const auto echo = initiator.receive();
  ASSERT_TRUE(echo && echo->opcode() == Opcode::nop_in);
  EXPECT_EQ(echo->data, data);
  EXPECT_EQ(echo->as<NopInHeader>().task_tag, nop.task_tag.value());
  EXPECT_EQ(echo->as<NopInHeader>().transfer_tag, kReservedTag);
}

TEST(LoginTime, ALoginThatDoesNotEndIsGivenUp) {
  TestServer server({.session = {.offers = {}, .login_timeout = std::chrono::milliseconds(100)}});
  RawInitiator mute(server.address);
  EXPECT_TRUE(mute.is_closed());
  EXPECT_EQ(server.awaited_reasons(Kind::refused),
            std::vector<std::string>{"The initiator did not finish its login in time."});
}

TEST(LoginTime, OneHalfOpenLoginTooManyTakesThePlaceOfTheOldest) {
  iscsi_target::ServerOptions options;
  options.max_half_open_per_address = 4;
  TestServer server(options);
  RawInitiator before(server.address);
  ASSERT_EQ(before.log_in({.isid = {0x80, 0, 0, 0, 0, 2}}), "");  // it is no login any more
  std::vector<std::unique_ptr<RawInitiator>> mute;
  for (int i = 0; i < 4; ++i) mute.push_back(std::make_unique<RawInitiator>(server.address));
  RawInitiator fifth(server.address);
  EXPECT_TRUE(mute.front()->is_closed());
  EXPECT_EQ(fifth.log_in(), "");
  EXPECT_EQ(mute.back()->log_in({.isid = {0x80, 0, 0, 0, 0, 3}}), "");
  before.send(before.read10(0, 1));
  EXPECT_TRUE(before.receive());
  EXPECT_EQ(server.awaited_reasons(Kind::refused).front(),
            "Too many logins were unfinished; this was the oldest of them.");
}

TEST(Sessions, OneDiscoveryTooManyTakesThePlaceOfTheOldestAndNeverThatOfASession) {
  iscsi_target::ServerOptions options;
  options.sessions.in_all = 2;
  options.sessions.reserve = 0;
  options.max_discovery = 2;
  TestServer server(options);
  RawOptions discovery;
  discovery.target = {};
  std::vector<std::unique_ptr<RawInitiator>> idle;
  for (int i = 0; i < 3; ++i) {
    idle.push_back(std::make_unique<RawInitiator>(server.address));
    ASSERT_EQ(idle.back()->log_in(discovery), "");
  }
  EXPECT_TRUE(idle.front()->is_closed());
  RawInitiator one(server.address), two(server.address);
  EXPECT_EQ(one.log_in(), "");
  EXPECT_EQ(two.log_in({.isid = {0x80, 0, 0, 0, 0, 2}}), "");
  EXPECT_EQ(ask(*idle.back(), "SendTargets=All|"),
            "TargetName=" + kTarget + "|TargetAddress=" + server.address + ",1|");
}

TEST(Sessions, ThereAreNoMoreThanMayBe) {
  iscsi_target::ServerOptions options;
  options.sessions.in_all = 1;
  TestServer server(options);
  RawInitiator one(server.address), two(server.address);
  ASSERT_EQ(one.log_in(), "");
  EXPECT_NE(two.log_in({.isid = {0x80, 0, 0, 0, 0, 2}}).find("no resources"), std::string::npos);
}

iscsi_target::ServerOptions few_sessions() {
  iscsi_target::ServerOptions options;
  options.sessions = {.in_all = 12, .of_name = 4, .from_address = 10, .reserve = 1};
  return options;
}

/// So many sessions of that name as are let in, from an address.
std::vector<std::unique_ptr<RawInitiator>> sessions_of(TestServer& server, const std::string& name, int most,
                                                       const std::string& from = {}) {
  std::vector<std::unique_ptr<RawInitiator>> in;
  for (int i = 0; i < most; ++i) {
    auto one = std::make_unique<RawInitiator>(server.address, from);
    if (one->log_in({.initiator = name, .isid = {0x80, 0, 0, 0, 0, static_cast<std::uint8_t>(i)}}).empty()) {
      in.push_back(std::move(one));
    }
  }
  return in;
}

TEST(Sessions, OfOneNameLeaveRoomForOthersAndAreRefusedOnceInTheLog) {
  TestServer server(few_sessions());
  const auto greedy = sessions_of(server, "iqn.2026-11.io.lockstep:greedy", 30);
  EXPECT_EQ(greedy.size(), 4u);
  RawInitiator more(server.address), other(server.address);
  EXPECT_NE(more.log_in({.initiator = "iqn.2026-11.io.lockstep:greedy", .isid = {0x80, 0, 0, 0, 1, 0}}).find("0206"),
            std::string::npos);
  EXPECT_EQ(other.log_in(), "");
  EXPECT_EQ(server.awaited_reasons(Kind::refused),
            std::vector<std::string>{"The initiator has 4 sessions, as many as one name may have."});
}

TEST(Sessions, OfOneNameAtItsBoundAreReplacedByTheirOwnPortsAndMakeRoomWhenTheyEnd) {
  TestServer server(few_sessions());
  const std::string name = "iqn.2026-11.io.lockstep:greedy";
  auto greedy = sessions_of(server, name, 4);
  RawInitiator again(server.address);
  EXPECT_EQ(again.log_in({.initiator = name, .isid = {0x80, 0, 0, 0, 0, 0}}), "");
  EXPECT_TRUE(greedy.front()->is_closed());
  greedy.pop_back();
  EXPECT_TRUE(eventually([&] { return server.server->sessions().size() == 3; }));
  EXPECT_EQ(sessions_of(server, name, 6).size(), 4u);
}

TEST(Sessions, FromOneAddressLeaveRoomForOthersWhateverTheirNames) {
  TestServer server(few_sessions());
  std::vector<std::vector<std::unique_ptr<RawInitiator>>> greedy;
  for (int i = 0; i < 4; ++i) {
    greedy.push_back(sessions_of(server, "iqn.2026-11.io.lockstep:greedy" + std::to_string(i), 4, "127.0.0.5"));
  }
  EXPECT_EQ(server.server->sessions().size(), 10u);
  EXPECT_EQ(sessions_of(server, kInitiator, 1).size(), 1u);
}

TEST(Sessions, TheLastPlacesAreForWhoeverHasFew) {
  iscsi_target::ServerOptions options;
  options.sessions = {.in_all = 24, .of_name = 12, .from_address = 12, .reserve = 2};
  TestServer server(options);
  const auto one = sessions_of(server, "iqn.2026-11.io.lockstep:one", 12, "127.0.0.5");
  const auto two = sessions_of(server, "iqn.2026-11.io.lockstep:two", 12, "127.0.0.6");
  EXPECT_EQ(one.size() + two.size(), 22u);
  EXPECT_EQ(sessions_of(server, kInitiator, 3).size(), 2u);
}

TEST(Sessions, AreSpreadOverTheReactors) {
  TestServer server;
  std::vector<std::unique_ptr<RawInitiator>> all;
  for (int i = 0; i < 4; ++i) {
    all.push_back(std::make_unique<RawInitiator>(server.address));
    ASSERT_EQ(all.back()->log_in({.isid = {0x80, 0, 0, 0, 0, static_cast<std::uint8_t>(i)}}), "");
    all.back()->send(all.back()->read10(0, 128));
    ASSERT_TRUE(all.back()->receive());
  }
  // Each reactor's pool has served two of them.
  EXPECT_EQ(server.storage.nexuses_open, 4);
}

// ---- The listener ----

TEST(Listening, AnAddressInUseIsAnErrorThatSaysWhatToDo) {
  TestServer server;
  const auto again = server.server->listen(server.address);
  ASSERT_FALSE(again);
  EXPECT_NE(again.error().message.find("Cannot listen on " + server.address), std::string::npos);
  EXPECT_NE(again.error().message.find("another address or port"), std::string::npos);
}

TEST(Listening, AnAddressThatIsNoneIsNamed) {
  TestServer server;
  for (const auto* bad : {"", "127.0.0.1", "127.0.0.1:", "127.0.0.1:99999", "[::1:3260", "localhost:3260", ":3260"}) {
    const auto listening = server.server->listen(bad);
    ASSERT_FALSE(listening) << bad;
    EXPECT_NE(listening.error().message.find("is no address and port"), std::string::npos);
  }
}

TEST(Listening, StopsAndStartsAgainAtTheSameAddressWhileSessionsGoOn) {
  TestServer server;
  RawInitiator before(server.address);
  ASSERT_EQ(before.log_in(), "");
  server.server->stop_listening(server.address);
  EXPECT_THROW(RawInitiator{server.address}, std::runtime_error);
  before.send(before.read10(0, 1));
  EXPECT_TRUE(before.receive());
  EXPECT_TRUE(server.server->listen(server.address));
  RawInitiator after(server.address);
  EXPECT_EQ(after.log_in({.isid = {0x80, 0, 0, 0, 0, 2}}), "");
}

// ---- The way out ----

TEST(Connecting, ReachesAListenerOrSaysWhyNot) {
  engine::Reactor reactor;
  reactor.start();
  std::promise<std::string> accepted;
  auto listener = engine::TcpListener::open(
      reactor, "127.0.0.1:0", [&](engine::TcpSocket socket) { accepted.set_value(socket.peer_address()); });
  ASSERT_TRUE(listener);
  const std::string address = (*listener)->address();
  const auto connect = [&](const std::string& to) {
    std::promise<std::string> result;
    std::unique_ptr<engine::TcpConnector> connector;
    reactor.post([&] {
      connector = std::make_unique<engine::TcpConnector>(
          reactor, "127.0.0.2:0", to, std::chrono::seconds(5), [&](engine::Result<engine::TcpSocket> socket) {
            result.set_value(socket ? "connected" : socket.error().message);
          });
    });
    auto text = result.get_future().get();
    std::promise<void> dropped;
    reactor.post([&] {
      connector.reset();
      dropped.set_value();
    });
    dropped.get_future().wait();
    return text;
  };
  EXPECT_EQ(connect(address), "connected");
  EXPECT_EQ(accepted.get_future().get().substr(0, 10), "127.0.0.2:");
  listener->reset();
  EXPECT_EQ(connect(address), "Cannot connect to " + address + ": Connection refused.");
  EXPECT_NE(connect("nowhere").find("is no address and port"), std::string::npos);
  reactor.stop();
  reactor.join();
}

}  // namespace
}  // namespace lockstep::test
