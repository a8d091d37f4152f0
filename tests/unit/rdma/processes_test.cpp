// Two processes: the other one is killed or stopped in the midst of moving data. From close()'s call back on nothing
// reads or writes this one's memory, whatever the other is about.
#include <csignal>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/rdma/contract_worlds.hpp"
#include "tests/unit/rdma/peer/peer.hpp"

namespace lockstep::test {
namespace {

constexpr const char* kAddress = "127.0.0.1:3261";

/// A process that listens, until it is killed at the latest when this ends.
class Peer {
 public:
  explicit Peer(const TestFolder& folder) {
    std::array<int, 2> pipe{};
    EXPECT_EQ(::pipe2(pipe.data(), O_CLOEXEC), 0);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, pipe[1], STDOUT_FILENO);
    ::setenv(BetweenFabric::kFolderVariable, folder.path().c_str(), 1);
    std::string program = PEER_PROGRAM, address = kAddress;
    const std::array<char*, 3> arguments = {program.data(), address.data(), nullptr};
    EXPECT_EQ(::posix_spawn(&process_, program.c_str(), &actions, nullptr, arguments.data(), environ), 0);
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(pipe[1]);
    char first = 0;
    EXPECT_EQ(::read(pipe[0], &first, 1), 1) << "it does not listen";
    ::close(pipe[0]);
  }
  ~Peer() {
    if (process_ != 0) kill();
  }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;
  void signal(int number) const { ::kill(process_, number); }
  void stop() const {
    int status = 0;
    signal(SIGSTOP);
    EXPECT_EQ(::waitpid(process_, &status, WUNTRACED), process_);
  }
  void kill() {
    signal(SIGKILL);
    ::waitpid(std::exchange(process_, 0), nullptr, 0);
  }

 private:
  pid_t process_ = 0;
};

struct RdmaBetweenProcesses : testing::Test {
  RdmaBetweenProcesses() {
    fabric->add_arena(memory);
    completions = fabric->attach(reactor);
  }
  ~RdmaBetweenProcesses() override { close(); }

  void run_for(engine::Duration time) {
    reactor.call_after(time, [this] { reactor.stop(); });
    reactor.run();
  }
  template <class Condition>
  void run_until(const Condition& condition) {
    const auto end = reactor.now() + std::chrono::seconds(20);
    while (!condition()) {
      ASSERT_LT(reactor.now(), end) << "it did not come about";
      run_for(std::chrono::milliseconds(1));
    }
  }
  /// Stands when the peer has said where its memory is.
  void connect() {
    constexpr rdma::Wanted kWanted = {.sends = 16, .receives = 8, .reads = 4, .max_inline = 64, .windows = 2};
    side.pair = fabric->connect(*completions, rdma::Domain::link, "127.0.0.1:0", kAddress, kWanted, {}, side);
    const auto place = room().first(sizeof remote);
    side.pair->receive(place, {}, 1);
    run_until([&] { return side.was_told("receive 1") || side.was_told("lost"); });
    std::memcpy(&remote, place.data(), sizeof remote);
  }
  void close() {
    if (side.pair == nullptr) return;
    side.close();
    run_until([&] { return side.closed; });
    side.pair.reset();
  }
  /// What the peer writes to; and what this one reads into.
  [[nodiscard]] std::span<std::byte> window() { return std::span(memory).first(kPeerWindow); }
  [[nodiscard]] std::span<std::byte> room() { return std::span(memory).subspan(kPeerWindow); }
  /// The peer writes into a window from now on, and has begun to.
  rdma::Remote have_it_written() {
    const auto opened = side.pair->expose(window(), rdma::Access::write);
    const std::array bytes = {std::as_bytes(std::span(&opened, 1))};
    side.pair->send({.pieces = bytes, .invalidates = {}, .id = 2});
    run_until([&] { return window()[0] == kPeerByte; });
    return opened;
  }
  void expect_that_nobody_writes() {
    std::ranges::fill(memory, std::byte{7});
    run_for(std::chrono::milliseconds(50));
    EXPECT_EQ(std::ranges::count(memory, std::byte{7}), std::ssize(memory));
  }

  TestFolder folder;
  engine::Reactor reactor;
  std::vector<std::byte> memory = std::vector<std::byte>(2 * kPeerWindow);
  std::unique_ptr<BetweenFabric> fabric = *BetweenFabric::open(folder.path());
  std::unique_ptr<rdma::Completions> completions;
  Side side;
  rdma::Remote remote;
};

TEST_F(RdmaBetweenProcesses, ThePeersMemoryIsRead) {
  const Peer peer(folder);
  connect();
  side.pair->read(room(), remote, 3);
  run_until([&] { return side.was_told("read 3"); });
  EXPECT_EQ(std::ranges::count(room(), kPeerByte), std::ssize(room()));
}

TEST_F(RdmaBetweenProcesses, ThePeerWritesIntoTheWholeWindow) {
  const Peer peer(folder);
  connect();
  (void)have_it_written();
  run_until([&] { return std::ranges::count(window(), kPeerByte) == std::ssize(window()); });
}

TEST_F(RdmaBetweenProcesses, APeerThatIsKilledWhileItIsReadLosesTheConnection) {
  Peer peer(folder);
  connect();
  for (std::uint64_t id = 1; id <= 4; ++id) side.pair->read(room(), remote, id);
  run_until([&] { return room()[0] == kPeerByte; });
  peer.kill();
  run_until([&] { return side.was_told("lost"); });
  EXPECT_EQ(side.lost, std::errc::connection_reset);
  close();
  expect_that_nobody_writes();
}

TEST_F(RdmaBetweenProcesses, APeerThatIsKilledWhileItWritesLosesTheConnection) {
  Peer peer(folder);
  connect();
  (void)have_it_written();
  peer.kill();
  run_until([&] { return side.was_told("lost"); });
  close();
  expect_that_nobody_writes();
}

TEST_F(RdmaBetweenProcesses, AnotherMayListenWhereOneWasKilled) {
  for (int round = 0; round < 3; ++round) {
    Peer peer(folder);
    connect();
    EXPECT_FALSE(side.was_told("lost")) << side.lost.message();
    if (round == 1) peer.stop();
    peer.kill();
    close();
    side.told.clear();
    side.closed = false;
  }
}

TEST_F(RdmaBetweenProcesses, APeerThatIsStoppedIsSilentAndGoesOn) {
  const Peer peer(folder);
  connect();
  peer.stop();
  side.pair->read(room(), remote, 3);
  run_for(std::chrono::milliseconds(300));
  EXPECT_FALSE(side.was_told("read 3") || side.was_told("lost"));
  peer.signal(SIGCONT);
  run_until([&] { return side.was_told("read 3"); });
}

TEST_F(RdmaBetweenProcesses, ClosingNeedsNoPeerAndNothingIsWrittenWhenItGoesOn) {
  const Peer peer(folder);
  connect();
  (void)have_it_written();
  side.pair->read(room(), remote, 3);
  peer.stop();
  close();
  expect_that_nobody_writes();
  peer.signal(SIGCONT);
  expect_that_nobody_writes();
}

TEST_F(RdmaBetweenProcesses, AWindowIsShutThoughThePeerIsStoppedInTheMidstOfWritingToIt) {
  const Peer peer(folder);
  connect();
  const auto opened = have_it_written();
  run_until([&] { return side.was_told("send 2"); });
  peer.stop();
  side.pair->hide(opened.key, 4);
  // What the peer had under way may come before the completion, and then loses the connection.
  run_until([&] { return side.was_told("hide 4") || side.was_told("lost"); });
  expect_that_nobody_writes();
  peer.signal(SIGCONT);
  run_until([&] { return side.was_told("lost"); });
  expect_that_nobody_writes();
}

TEST_F(RdmaBetweenProcesses, ACallToAPeerThatIsStoppedIsOverAfterAWhile) {
  const Peer peer(folder);
  peer.stop();
  connect();
  EXPECT_EQ(side.lost, std::errc::timed_out);
}

}  // namespace
}  // namespace lockstep::test
