// The end of a connection whose transport still reads and writes memory for a while after it was closed.
#include <gtest/gtest.h>

#include "tests/unit/iscsi_session/core_session.hpp"
#include "tests/unit/iscsi_session/late_transport.hpp"

namespace lockstep::test {
namespace {

/// Answers reads out of memory of its own, which it spoils as soon as it may; pulls the data of writes.
class SpoilingDevice final : public PlainDevice {
 public:
  void on_nexus_closed(scsi::Nexus&) override { ++nexus_closed; }
  void execute(scsi::Command& command) override {
    ++executed;
    if (command.expected_out != 0) {
      return command.pull(std::span(memory).first(command.expected_out), [this, &command](std::error_code error) {
        ++pulls_ended;
        std::ranges::fill(memory, std::byte{0xDD});
        command.status = error ? scsi::Status::task_aborted : scsi::Status::good;
        command.complete();
      });
    }
    command.wanted_in = command.expected_in;
    command.data_released = [this] {
      ++released;
      std::ranges::fill(memory, std::byte{0xDD});
    };
    command.complete(std::span(memory).first(command.expected_in));
  }

  std::vector<std::byte> memory{std::vector<std::byte>(8192, std::byte{0x11})};
  int executed = 0, released = 0, pulls_ended = 0, nexus_closed = 0;
};

class LateEnd : public CoreSession {
 protected:
  LateEnd() {
    resources.data_buffers = std::make_unique<iscsi_target::DataBuffers>(clock, pool);
    auto late = std::make_unique<LateTransport>(stream, resources.pdus);
    transport = late.get();
    connect(device, std::move(late));
    protocol = transport;
    log_in({});
  }
  ~LateEnd() override { connection.reset(); }

  void encode() {
    std::array<std::span<const std::byte>, 32> pieces;
    ASSERT_NE(protocol->gather(pieces), 0u);
  }

  SpoilingDevice device;
  LateTransport* transport = nullptr;
};

TEST_F(LateEnd, AnAnswersMemoryIsTheTransportsUntilItHasEnded) {
  feed(read(4096));
  encode();
  connection->reset("The test says so.");
  EXPECT_EQ(device.released, 0);
  EXPECT_EQ(host->closed_count, 0);
  transport->end();
  EXPECT_EQ(device.released, 1);
  EXPECT_EQ(host->closed_count, 1);
}

TEST_F(LateEnd, AWritesMemoryIsTheTransportsUntilItHasEnded) {
  feed(write(4096));
  encode();  // the R2T
  connection->reset("The test says so.");
  EXPECT_EQ(device.pulls_ended, 0);
  transport->end();
  EXPECT_EQ(device.pulls_ended, 1);
  EXPECT_EQ(host->closed_count, 1);
}

TEST_F(LateEnd, AResetFromAnotherSessionDoesNotEndAWriteBeforeTheTransportHasEnded) {
  feed(write(4096));
  encode();
  connection->reset("The test says so.");
  bool is_quiet = false;
  connection->quiesce({}, [&] { is_quiet = true; });
  EXPECT_EQ(device.pulls_ended, 0);
  EXPECT_FALSE(is_quiet);
  transport->end();
  EXPECT_EQ(device.pulls_ended, 1);
  EXPECT_TRUE(is_quiet);
}

TEST_F(LateEnd, ACommandWhoseStatusIsEncodedLivesUntilTheTransportHasEnded) {
  feed(read(512));
  encode();
  EXPECT_EQ(resources.commands.in_use(), 1u);
  connection->reset("The test says so.");
  EXPECT_EQ(resources.commands.in_use(), 1u);
  transport->end();
  EXPECT_EQ(resources.commands.in_use(), 0u);
}

TEST_F(LateEnd, AnAnswersMemoryIsGivenBackWithItsLastByteAndNotBefore) {
  feed(read(4096));
  std::array<std::span<const std::byte>, 32> pieces;
  const std::size_t count = protocol->gather(pieces);
  std::size_t bytes = 0;
  for (const auto& piece : std::span(pieces).first(count)) bytes += piece.size();
  protocol->sent(bytes - 1);
  EXPECT_EQ(device.released, 0);
  EXPECT_EQ(resources.commands.in_use(), 1u);
  protocol->sent(1);
  EXPECT_EQ(device.released, 1);
  EXPECT_EQ(resources.commands.in_use(), 0u);
  connection->reset("The test is over.");
  transport->end();
}

TEST_F(LateEnd, ATagIsFreeWhenItsStatusIsEncodedAndTheCommandLivesUntilItIsSent) {
  feed(read(512));
  encode();
  --tag;
  feed(read(512));  // the initiator may have seen the first bytes of the answer
  encode();
  EXPECT_EQ(device.executed, 2);
  EXPECT_EQ(resources.commands.in_use(), 2u);
  connection->reset("The test says so.");
  EXPECT_EQ(device.released, 0);
  transport->end();
  EXPECT_EQ(device.released, 2);
}

TEST_F(LateEnd, NothingBeginsWhileTheConnectionEnds) {
  std::vector<engine::Buffer> held;
  while (auto buffer = pool.allocate(std::size_t{1} << 20)) held.push_back(std::move(buffer));
  feed(write(1 << 20));
  EXPECT_EQ(device.executed, 0) << "it waits for memory";
  connection->reset("The test says so.");
  held.clear();
  clock.advance(iscsi_target::DataBuffers::kLook);
  EXPECT_EQ(device.executed, 0);
  transport->end();
  EXPECT_EQ(device.executed, 0);
  EXPECT_EQ(host->closed_count, 1);
}

TEST_F(LateEnd, WhatTheDeviceServerEndsMeanwhileIsNotTold) {
  feed(read(512));
  connection->reset("The test says so.");
  EXPECT_TRUE(gathered().empty());
  connection->request_logout(1);
  connection->reset("Once more.");
  EXPECT_EQ(connection->reason(), "The test says so.");
  transport->end();
  EXPECT_EQ(host->closed_count, 1);
}

TEST_F(LateEnd, TheNexusIsClosedOnlyAfterTheTransportHasEnded) {
  connection->reset("The test says so.");
  EXPECT_EQ(host->closed_count, 0);
  transport->end();
  EXPECT_EQ(host->closed_count, 1);
  EXPECT_EQ(device.nexus_closed, 0);
  connection->destroy_session();
  EXPECT_EQ(device.nexus_closed, 1);
}

class LateEndOfALogin : public CoreSession {};

TEST_F(LateEndOfALogin, IsToldOnceWhenTheTransportHasEndedAndNotByItsTimer) {
  SpoilingDevice device;
  auto late = std::make_unique<LateTransport>(stream, resources.pdus);
  LateTransport* const transport = late.get();
  connect(device, std::move(late));
  protocol = transport;
  feed(std::vector<std::byte>(iscsi::kBhsSize / 2));  // a login that has begun
  connection->reset("The test says so.");
  clock.advance(settings.login_timeout * 2);
  EXPECT_EQ(host->closed_count, 0);
  transport->end();
  EXPECT_EQ(host->closed_count, 1);
  EXPECT_EQ(connection->reason(), "The test says so.");
  connection.reset();
}

}  // namespace
}  // namespace lockstep::test
