// The simulated end of a path over RDMA takes what the rules of rdma::QueuePair allow, and tells what they don't.
#include "tests/simulation/sim_rdma.hpp"

#include <array>
#include <optional>

#include <gtest/gtest.h>

#include "engine/iscsi/out_pdu.hpp"

namespace lockstep::simulation {
namespace {

using Outcome = SimRdma::Outcome;

constexpr std::size_t kBytes = 4096;

class SimulatedRdma : public testing::Test, protected replication::RdmaPayloads::User {
 protected:
  SimulatedRdma() : scheduler(trace, SimRandom(1)) {
    end.connect(*this);
    task.payload_out = out;
    task.payload_in = in;
    EXPECT_TRUE(end.payloads().prepare(task));
    iscsi::OutPdu command;
    end.payloads().give(task, command);
    std::array<std::byte, iser::kHeadersSize> message{};
    std::ranges::copy(*command.lead, message.begin());
    tagged = iser::read_message(message, message.size())->tagged;
  }
  void on_shut(replication::LinkTask&) override { ++shut; }
  void pass_time() {
    while (scheduler.step()) {
    }
  }
  [[nodiscard]] Outcome read(std::size_t offset, std::size_t bytes) {
    std::vector<std::byte> into(bytes);
    return end.read(*tagged.write, offset, into);
  }
  [[nodiscard]] Outcome write(std::size_t offset, std::size_t bytes) {
    const std::vector<std::byte> from(bytes, std::byte{7});
    return end.write(*tagged.read, offset, from);
  }

  Trace trace;
  Verdict verdict;
  Scheduler scheduler;
  SimRdma end{scheduler, verdict, SimRandom(3), Owner::node_a, {512, 512}};
  std::vector<std::byte> out = std::vector<std::byte>(kBytes, std::byte{1});
  std::vector<std::byte> in = std::vector<std::byte>(kBytes, std::byte{2});
  replication::LinkTask task;
  iser::Tagged tagged;
  unsigned shut = 0;
};

TEST_F(SimulatedRdma, LetsThePartnerAtTheMemoryOfARequestUntilItsWindowsAreShut) {
  EXPECT_EQ(read(0, kBytes), Outcome::moved);
  EXPECT_EQ(write(100, 50), Outcome::moved);
  EXPECT_EQ(in[99], std::byte{2});
  EXPECT_EQ(in[100], std::byte{7});
  end.invalidate(tagged.read->key);
  EXPECT_FALSE(end.payloads().shut(task)) << "the other one is shut by the sender";
  EXPECT_EQ(read(0, kBytes), Outcome::moved) << "until that is complete";
  pass_time();
  EXPECT_EQ(shut, 1u);
  EXPECT_EQ(verdict.reason(), "");
  EXPECT_EQ(read(0, 1), Outcome::refused);
  EXPECT_EQ(verdict.reason(), "the partner's device used a key whose window is not open");
}

TEST_F(SimulatedRdma, TellsOfAnAccessBeyondAWindow) {
  EXPECT_EQ(read(kBytes - 4, 5), Outcome::refused);
  EXPECT_EQ(verdict.reason(), "the partner's device went beyond the bounds of a window");
}

TEST_F(SimulatedRdma, TellsOfARightThatAWindowDoesNotGive) {
  std::array<std::byte, 1> byte{};
  EXPECT_EQ(end.read(*tagged.read, 0, byte), Outcome::refused);
  EXPECT_EQ(verdict.reason(), "the partner's device did what a window is not open for");
}

TEST_F(SimulatedRdma, TellsOfMemoryThatWasUsedAgainBeforeItsWindowWasShut) {
  out[5] = std::byte{9};
  end.invalidate(tagged.write->key);
  EXPECT_EQ(verdict.reason(), "memory that the partner's device may read was changed before its window was shut");
}

TEST_F(SimulatedRdma, TellsOfMemoryThatWasUsedAgainBeforeItsQueuePairWasDestroyed) {
  in[5] = std::byte{9};
  end.destroy();
  EXPECT_EQ(verdict.reason(), "memory that the partner's device may write was changed before its window was shut");
}

TEST_F(SimulatedRdma, TellsOfMemoryThatWasUsedAgainBeforeItsSendWasComplete) {
  std::vector<std::byte> message(100);
  const std::uint64_t send = end.post(message, 17);
  EXPECT_EQ(end.complete(send), 17u);
  const std::uint64_t second = end.post(message, 18);
  message[0] = std::byte{1};
  (void)end.complete(second);
  EXPECT_EQ(verdict.reason(), "memory that an RDMA send was posted from was changed before it was complete");
}

TEST_F(SimulatedRdma, IsOutOfReachWhenItIsDestroyed) {
  end.destroy();
  EXPECT_EQ(read(0, kBytes), Outcome::gone);
  EXPECT_EQ(write(0, kBytes), Outcome::gone);
  EXPECT_EQ(verdict.reason(), "");
}

}  // namespace
}  // namespace lockstep::simulation
