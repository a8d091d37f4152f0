// The partner link when the partner's reserve of buffers is short.
#include "tests/unit/replication_link/link_fixture.hpp"

namespace lockstep::replication {
namespace {

TEST_F(PartnerLink, WaitsForBuffersInsteadOfFailing) {
  connect();
  // All of the partner's buffers are taken; they come back one by one.
  std::vector<engine::Buffer> taken;
  run([&, this] {
    for (;;) {
      auto buffer = reserve_.allocate(1 << 20);
      if (!buffer) break;
      taken.push_back(std::move(buffer));
    }
    while (auto buffer = reserve_.allocate(4096)) taken.push_back(std::move(buffer));
  });
  const auto out = pattern(200000, 5);
  auto first = send("1", out);
  auto second = send("2");
  EXPECT_EQ(first.wait_for(100ms), std::future_status::timeout);
  run([&] { taken.clear(); });
  EXPECT_TRUE(first.get().header);
  EXPECT_TRUE(second.get().header);
  run([this] {
    ASSERT_EQ(partner_.seen.size(), 2u);
    EXPECT_EQ(partner_.seen[0].header, "1");
    EXPECT_EQ(partner_.seen[1].header, "2");
  });
}

TEST_F(PartnerLink, ServesRequestsThatWaitForBuffersBeforeNewerOnes) {
  // Of the smallest reserve that can be configured a buffer is left for each of 32 requests; 63 fit the sender's
  // window.
  engine::Buffer taken = run([this] { return reserve_.allocate(std::size_t{32} << 20); });
  ASSERT_TRUE(taken);
  connect();
  run([this] { partner_.burst = 32; });
  const auto out = pattern(520 << 10, 6);
  std::vector<std::future<Answer>> answers;
  constexpr std::size_t kRequests = 9 * 32 + 12;
  for (std::size_t i = 0; i < kRequests; ++i) answers.push_back(send(std::to_string(i), out));
  EXPECT_TRUE(eventually([&, this] { return partner_.seen.size() == kRequests || node_.events.size() > 1; }));
  run([this] { partner_.answer_held(); });
  EXPECT_EQ(run([this] { return node_.events; }), std::vector<std::string>{"up"})
      << run([this] { return link_->problem(); });
  EXPECT_EQ(run([this] { return partner_.events; }), std::vector<std::string>{"up 1"});
  run([&, this] {
    ASSERT_EQ(partner_.seen.size(), kRequests);
    for (std::size_t i = 0; i < kRequests; ++i) ASSERT_EQ(partner_.seen[i].header, std::to_string(i));
  });
  for (auto& answer : answers) {
    ASSERT_EQ(answer.wait_for(10s), std::future_status::ready);
    EXPECT_TRUE(answer.get().header);
  }
  EXPECT_TRUE(eventually([this] { return reserve_.in_use() == std::size_t{32} << 20; }));
  run([&] { taken.reset(); });
}

TEST_F(PartnerLink, KeepsWhatComesUnaskedWhileNoBufferIsThere) {
  connect();
  std::vector<engine::Buffer> taken;
  run([&, this] {
    while (auto buffer = reserve_.allocate(std::size_t{1} << 20)) taken.push_back(std::move(buffer));
  });
  const auto out = pattern(kLinkFirstBurst, 8);
  std::vector<std::future<Answer>> answers;
  constexpr int kRequests = 128;  // as many as the sender's window lets out: 32 MiB
  for (int i = 0; i < kRequests; ++i) answers.push_back(send(std::to_string(i), out));
  ASSERT_TRUE(eventually([this] { return buffers_.in_use() == kRequests * kLinkFirstBurst; }));
  run([&] { taken.clear(); });
  for (auto& answer : answers) ASSERT_TRUE(answer.get().header);
  run([&, this] {
    ASSERT_EQ(partner_.seen.size(), std::size_t{kRequests});
    for (int i = 0; i < kRequests; ++i) {
      EXPECT_EQ(partner_.seen[i].header, std::to_string(i));
      EXPECT_TRUE(partner_.seen[i].payload == text_of(out)) << i;
    }
  });
  EXPECT_EQ(run([this] { return node_.events; }), std::vector<std::string>{"up"});
}

// A heartbeat tells that this node is there: it needs no part of what the data takes up.
TEST_F(PartnerLink, TakesAHeartbeatWhileEveryBufferIsTaken) {
  connect();
  std::vector<engine::Buffer> taken;
  run([&, this] {
    while (auto buffer = reserve_.allocate(std::size_t{1} << 20)) taken.push_back(std::move(buffer));
  });
  Message beat;
  beat.type = MessageType::heartbeat;
  const auto ids = pattern(2000 * 32, 2);  // of 2000 volumes
  std::vector<std::byte> granted(2000);
  beat.payload = static_cast<std::uint32_t>(ids.size());
  auto answer = send(text_of(encode(beat)), ids, granted);
  ASSERT_EQ(answer.wait_for(500ms), std::future_status::ready);
  EXPECT_TRUE(answer.get().header);
  EXPECT_TRUE(std::equal(granted.begin(), granted.end(), ids.begin()));
  run([&] { taken.clear(); });
}

TEST_F(PartnerLink, GivesEveryBufferBack) {
  connect();
  const auto out = pattern(kMaxLinkPayload, 5);
  std::vector<std::byte> in(kMaxLinkPayload);
  run([this] { partner_.answering = false; });
  std::vector<std::future<Answer>> answers;
  for (int i = 0; i < 20; ++i) answers.push_back(send("x", out));
  ASSERT_TRUE(eventually([this] { return partner_.held.size() == 20; }));
  run([this] { link_->reset(); });
  for (auto& answer : answers) EXPECT_EQ(answer.get().header.error(), Errc::unknown_outcome);
  run([this] {
    for (auto* request : std::exchange(partner_.held, {})) Partner::echo(*request);
    partner_.answering = true;
  });
  ASSERT_TRUE(eventually([this] { return node_.events.size() >= 3; }));
  EXPECT_TRUE(send("y", out, in).get().header);
  EXPECT_TRUE(eventually([this] { return reserve_.in_use() == 0; }));
}

}  // namespace
}  // namespace lockstep::replication
