// Initiators that answer pings and hold on to what their commands hold: they are ended. Half-open logins and idle
// discoveries: whose place is taken.
#include "iscsi_target/server/crowd.hpp"
#include "iscsi_target/server/event_limit.hpp"
#include "tests/unit/iscsi_session/raw_initiator.hpp"

namespace lockstep::test {
namespace {

using namespace iscsi;
using iscsi_target::Crowd;
using Kind = iscsi_target::SessionEvent::Kind;

constexpr auto kStallReason = "The initiator takes no answers, or does not send the data of its writes.";

iscsi_target::ServerOptions impatient() {
  iscsi_target::ServerOptions options;
  options.session.keepalive = std::chrono::milliseconds(50);
  options.session.stall_patience = std::chrono::milliseconds(150);
  return options;
}

/// Shows that the initiator is there, without asking for anything.
void show_life(RawInitiator& initiator) {
  auto pong = make_header<NopOutHeader>(Opcode::nop_out, kFinal);
  pong.opcode |= kImmediate;
  pong.task_tag = kReservedTag;
  pong.transfer_tag = 1;
  initiator.send(pong);
}

/// Shows life until the server has closed a session; the server's reason.
std::string reason_after_showing_life(TestServer& server, RawInitiator& initiator) {
  EXPECT_TRUE(eventually([&] {
    show_life(initiator);
    return !server.reasons(Kind::closed).empty();
  }));
  return server.reasons(Kind::closed).front();
}

TEST(Stalls, AWriteWhoseDataNeverComesEndsTheSessionThoughItsInitiatorLives) {
  TestServer server(impatient());
  RawInitiator initiator(server.address);
  RawOptions options;
  options.offers.initial_r2t = true;
  ASSERT_EQ(initiator.log_in(options), "");
  initiator.send(initiator.write10(0, 8));
  EXPECT_EQ(reason_after_showing_life(server, initiator), kStallReason);
}

TEST(Stalls, AWriteWhoseDataNeverComesEndsTheSessionThoughOthersGetTheirs) {
  TestServer server(impatient());
  RawInitiator initiator(server.address);
  RawOptions options;
  options.offers.initial_r2t = true;
  ASSERT_EQ(initiator.log_in(options), "");
  initiator.send(initiator.write10(0, 8));
  const auto data = bytes_pattern(iscsi_target::kLeastProgress, 1);
  EXPECT_TRUE(eventually([&] {
    initiator.send(initiator.write10(64, iscsi_target::kLeastProgress / kBlock), data);
    for (auto pdu = initiator.receive(); pdu && pdu->opcode() != Opcode::scsi_response;) pdu = initiator.receive();
    return !server.reasons(Kind::closed).empty();
  }));
  EXPECT_EQ(server.awaited_reasons(Kind::closed), std::vector<std::string>{kStallReason});
}

TEST(Stalls, ACommandThatWaitsForOneBeforeItEndsTheSession) {
  TestServer server(impatient());
  RawInitiator initiator(server.address);
  ASSERT_EQ(initiator.log_in(), "");
  ++initiator.cmd_sn;  // left out
  initiator.send(initiator.read10(0, 8));
  EXPECT_EQ(reason_after_showing_life(server, initiator), kStallReason);
}

TEST(Stalls, AnInitiatorThatTakesNoAnswersIsEndedThoughItLives) {
  TestServer server(impatient());
  RawInitiator initiator(server.address);
  ASSERT_EQ(initiator.log_in(), "");
  for (int i = 0; i < 100; ++i) initiator.send(initiator.read10(0, 512));  // more than the sockets hold
  EXPECT_EQ(reason_after_showing_life(server, initiator), kStallReason);
}

TEST(Stalls, CommandsThatTheDeviceServerTakesLongForAreNoStall) {
  TestServer server(impatient());
  RawInitiator initiator(server.address);
  ASSERT_EQ(initiator.log_in(), "");
  server.storage.hold = true;
  initiator.send(initiator.read10(0, 8));
  for (int pings = 0; pings < 8;) {  // as many keepalives as would be too many
    const auto pdu = initiator.receive();
    ASSERT_TRUE(pdu && pdu->opcode() == Opcode::nop_in);
    ++pings;
    show_life(initiator);
  }
  server.release_held();
  for (;;) {
    const auto pdu = initiator.receive();
    ASSERT_TRUE(pdu);
    if (pdu->opcode() == Opcode::scsi_data_in) break;
  }
}

TEST(Crowd, GivesTheOldestOfAnAddressThatHasItsShare) {
  Crowd crowd(100, 2);
  EXPECT_FALSE(crowd.enter({0, 1}, "a"));
  EXPECT_FALSE(crowd.enter({1, 2}, "b"));
  EXPECT_FALSE(crowd.enter({0, 3}, "a"));
  EXPECT_EQ(crowd.enter({1, 4}, "a"), (iscsi_target::ConnectionRef{0, 1}));
  EXPECT_EQ(crowd.size(), 3u);
}

TEST(Crowd, WhenItIsFullTheFullestAddressGivesWay) {
  Crowd crowd(4, 100);
  EXPECT_FALSE(crowd.enter({0, 1}, "honest"));
  for (std::uint64_t id = 2; id <= 4; ++id) EXPECT_FALSE(crowd.enter({0, id}, "flood"));
  EXPECT_EQ(crowd.enter({0, 5}, "another"), (iscsi_target::ConnectionRef{0, 2}));
  EXPECT_EQ(crowd.enter({0, 6}, "flood"), (iscsi_target::ConnectionRef{0, 3}));
}

TEST(Crowd, AmongAddressesThatHaveAlikeTheOldestGivesWayWhateverItsAddress) {
  for (const std::string honest : {"0", "z"}) {
    Crowd crowd(100, 10);
    std::uint64_t id = 1;
    for (int i = 0; i < 100; ++i) (void)crowd.enter({0, id++}, "flood" + std::to_string(i));
    const std::uint64_t ours = id++;
    EXPECT_NE(crowd.enter({0, ours}, honest), std::nullopt);
    for (int i = 0; i < 99; ++i) {
      EXPECT_NE(crowd.enter({0, id++}, "other" + std::to_string(i))->id, ours) << honest << ' ' << i;
    }
  }
}

TEST(Crowd, NoAddressTakesAnothersPlaceToHaveMoreThanIt) {
  for (const auto& [one, two] : {std::pair<std::string, std::string>{"a", "b"}, {"b", "a"}}) {
    Crowd crowd(8, 100);
    std::uint64_t id = 1;
    for (int i = 0; i < 4; ++i) EXPECT_FALSE(crowd.enter({0, id++}, one));
    for (int i = 0; i < 4; ++i) EXPECT_FALSE(crowd.enter({0, id++}, two));
    EXPECT_EQ(crowd.enter({0, 100}, one)->id, 1u);
    EXPECT_EQ(crowd.enter({0, 101}, two)->id, 5u);
  }
}

TEST(EventLimit, TellsSoManyASecondAndThenHowManyItDidNot) {
  iscsi_target::EventLimit limit;
  engine::TimePoint now{};
  for (unsigned i = 0; i < iscsi_target::EventLimit::kMost; ++i) EXPECT_EQ(limit.pass(now), 0u);
  EXPECT_EQ(limit.pass(now), std::nullopt);
  EXPECT_EQ(limit.pass(now), std::nullopt);
  now = now + std::chrono::seconds(1);
  EXPECT_EQ(limit.pass(now), 2u);
  EXPECT_EQ(limit.pass(now), 0u);
}

TEST(Crowd, WhoLeavesMakesRoom) {
  Crowd crowd(2, 2);
  EXPECT_FALSE(crowd.enter({0, 1}, "a"));
  EXPECT_FALSE(crowd.enter({0, 2}, "a"));
  crowd.leave(1);
  crowd.leave(1);
  crowd.leave(77);
  EXPECT_FALSE(crowd.enter({0, 3}, "a"));
  EXPECT_EQ(crowd.enter({0, 4}, "a"), (iscsi_target::ConnectionRef{0, 2}));
}

}  // namespace
}  // namespace lockstep::test
