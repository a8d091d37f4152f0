// A session over RDMA: what an initiator like Linux's sees of it, and that no byte is where it may not be.
#include <gtest/gtest.h>

#include "tests/unit/iser/iser_fixture.hpp"

namespace lockstep::test {
namespace {

using iscsi::Opcode;

void fill(engine::Buffer& memory, std::size_t bytes, unsigned seed) {
  for (std::size_t i = 0; i < bytes; ++i) memory.data()[i] = static_cast<std::byte>(seed + i / 7 + i % 251);
}

class IserSession : public testing::TestWithParam<std::uint64_t> {};

TEST_P(IserSession, LogsInAndAnswersAsLinuxExpects) {
  IserWorld world(GetParam());
  ASSERT_TRUE(world.log_in()) << world.initiator->login_error;
  EXPECT_EQ(world.initiator->parameters.first_burst, 8192u);
  const auto inquiry = world.ask_and_wait(0x12, 0, 36, false, world.initiator->memory(4096));
  ASSERT_TRUE(inquiry);
  EXPECT_EQ(inquiry->as<iscsi::ScsiResponseHeader>().status, 0);
  EXPECT_EQ(world.figures.copied.bounce, 36u) << "it lay in no buffer";
  EXPECT_TRUE(world.initiator->faults.empty()) << world.initiator->faults.front();
}

TEST_P(IserSession, AShortWriteIsTakenWhereItLies) {
  IserWorld world(GetParam());
  ASSERT_TRUE(world.log_in());
  auto memory = world.initiator->memory(4096);
  fill(memory, 4096, 5);
  const std::vector<std::byte> sent(memory.span().begin(), memory.span().end());
  ASSERT_TRUE(world.ask_and_wait(0x2A, 8, 4096, true, std::move(memory)));
  EXPECT_TRUE(std::ranges::equal(sent, std::span(world.device.storage).subspan(8 * 512, 4096)));
  EXPECT_EQ(world.device.taken, 1u);
  EXPECT_EQ(world.figures.eager, 1u);
  EXPECT_EQ(world.figures.copied.immediate_prefix, 0u);
  EXPECT_EQ(world.figures.reads, 0u);
}

TEST_P(IserSession, ALongWriteIsReadBehindWhatCameWithIt) {
  IserWorld world(GetParam());
  ASSERT_TRUE(world.log_in());
  auto memory = world.initiator->memory(65536);
  fill(memory, 65536, 9);
  const std::vector<std::byte> sent(memory.span().begin(), memory.span().end());
  ASSERT_TRUE(world.ask_and_wait(0x2A, 0, 65536, true, std::move(memory)));
  EXPECT_TRUE(std::ranges::equal(sent, std::span(world.device.storage).first(65536)));
  EXPECT_EQ(world.figures.copied.immediate_prefix, 8192u);
  EXPECT_EQ(world.figures.bytes_read, 65536u - 8192u);
}

TEST_P(IserSession, AWriteWithoutImmediateDataIsCopiedNowhere) {
  IserWorld world(GetParam(), {.invalidates = true, .immediate = 0});
  ASSERT_TRUE(world.log_in());
  auto memory = world.initiator->memory(65536);
  fill(memory, 65536, 9);
  ASSERT_TRUE(world.ask_and_wait(0x2A, 0, 65536, true, std::move(memory)));
  EXPECT_EQ(world.figures.bytes_read, 65536u);
  EXPECT_EQ(world.figures.copied.immediate_prefix + world.figures.copied.bounce + world.figures.copied.ahs, 0u);
}

TEST_P(IserSession, AReadIsWrittenThereAheadOfItsStatus) {
  IserWorld world(GetParam());
  ASSERT_TRUE(world.log_in());
  for (std::size_t i = 0; i < world.device.storage.size(); ++i)
    world.device.storage[i] = static_cast<std::byte>(i % 253);
  std::vector<std::byte> got;
  ASSERT_TRUE(world.clock.run_until([&] { return world.initiator->has_window(); }));
  std::uint32_t tag = 0;
  tag = world.initiator->command(0x28, 3, 65536, false, world.initiator->memory(65536), [&](const Answer&) {
    const auto memory = world.initiator->io(tag).memory.span();
    got.assign(memory.begin(), memory.end());
  });
  ASSERT_TRUE(world.clock.run_until([&] { return !got.empty(); }));
  EXPECT_TRUE(std::ranges::equal(got, std::span(world.device.storage).subspan(3 * 512, 65536)));
  EXPECT_EQ(world.figures.copied.bounce, 0u);
  EXPECT_EQ(world.figures.invalidations, 1u);
}

TEST_P(IserSession, WhatIsUnderWayIsCountedWhileItIs) {
  IserWorld world(GetParam(), {.invalidates = true, .immediate = 0});
  ASSERT_TRUE(world.log_in());
  const auto& queues = world.figures.queues;
  EXPECT_EQ(queues.connections, 1u);
  EXPECT_EQ(queues.depth, iser::kHosts.work);
  EXPECT_TRUE(world.clock.run_until([&] { return queues.work == 0; })) << "all answers have left";
  world.initiator->command(0x2A, 0, 65536, true, world.initiator->memory(65536), [](const Answer&) {});
  ASSERT_TRUE(world.clock.run_until([&] { return world.figures.reads == 1; }));
  EXPECT_EQ(queues.work, 1u) << "the read of its data";
  ASSERT_TRUE(world.clock.run_until([&] { return queues.work == 0; }));
  EXPECT_GE(queues.most, 1u);
  EXPECT_LE(queues.most, iser::kHosts.work);
}

TEST_P(IserSession, WithLibiscsiNothingIsInvalidated) {
  IserWorld world(GetParam(), {.invalidates = false});
  ASSERT_TRUE(world.log_in());
  ASSERT_TRUE(world.ask_and_wait(0x28, 0, 8192, false, world.initiator->memory(8192)));
  ASSERT_TRUE(world.ask_and_wait(0x2A, 0, 65536, true, world.initiator->memory(65536)));
  EXPECT_EQ(world.figures.invalidations, 0u);
  EXPECT_TRUE(world.initiator->faults.empty()) << world.initiator->faults.front();
}

// libiscsi sends what it has, whatever MaxCmdSN is.
TEST_P(IserSession, WithLibiscsiTheWindowIsWideFromTheFirstAnswer) {
  IserWorld world(GetParam(), {.invalidates = false});
  ASSERT_TRUE(world.log_in());
  ASSERT_TRUE(world.ask_and_wait(0x12, 0, 36, false, world.initiator->memory(4096)));
  unsigned ended = 0;
  for (std::uint32_t i = 0; i < 64; ++i) {
    EXPECT_TRUE(world.initiator->has_window()) << i;
    world.initiator->command(0x28, i * 8, 4096, false, world.initiator->memory(4096), [&](const Answer&) { ++ended; });
  }
  EXPECT_TRUE(world.clock.run_until([&] { return ended == 64; }));
}

TEST_P(IserSession, ADiscoverySessionMayAskAgain) {
  IserWorld world(GetParam(), {.discovers = true});
  ASSERT_TRUE(world.log_in()) << world.initiator->login_error;
  unsigned answers = 0;
  world.initiator->on_other = [&](const Answer& answer) {
    answers += answer.opcode() == Opcode::text_response ? 1 : 0;
  };
  for (unsigned asked = 1; asked <= 3; ++asked) {
    ASSERT_TRUE(world.initiator->has_window()) << asked;
    auto header = iscsi::make_header<iscsi::TextRequestHeader>(Opcode::text_request, iscsi::kFinal);
    header.task_tag = asked, header.transfer_tag = iscsi::kReservedTag;
    header.cmd_sn = world.initiator->cmd_sn.value();
    ++world.initiator->cmd_sn;
    world.initiator->send(bytes_of(header), {}, std::as_bytes(std::span("SendTargets=All")));
    ASSERT_TRUE(world.clock.run_until([&] { return answers == asked; }));
  }
}

TEST_P(IserSession, ACheckConditionComesWithItsSenseAndInvalidatesTheKey) {
  IserWorld world(GetParam());
  ASSERT_TRUE(world.log_in());
  const auto answer = world.ask_and_wait(0x55, 0, 4096, false, world.initiator->memory(4096));
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->as<iscsi::ScsiResponseHeader>().status, 2);
  EXPECT_EQ(answer->data.size(), 98u);
  EXPECT_TRUE(answer->invalidated);
}

TEST_P(IserSession, PingsAreAnsweredWithNoMoreThanAnInitiatorHasRoomFor) {
  IserWorld world(GetParam());
  ASSERT_TRUE(world.log_in());
  std::optional<Answer> pong;
  world.initiator->on_other = [&](const Answer& answer) { pong = answer; };
  auto header = iscsi::make_header<iscsi::NopOutHeader>(Opcode::nop_out, iscsi::kFinal);
  header.opcode |= iscsi::kImmediate;
  header.task_tag = 7, header.transfer_tag = iscsi::kReservedTag;
  header.cmd_sn = world.initiator->cmd_sn.value();
  world.initiator->send(bytes_of(header), {}, std::vector<std::byte>(300, std::byte{0x33}));
  ASSERT_TRUE(world.clock.run_until([&] { return pong.has_value(); }));
  EXPECT_EQ(pong->opcode(), Opcode::nop_in);
  EXPECT_EQ(pong->data.size(), 128u);
}

// Many commands of all sizes at once; whatever overlaps waits for the one before it. Each read is what was written
// last.
TEST_P(IserSession, EveryReadIsWhatWasWritten) {
  SeededRandom random(GetParam() * 31 + 7);
  IserWorld world(GetParam(), {.invalidates = random.one_in(2), .immediate = random.one_in(3) ? 0u : 8192u});
  ASSERT_TRUE(world.log_in());
  constexpr std::uint32_t kBlocks = 4096;
  std::vector<unsigned> model(kBlocks, 0);  // 0: zeros
  std::vector<bool> busy(kBlocks);
  unsigned generation = 0, ended = 0, refused = 0;
  const auto value = [](unsigned g, std::size_t i) {
    return g == 0 ? std::byte{0} : static_cast<std::byte>(g * 37 + i % 249);
  };
  for (unsigned sent = 0; sent < 600 && !world.initiator->lost();) {
    if (!world.initiator->has_window() || random.one_in(6)) {
      ASSERT_TRUE(world.clock.step());
      continue;
    }
    const std::uint32_t sizes[] = {1, 8, 8, 8, 16, 17, 128, 300};
    const std::uint32_t blocks = sizes[random.below(8)], lba = random.below(kBlocks - blocks);
    if (std::any_of(busy.begin() + lba, busy.begin() + lba + blocks, [](bool b) { return b; })) {
      (void)world.clock.step();
      continue;
    }
    auto memory = world.initiator->memory(std::size_t{blocks} * 512);
    if (!memory) {
      (void)world.clock.step();
      continue;
    }
    ++sent;
    std::fill_n(busy.begin() + lba, blocks, true);
    const bool writes = random.one_in(2);
    if (writes) {
      ++generation;
      for (std::size_t i = 0; i < std::size_t{blocks} * 512; ++i) memory.data()[i] = value(generation, i % 512);
    }
    auto tag = std::make_shared<std::uint32_t>();
    const unsigned mine = generation;
    *tag = world.initiator->command(writes ? 0x2A : 0x28, lba, blocks * 512, writes, std::move(memory),
                                    [&, tag, lba, blocks, writes, mine](const Answer& answer) {
                                      ++ended;
                                      std::fill_n(busy.begin() + lba, blocks, false);
                                      const auto status = answer.as<iscsi::ScsiResponseHeader>().status;
                                      if (status != 0) return void(++refused);
                                      for (std::uint32_t b = 0; b < blocks; ++b) {
                                        if (writes) {
                                          model[lba + b] = mine;
                                          continue;
                                        }
                                        const auto found =
                                            world.initiator->io(*tag).memory.span().subspan(std::size_t{b} * 512, 512);
                                        bool same = true;
                                        for (std::size_t i = 0; i < 512; ++i)
                                          same = same && found[i] == value(model[lba + b], i);
                                        EXPECT_TRUE(same) << "block " << lba + b;
                                      }
                                    });
  }
  EXPECT_TRUE(world.clock.run_until([&] { return world.initiator->under_way() == 0 || world.initiator->lost(); }));
  EXPECT_FALSE(world.initiator->lost());
  EXPECT_EQ(ended, 600u);
  EXPECT_EQ(refused, 0u);
  EXPECT_GT(world.device.pulled, 0u);
  EXPECT_TRUE(world.initiator->faults.empty()) << world.initiator->faults.front();
}

// ---- What goes on when an answer has left ----

/// So fast that what takes its time is the news of what has left, where nobody awaits them: up to 5 ms.
constexpr FakeDelays kFast{.wire = std::chrono::microseconds(1), .told = std::chrono::microseconds(1)};

TEST_P(IserSession, AnswersBeyondTheQueueFollowAtOnce) {
  IserWorld world(GetParam(), {}, std::size_t{64} << 20, kFast);
  ASSERT_TRUE(world.log_in());
  world.device.holds = true;
  constexpr std::size_t kCommands = 100;
  std::size_t answers = 0;
  for (std::size_t sent = 0; sent < kCommands; ++sent) {
    ASSERT_TRUE(world.clock.run_until([&] { return world.initiator->has_window(); }));
    world.initiator->command(0x2A, 0, 4096, true, world.initiator->memory(4096), [&](const Answer&) { ++answers; });
  }
  ASSERT_TRUE(world.clock.run_until([&] { return world.device.held.size() == kCommands; }));
  const auto begin = world.clock.now();
  for (scsi::Command* const command : std::exchange(world.device.held, {})) {
    world.device.finish(*command, scsi::Status::good);
  }
  ASSERT_TRUE(world.clock.run_until([&] { return answers == kCommands; }));
  EXPECT_LT(world.clock.now() - begin, std::chrono::milliseconds(2));
}

TEST_P(IserSession, WhoWaitsForAnAnswersMemoryHasItAtOnce) {
  IserWorld world(GetParam(), {}, std::size_t{32} << 20, kFast);
  ASSERT_TRUE(world.log_in());
  constexpr std::size_t kCommands = 12;
  constexpr std::uint32_t kBytes = 8 << 20;  // of which two are more than a session may have
  std::size_t answers = 0;
  const auto begin = world.clock.now();
  for (std::size_t sent = 0; sent < kCommands; ++sent) {
    ASSERT_TRUE(world.clock.run_until([&] { return world.initiator->has_window(); }));
    world.initiator->command(0x28, 0, kBytes, false, world.initiator->memory(kBytes),
                             [&](const Answer&) { ++answers; });
  }
  ASSERT_TRUE(world.clock.run_until([&] { return answers == kCommands; }));
  EXPECT_LT(world.clock.now() - begin, std::chrono::milliseconds(5));
}

// ---- While others wait for memory ----

/// Two sessions of one host: one has half of the memory that there is for hosts, the other has none and waits for more
/// than its host may have yet. All others are in its way, and none of them has to wait.
class WaitsForMemory {
 public:
  explicit WaitsForMemory(iscsi_target::DataBuffers& memory) : memory_(memory) {
    for (User* const user : {&has_, &waits_}) memory_.join(*user, "iqn.2026-11.io.lockstep:other", "10.0.0.3");
    for (std::size_t i = 0; i < kHas; ++i) {
      claims_[i].member = &has_;
      buffers_[i] = memory_.take_or_wait(claims_[i], kBytes);
    }
    claims_[kHas].member = &waits_;
    EXPECT_FALSE(memory_.take_or_wait(claims_[kHas], 8 * kBytes));
  }
  ~WaitsForMemory() {
    for (auto& buffer : buffers_) buffer.reset();
    for (auto& claim : claims_) memory_.give_back(claim);
    for (User* const user : {&has_, &waits_}) memory_.leave(*user);
  }
  WaitsForMemory(const WaitsForMemory&) = delete;
  WaitsForMemory& operator=(const WaitsForMemory&) = delete;
  [[nodiscard]] bool waits() const { return claims_[kHas].state == iscsi_target::FairShare::Claim::State::waiting; }
  [[nodiscard]] std::size_t looks() const { return waits_.looks; }

 private:
  struct User final : iscsi_target::BufferUser {
    void buffer_ready(iscsi_target::FairShare::Claim&, engine::Buffer) override { ADD_FAILURE() << "it has enough"; }
    void look(bool) override { ++looks; }
    std::size_t looks = 0;
  };

  static constexpr std::size_t kHas = 12, kBytes = std::size_t{1} << 20;
  iscsi_target::DataBuffers& memory_;
  User has_, waits_;
  std::array<iscsi_target::FairShare::Claim, kHas + 1> claims_;
  std::array<engine::Buffer, kHas> buffers_;
};

/// Over a network that is slow, so that there always are answers on their way.
void stays_while_another_waits(std::uint64_t seed, bool writes, std::uint32_t bytes) {
  IserWorld world(seed, {}, std::size_t{32} << 20, {.wire = std::chrono::milliseconds(4)});
  ASSERT_TRUE(world.log_in());
  const WaitsForMemory other(*world.resources.data_buffers);
  IserInitiator& initiator = *world.initiator;
  std::size_t answers = 0;
  const auto end = world.clock.now() + std::chrono::seconds(10);
  while (world.clock.now() < end && !initiator.lost()) {
    while (initiator.under_way() < 32 && initiator.has_window()) {
      initiator.command(writes ? 0x2A : 0x28, 0, bytes, writes, initiator.memory(bytes),
                        [&answers](const Answer&) { ++answers; });
    }
    ASSERT_TRUE(world.clock.step());
  }
  EXPECT_FALSE(initiator.lost()) << world.connection->reason();
  EXPECT_TRUE(other.waits());
  EXPECT_GE(other.looks(), 19u);
  EXPECT_GT(answers, 500u);
}

TEST_P(IserSession, WhoReadsStaysWhileAnotherWaitsForMemory) { stays_while_another_waits(GetParam(), false, 131072); }

TEST_P(IserSession, WhoWritesStaysWhileAnotherWaitsForMemory) { stays_while_another_waits(GetParam(), true, 16384); }

TEST_P(IserSession, WhoTakesNothingEndsWhileAnotherWaitsForMemory) {
  IserWorld world(GetParam(), {}, std::size_t{32} << 20);
  ASSERT_TRUE(world.log_in());
  const WaitsForMemory other(*world.resources.data_buffers);
  ASSERT_TRUE(world.clock.run_until([&] { return world.initiator->has_window(); }));
  world.initiator->command(0x28, 0, 131072, false, world.initiator->memory(131072), [](const Answer&) {});
  ASSERT_TRUE(world.clock.run_until([&] { return world.figures.writes == 1; }));
  world.fabric.lose_packets(true);
  world.clock.run_for(std::chrono::seconds(7));
  EXPECT_EQ(world.connection->reason(),
            "The initiator takes no answers while others wait for the memory that they are in.");
  world.fabric.lose_packets(false);
}

TEST_P(IserSession, WhoTakesAnAnswerNowAndThenEndsWhileAnotherWaitsForMemory) {
  IserWorld world(GetParam(), {}, std::size_t{32} << 20);
  ASSERT_TRUE(world.log_in());
  const WaitsForMemory other(*world.resources.data_buffers);
  const auto read = [&world] {
    world.initiator->command(0x28, 0, 4096, false, world.initiator->memory(4096), [](const Answer&) {});
  };
  for (int sent = 0; sent < 60; ++sent) {  // the window opens
    ASSERT_TRUE(world.clock.run_until([&] { return world.initiator->has_window(); }));
    read();
  }
  ASSERT_TRUE(world.clock.run_until([&] { return world.initiator->under_way() == 0; }));
  while (world.initiator->has_window() && world.initiator->under_way() < 48) read();
  const auto came = world.figures.messages_in + world.initiator->under_way();
  ASSERT_TRUE(world.clock.run_until([&] { return world.figures.messages_in == came; }));
  const auto left = world.initiator->under_way();
  for (int i = 0; i < 13; ++i) {
    world.fabric.lose_packets(true);
    world.clock.run_for(iscsi_target::DataBuffers::kLook);
    world.fabric.lose_packets(false);
    world.clock.run_for(std::chrono::microseconds(30));
  }
  EXPECT_EQ(world.connection->reason(),
            "The initiator takes no answers while others wait for the memory that they are in.");
  EXPECT_GT(world.initiator->under_way(), 0u);
  EXPECT_LT(world.initiator->under_way(), left);
}

INSTANTIATE_TEST_SUITE_P(Seeds, IserSession, testing::Range<std::uint64_t>(1, 31));

}  // namespace
}  // namespace lockstep::test
