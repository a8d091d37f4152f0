// Requests whose sender has its answer while the receiver still needs what they brought.
#include <algorithm>

#include "tests/unit/replication_link/link_fixture.hpp"

namespace lockstep::replication {
namespace {

class EarlyAnswer : public PartnerLink {
 protected:
  void SetUp() override {
    PartnerLink::SetUp();
    connect();
    run([this] { partner_.answering = false; });
  }
  [[nodiscard]] bool holds(std::size_t count) {
    return eventually([this, count] { return partner_.held.size() == count; });
  }
  void answer_early() {
    run([this] {
      for (InboundRequest* request : partner_.held) request->answer_early(as_bytes("early"));
    });
  }
  void answer_held() {
    run([this] { partner_.answer_held(); });
  }
};

TEST_F(EarlyAnswer, IsTheOnlyOneAndLeavesThePayloadUntilTheRequestIsOver) {
  const auto out = pattern(200'000, 3);
  auto first = send("1", out);
  ASSERT_TRUE(holds(1));
  answer_early();
  EXPECT_EQ(*first.get().header, "early");
  const auto more = pattern(200'000, 4);
  auto second = send("2", more);
  ASSERT_TRUE(holds(2));
  EXPECT_TRUE(run([&, this] { return std::ranges::equal(partner_.held[0]->payload(), out); }));
  answer_held();
  EXPECT_EQ(*second.get().header, "2");
  EXPECT_TRUE(eventually([this] { return reserve_.in_use() == 0; }));
  EXPECT_EQ(run([this] { return node_.events; }), std::vector<std::string>{"up"});
}

TEST_F(EarlyAnswer, FreesThePlaceInTheWindow) {
  constexpr std::size_t kMore = 2 * iscsi_target::kMaxQueueDepth;
  const auto out = pattern(4096, 1);
  std::vector<std::future<Answer>> answers;
  for (std::size_t i = 0; i < kMore; ++i) {
    answers.push_back(send("x", out));
    ASSERT_TRUE(holds(i + 1));
    run([this] { partner_.held.back()->answer_early(as_bytes("early")); });
  }
  for (auto& answer : answers) EXPECT_EQ(*answer.get().header, "early");
  answer_held();
  EXPECT_TRUE(eventually([this] { return reserve_.in_use() == 0; }));
}

TEST_F(EarlyAnswer, OfARequestWhoseSessionEndsAfterItIsStillOver) {
  const auto out = pattern(4096, 3);
  auto answer = send("1", out);
  ASSERT_TRUE(holds(1));
  answer_early();
  EXPECT_EQ(*answer.get().header, "early");
  run([this] { link_->reset(); });
  ASSERT_TRUE(eventually([this] { return node_.events.size() >= 3; })) << "the next session is let in";
  EXPECT_NE(run([this] { return reserve_.in_use(); }), 0u);
  answer_held();
  EXPECT_TRUE(eventually([this] { return reserve_.in_use() == 0; }));
}

TEST_F(EarlyAnswer, OfARequestWhoseSessionIsGoneIsHeardByNobody) {
  const auto out = pattern(4096, 3);
  auto answer = send("1", out);
  ASSERT_TRUE(holds(1));
  run([this] { link_->reset(); });
  EXPECT_EQ(answer.get().header.error(), Errc::unknown_outcome);
  ASSERT_TRUE(eventually([this] { return node_.events.size() >= 3; }));
  answer_early();
  answer_held();
  run([this] { partner_.answering = true; });
  EXPECT_EQ(*send("new").get().header, "new");
  EXPECT_TRUE(eventually([this] { return reserve_.in_use() == 0; }));
}

}  // namespace
}  // namespace lockstep::replication
