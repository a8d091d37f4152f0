// The end of a link session whose transport still reads its tasks' buffers for a while after it was closed.
#include <algorithm>

#include <gtest/gtest.h>

#include "engine/base/crc32c.hpp"
#include "engine/iscsi/login_target.hpp"
#include "replication/link/link_session.hpp"
#include "tests/unit/iscsi_session/late_transport.hpp"

namespace lockstep::replication {
namespace {

using namespace lockstep::iscsi;

class OpenDoor final : public LoginAuthority {
 public:
  LoginDecision decide(const LoginIdentity&) override { return {}; }
};

class LinkLateEnd : public testing::Test, protected LinkSessionOwner {
 protected:
  LinkLateEnd() { log_in(); }

  void on_session_ready() override { ready = true; }
  void on_session_room() override {}
  void on_task_done(LinkTask&, AnswerStart) override { ++done; }
  void on_session_failed(const std::string&) override { ++failed; }
  void on_session_silent() override { ++silent; }

  // The partner: lets the session in and welcomes it.
  void log_in() {
    session.start(transport);
    OpenDoor door;
    TargetLogin login(door, random, Offers{});
    for (bool over = false; !over;) {
      const auto request = take_all();
      Bhs header;
      std::copy_n(request.begin(), kBhsSize, header.begin());
      const auto asked = header_as<LoginRequestHeader>(header);
      auto answer = login.on_request(asked, std::span(request).subspan(kBhsSize, asked.data_length));
      if (answer.next == TargetLogin::Step::Next::admit) answer = login.admit(1, 64);
      over = answer.next != TargetLogin::Step::Next::answer;
      put(bytes_of(answer.header), std::as_bytes(std::span(answer.text)));
    }
    digests = true;
    const auto request = take_all();  // the greeting
    Bhs command;
    std::copy_n(request.begin(), kBhsSize, command.begin());
    HelloAnswer welcome{};
    welcome.version = kPartnerVersions.highest;
    welcome.side = engine::NodeSide::b;
    std::array<std::byte, kMaxLinkAnswerHeader> bytes;
    AnswerPrefix prefix;
    const std::size_t length = encode_answer(std::span(bytes).first(encode_hello_answer(welcome, bytes)), 0, prefix);
    auto header = make_header<DataInHeader>(Opcode::scsi_data_in, kFinal | kDataInStatus);
    header.task_tag = header_as<ScsiCommandHeader>(command).task_tag;
    header.transfer_tag = kReservedTag;
    header.stat_sn = login.next_stat_sn().value();
    header.max_cmd_sn = (Serial(login.exp_cmd_sn()) + 64).value();
    put(bytes_of(header), std::span(prefix).first(length));
  }

  void put(Bhs header, std::span<const std::byte> data) {
    auto any = header_as<AnyHeader>(header);
    any.data_length = static_cast<std::uint32_t>(data.size());
    header = bytes_of(any);
    std::vector<std::byte> out(header.begin(), header.end());
    if (digests) digest(out, 0);
    const std::size_t from = out.size();
    out.insert(out.end(), data.begin(), data.end());
    out.resize(out.size() + padding_of(data.size()));
    if (digests && !data.empty()) digest(out, from);
    (void)transport.receive_place();
    transport.received(0, out);
  }
  static void digest(std::vector<std::byte>& out, std::size_t from) {
    const std::uint32_t crc = engine::crc32c(std::span(out).subspan(from));
    for (int i = 0; i < 4; ++i) out.push_back(static_cast<std::byte>(crc >> (8 * i)));
  }
  std::vector<std::byte> take_all() {
    auto all = transport.unsent();
    transport.sent(all.size());
    return all;
  }

  void issue() {
    task.header_size = 16;
    task.payload_out = payload;
    session.issue(task);
  }

  test::SeededRandom random{1};
  test::FakeStream::State stream;
  OutPduPool pdus;
  std::vector<std::byte> payload{std::vector<std::byte>(4096, std::byte{0x11})};
  LinkTask task;
  LinkSession session{{.ours = {.pair = {}, .process = {}, .side = engine::NodeSide::a}, .chap = {}}, random, *this};
  test::LateTransport transport{stream, pdus};
  bool ready = false, digests = false;
  int done = 0, failed = 0, silent = 0;
};

TEST_F(LinkLateEnd, TasksStayWithTheSessionUntilItsTransportHasEnded) {
  ASSERT_TRUE(ready);
  issue();
  session.stop();
  EXPECT_TRUE(session.stopped());
  EXPECT_EQ(silent, 0);
  transport.end();
  EXPECT_EQ(silent, 1);
  LinkTaskList left;
  session.take_tasks(left);
  EXPECT_EQ(left.front(), &task);
  EXPECT_EQ(done, 0);
}

TEST_F(LinkLateEnd, ASessionThatIsLostTellsWhyAtOnceAndIsSilentLater) {
  ASSERT_TRUE(ready);
  issue();
  transport.on_stream_closed(std::make_error_code(std::errc::connection_reset));
  EXPECT_EQ(failed, 1);
  EXPECT_EQ(silent, 0);
  session.stop();  // it does so already
  transport.end();
  EXPECT_EQ(silent, 1);
  LinkTaskList left;
  session.take_tasks(left);
  EXPECT_EQ(left.size(), 1u);
}

}  // namespace
}  // namespace lockstep::replication
