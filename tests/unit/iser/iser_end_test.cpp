// How a session over RDMA ends, its commands, and what a peer can do that breaks the rules: its connection ends, and
// nothing else.
#include <gtest/gtest.h>

#include "engine/rdma/real/errors.hpp"
#include "tests/unit/iser/iser_fixture.hpp"

namespace lockstep::test {
namespace {

using iscsi::Opcode;
using scsi::TaskManagement;

class IserEnd : public testing::TestWithParam<std::uint64_t> {
 protected:
  /// A write whose data is being read, or is about to be.
  std::uint32_t begin_write(std::uint32_t bytes = 262144) {
    EXPECT_TRUE(world.clock.run_until([this] { return world.initiator->has_window(); }));
    return world.initiator->command(0x2A, 0, bytes, true, world.initiator->memory(bytes),
                                    [this](const Answer& answer) { answers.push_back(answer); });
  }
  void manage(TaskManagement function, std::uint32_t referenced = 0) {
    auto header = iscsi::make_header<iscsi::TaskManagementRequestHeader>(Opcode::task_management_request);
    header.opcode |= iscsi::kImmediate;
    header.function = static_cast<std::uint8_t>(iscsi::kFinal | static_cast<std::uint8_t>(function));
    header.task_tag = 90'000;
    header.referenced_tag = referenced;
    header.ref_cmd_sn = world.initiator->cmd_sn.value() - 1;
    header.cmd_sn = world.initiator->cmd_sn.value();
    world.initiator->send(bytes_of(header));
  }
  bool ends_with(const std::string& reason) {
    if (!world.clock.run_until([this] { return world.host.closed_count == 1; }, std::chrono::seconds(20))) return false;
    EXPECT_EQ(world.connection->reason(), reason);
    return true;
  }
  iscsi::ScsiCommandHeader command(std::uint8_t opcode, std::uint8_t direction, std::uint32_t bytes) {
    auto header = iscsi::make_header<iscsi::ScsiCommandHeader>(Opcode::scsi_command, iscsi::kFinal | direction);
    header.task_tag = 555;
    header.expected_length = bytes;
    header.cmd_sn = world.initiator->cmd_sn.value();
    ++world.initiator->cmd_sn;
    header.cdb[0] = opcode;
    engine::store_be<std::uint16_t>(&header.cdb[7], static_cast<std::uint16_t>(bytes / 512));
    return header;
  }

  IserWorld world{GetParam()};
  SeededRandom random{GetParam() + 1000};
  std::vector<Answer> answers, others;
};

TEST_P(IserEnd, AnAbortIsAnsweredWhenNothingWritesToTheWritesMemoryAnyMore) {
  ASSERT_TRUE(world.log_in());
  world.initiator->on_other = [this](const Answer& answer) { others.push_back(answer); };
  const std::uint32_t tag = begin_write();
  for (std::uint32_t i = random.below(40); i > 0; --i) (void)world.clock.step(std::chrono::milliseconds(1));
  world.device.holds = true;  // what came whole before the abort stays there
  manage(TaskManagement::abort_task, tag);
  ASSERT_TRUE(world.clock.run_until([this] { return !world.device.held.empty() || !others.empty(); }));
  for (scsi::Command* held : std::exchange(world.device.held, {})) world.device.finish(*held, scsi::Status::good);
  ASSERT_TRUE(world.clock.run_until([this] { return !others.empty(); }));
  EXPECT_EQ(others[0].opcode(), Opcode::task_management_response);
  EXPECT_TRUE(world.device.failed == 0 ||
              std::ranges::all_of(world.device.storage, [](std::byte b) { return b == std::byte{0}; }));
  if (answers.empty()) world.initiator->forget(tag);
  world.device.holds = false;
  EXPECT_TRUE(world.ask_and_wait(0x28, 0, 4096, false, world.initiator->memory(4096))) << "the session goes on";
}

TEST_P(IserEnd, AConnectionThatIsLostAtAnyMomentLeavesNothingBehind) {
  ASSERT_TRUE(world.log_in());
  for (int i = 0; i < 12; ++i) {
    if (random.one_in(2)) {
      begin_write(random.one_in(2) ? 4096 : 131072);
    } else if (world.initiator->has_window()) {
      world.initiator->command(0x28, 0, 65536, false, world.initiator->memory(65536), [](const Answer&) {});
    }
    for (std::uint32_t n = random.below(12); n > 0; --n) (void)world.clock.step(std::chrono::milliseconds(1));
  }
  switch (random.below(4)) {
    case 0:
      world.fabric.lose(world.fabric.connections().front());
      break;
    case 1:
      world.fabric.remove_device();
      break;
    case 2:
      world.connection->reset("The node stopped serving.");
      break;
    default:
      world.initiator->close();
  }
  EXPECT_TRUE(world.clock.run_until([this] { return world.host.closed_count == 1; }));
}

TEST_P(IserEnd, ACallThatIsGivenUpWhileItIsAnswered) {
  world.initiator->call("10.0.0.1:3260");
  for (std::uint32_t i = random.below(8); i > 0; --i) (void)world.clock.step(std::chrono::milliseconds(1));
  if (random.one_in(2) && world.connection) world.connection->reset("The node stopped serving.");
  world.initiator->close();
  world.clock.run_for(std::chrono::seconds(40));
  EXPECT_EQ(world.host.closed_count, world.connection ? 1 : 0);
}

TEST_P(IserEnd, ARequestThatFailedIsCountedByItsStatusAndAConnectionThatWasClosedIsNot) {
  ASSERT_TRUE(world.log_in());
  const auto count = [&](rdma::Status status) { return world.figures.errors[static_cast<std::size_t>(status)]; };
  const bool fails = random.one_in(2);
  if (fails) {
    world.fabric.fail_next(rdma::Work::send, make_error_code(rdma::RdmaErrc::no_answer));
    begin_write(4096);
  } else {
    world.initiator->close();
  }
  ASSERT_TRUE(world.clock.run_until([this] { return world.host.closed_count == 1; }, std::chrono::seconds(20)));
  EXPECT_EQ(count(rdma::Status::no_answer), fails ? 1u : 0u);
  EXPECT_EQ(std::ranges::count(world.figures.errors, 0u), fails ? 8 : 9);
}

TEST_P(IserEnd, ALogoutIsAnsweredBeforeTheConnectionEnds) {
  ASSERT_TRUE(world.log_in());
  world.initiator->on_other = [this](const Answer& answer) { others.push_back(answer); };
  const std::uint64_t before = world.figures.messages_out;
  auto header = iscsi::make_header<iscsi::LogoutRequestHeader>(Opcode::logout_request);
  header.reason = iscsi::kFinal;
  header.task_tag = 5;
  header.cmd_sn = world.initiator->cmd_sn.value();
  world.initiator->send(bytes_of(header));
  EXPECT_TRUE(ends_with("The initiator logged out."));
  // The end may be told before the answer is looked at.
  for (const Answer& answer : others) EXPECT_EQ(answer.opcode(), Opcode::logout_response);
  EXPECT_EQ(world.figures.messages_out, before + 1);
}

// ---- Peers that break the rules ----

TEST_P(IserEnd, OfAHello) {
  ASSERT_TRUE(world.log_in());
  std::vector<std::byte> hello(76);
  hello[0] = std::byte{0x20};
  world.initiator->send_raw(hello);
  EXPECT_TRUE(ends_with("The connection was lost: a message is no iSCSI PDU."));
}

TEST_P(IserEnd, OfAMessageThatIsShorterThanItsPduSays) {
  ASSERT_TRUE(world.log_in());
  auto header = bytes_of(command(0x2A, iscsi::kWrite, 4096));
  std::vector<std::byte> bytes(iser::kHeaderSize);
  iser::write_header({}, bytes);
  bytes.insert(bytes.end(), header.begin(), header.end());
  bytes[iser::kHeaderSize + 6] = std::byte{16};  // 4 KiB, of which 1,000 bytes come
  bytes.resize(bytes.size() + 1000);
  world.initiator->send_raw(bytes);
  EXPECT_TRUE(ends_with("The connection was lost: a message has another length than its PDU says."));
}

TEST_P(IserEnd, OfAMessageLongerThanItsReceive) {
  ASSERT_TRUE(world.log_in());
  std::vector<std::byte> bytes(20'000);
  bytes[0] = std::byte{0x10};
  world.initiator->send_raw(bytes);
  EXPECT_TRUE(world.clock.run_until([this] { return world.host.closed_count == 1; }));
}

TEST_P(IserEnd, OfDataThatNobodyAskedFor) {
  ASSERT_TRUE(world.log_in());
  world.initiator->send(bytes_of(iscsi::make_header<iscsi::DataOutHeader>(Opcode::scsi_data_out, iscsi::kFinal)), {},
                        std::vector<std::byte>(512));
  EXPECT_TRUE(ends_with("The connection was lost: data came that nobody reads."));
}

TEST_P(IserEnd, OfAWriteThatNamesNoMemory) {
  ASSERT_TRUE(world.log_in());
  world.initiator->send(bytes_of(command(0x2A, iscsi::kWrite, 65536)));
  EXPECT_TRUE(ends_with("The connection was lost: a command names no memory for its data."));
}

TEST_P(IserEnd, OfAReadThatNamesNoMemory) {
  ASSERT_TRUE(world.log_in());
  world.initiator->send(bytes_of(command(0x28, iscsi::kRead, 4096)));
  EXPECT_TRUE(ends_with("The connection was lost: a command names no memory for its data."));
}

TEST_P(IserEnd, OfAKeyThatIsNone) {
  ASSERT_TRUE(world.log_in());
  const bool reads = random.one_in(2);
  iser::Tagged tagged;
  (reads ? tagged.read : tagged.write) = rdma::Remote{0x1000, 0xdead};
  world.initiator->send(bytes_of(command(reads ? 0x28 : 0x2A, reads ? iscsi::kRead : iscsi::kWrite, 65536)), tagged);
  EXPECT_TRUE(world.clock.run_until([this] { return world.host.closed_count == 1; }));
}

TEST_P(IserEnd, OfMemoryThatIsShorterThanTheCommandSays) {
  ASSERT_TRUE(world.log_in());
  auto memory = world.initiator->memory(4096);
  const auto key = world.other_fabric.grant(rdma::Domain::initiators, memory.span(), true, true);
  const bool reads = random.one_in(2);
  iser::Tagged tagged;
  (reads ? tagged.read : tagged.write) = key;
  world.initiator->send(bytes_of(command(reads ? 0x28 : 0x2A, reads ? iscsi::kRead : iscsi::kWrite, 8192)), tagged);
  EXPECT_TRUE(world.clock.run_until([this] { return world.host.closed_count == 1; }));
  world.other_fabric.revoke(key.key);
}

TEST_P(IserEnd, OfAnInitiatorThatWouldHaveLongerAnswersThanThereAreInTheMidstOfItsSession) {
  ASSERT_TRUE(world.log_in());
  world.initiator->on_other = [this](const Answer& answer) { others.push_back(answer); };
  std::string text = std::string("MaxRecvDataSegmentLength=16777215") + '\0';
  for (int i = 0; i < 126; ++i) text += std::string(60, static_cast<char>('A' + i % 26)) + '=' + '\0';
  auto header = iscsi::make_header<iscsi::TextRequestHeader>(Opcode::text_request, iscsi::kFinal);
  header.task_tag = 7, header.transfer_tag = iscsi::kReservedTag;
  header.cmd_sn = world.initiator->cmd_sn.value();
  ++world.initiator->cmd_sn;
  world.initiator->send(bytes_of(header), {}, std::as_bytes(std::span(text)));
  ASSERT_TRUE(world.clock.run_until([this] { return !others.empty(); }));
  EXPECT_EQ(others[0].opcode(), Opcode::text_response);
  EXPECT_EQ(others[0].data.size(), 128u);
}

// ---- Memory ----

// The pool has next to none: windows narrow, commands wait or are refused, and no message ever finds no receive.
class IserShortOfMemory : public testing::TestWithParam<std::uint64_t> {};

TEST_P(IserShortOfMemory, WindowsNarrowAndEverythingEnds) {
  SeededRandom random(GetParam());
  IserWorld world(GetParam(), {}, std::size_t{32} << 20);
  world.messages.set_limit(4 * 65536 + std::size_t{8192} * (16 + random.below(30)));
  ASSERT_TRUE(world.log_in());
  constexpr unsigned kCommands = 200;
  unsigned ended = 0;
  for (unsigned sent = 0; sent < kCommands;) {
    const std::uint32_t bytes = random.one_in(3) ? 4096 : random.one_in(2) ? 65536 : 1u << 20;
    auto memory =
        world.initiator->has_window() && !random.one_in(8) ? world.initiator->memory(bytes) : engine::Buffer{};
    if (!memory) {
      ASSERT_TRUE(world.clock.step(std::chrono::seconds(30))) << "nothing will ever happen again";
      continue;
    }
    ++sent;
    const bool writes = random.one_in(2);
    world.initiator->command(writes ? 0x2A : 0x28, 0, bytes, writes, std::move(memory),
                             [&](const Answer&) { ++ended; });
  }
  EXPECT_TRUE(world.clock.run_until([&] { return ended == kCommands; }));
  EXPECT_FALSE(world.initiator->lost()) << world.connection->reason();
  EXPECT_LE(world.messages.committed(), world.messages.limit());
}

// What one connection has beyond its floor another one gets back, and nobody's window stays shut.
TEST_P(IserShortOfMemory, BusyConnectionsLeaveEachItsFloor) {
  SeededRandom random(GetParam() * 7 + 1);
  IserWorld world(GetParam());
  // Four floors of a session, and two messages beyond; a stranger's part is a quarter.
  const std::size_t kSession =
      engine::BufferPool::block_size(iser::kHosts.memory()) + std::size_t{iser::kHosts.first} * 8192;
  world.messages.set_limit(4 * kSession + 2 * 8192);
  ASSERT_TRUE(world.log_in());
  for (const char* from : {"10.0.0.2", "10.0.0.3", "10.0.0.4"}) ASSERT_TRUE(world.add_initiator(from).logged_in());
  EXPECT_FALSE(world.add_initiator("10.0.0.5").logged_in()) << "there is no room for a fifth";
  world.clock.run_for(std::chrono::seconds(1));
  world.more_initiators.pop_back();
  std::vector<IserInitiator*> all{&*world.initiator};
  for (auto& one : world.more_initiators) all.push_back(one.get());
  std::vector<unsigned> ended(all.size()), sent(all.size());
  constexpr unsigned kEach = 100;
  const auto done = [&] { return std::ranges::all_of(ended, [](unsigned n) { return n == kEach; }); };
  while (!done()) {
    const std::size_t who = random.below(static_cast<std::uint32_t>(all.size()));
    auto memory = sent[who] < kEach && all[who]->has_window() ? all[who]->memory(8192) : engine::Buffer{};
    if (!memory) {
      ASSERT_TRUE(world.clock.step(std::chrono::seconds(10))) << "nothing will ever happen again";
      continue;
    }
    ++sent[who];
    all[who]->command(0x2A, 0, 8192, true, std::move(memory), [&ended, who](const Answer&) { ++ended[who]; });
  }
  for (IserInitiator* one : all) {
    EXPECT_FALSE(one->lost());
    EXPECT_TRUE(one->faults.empty());
  }
}

TEST_P(IserShortOfMemory, StrangersLeaveRoomForSessions) {
  IserWorld world(GetParam());
  world.messages.set_limit(std::size_t{4} << 20);
  ASSERT_TRUE(world.log_in());
  for (int i = 0; i < 40; ++i) {
    world.add_caller("10.0.0.1", false);
    world.clock.run_for(std::chrono::milliseconds(5));
  }
  EXPECT_GT(world.refused, 0);
  EXPECT_LE(world.messages.committed(), (std::size_t{4} << 20) / 4 + 65536 * 4);
  EXPECT_TRUE(world.ask_and_wait(0x28, 0, 4096, false, world.initiator->memory(4096)));
}

// Commands that wait for memory narrow the window: never is more promised than a session may have.
TEST_P(IserShortOfMemory, TheWindowIsNeverWiderThanTheQueueDepth) {
  IserWorld world(GetParam(), {}, std::size_t{32} << 20);
  world.settings.queue_depth = 64;
  world.device.holds = true;
  ASSERT_TRUE(world.log_in());
  unsigned pongs = 0;
  world.initiator->on_other = [&pongs](const Answer&) { ++pongs; };
  for (unsigned asked = 1; asked <= 150; ++asked) {
    auto memory = world.initiator->has_window() ? world.initiator->memory(1 << 20) : engine::Buffer{};
    if (memory) world.initiator->command(0x2A, 0, 1 << 20, true, std::move(memory), [](const Answer&) {});
    auto header = iscsi::make_header<iscsi::NopOutHeader>(Opcode::nop_out, iscsi::kFinal);
    header.opcode |= iscsi::kImmediate;
    header.task_tag = 100'000 + asked, header.transfer_tag = iscsi::kReservedTag;
    header.cmd_sn = world.initiator->cmd_sn.value();
    world.initiator->send(bytes_of(header));
    ASSERT_TRUE(world.clock.run_until([&] { return pongs == asked; }));
    const auto promised = world.initiator->max_cmd_sn.value() - world.initiator->cmd_sn.value() + 1;
    ASSERT_LE(promised + world.initiator->under_way(), 64u);
  }
  EXPECT_GT(world.initiator->under_way(), 20u);
}

INSTANTIATE_TEST_SUITE_P(Seeds, IserShortOfMemory, testing::Range<std::uint64_t>(1, 13));
INSTANTIATE_TEST_SUITE_P(Seeds, IserEnd, testing::Range<std::uint64_t>(1, 61));

}  // namespace
}  // namespace lockstep::test
