// The fabric between processes with a thread for each side, as daemons with several reactors have it.
#include <latch>

#include <gmock/gmock.h>

#include "tests/unit/rdma/contract_worlds.hpp"

namespace lockstep::test {
namespace {

constexpr const char* kAddress = "127.0.0.1:3260";
constexpr std::uint64_t kMessages = 2000;
constexpr rdma::Wanted kWanted = {.sends = 16, .receives = 16, .reads = 4, .max_inline = 64};

/// One side on a reactor of its own: sends, one after the other, what the other receives.
struct Thread {
  explicit Thread(BetweenFabric& fabric) {
    fabric.add_arena(memory);
    completions = fabric.attach(reactor);
    side.when_completed = [this](const rdma::Completion& told) { completed(told); };
  }
  ~Thread() {
    reactor.stop();
    reactor.join();
    side.pair.reset();
  }
  void receive(std::uint64_t id) { side.pair->receive(std::span(memory).subspan(id * 4096, 4096), {}, id); }
  void receive_all() {
    for (std::uint64_t id = 1; id <= kWanted.receives; ++id) receive(id);
  }
  void send_next() {
    const std::array pieces = {std::span<const std::byte>(memory).first(4096)};
    if (++sent <= kMessages) side.pair->send({.pieces = pieces, .invalidates = {}, .id = sent});
  }
  void completed(const rdma::Completion& told) {
    if (told.error) return;
    if (told.work == rdma::Work::send) return send_next();
    receive(told.id);
    if (++received == kMessages) done.count_down();
  }
  void close() {
    reactor.post([this] { side.pair->close([this] { closed.count_down(); }); });
  }

  std::vector<std::byte> memory = std::vector<std::byte>(20 * 4096);
  engine::Reactor reactor;
  std::unique_ptr<rdma::Completions> completions;
  Side side;
  std::uint64_t sent = 0, received = 0;
  std::latch done{1}, closed{1};
};

TEST(RdmaBetweenThreads, TwoReactorsTalkWhileListenersComeAndGo) {
  const TestFolder folder;
  const auto fabric = *BetweenFabric::open(folder.path());
  {
    Thread caller(*fabric), answerer(*fabric);
    caller.reactor.start();
    answerer.reactor.start();
    auto listener = fabric->listen(*answerer.completions, kAddress, [&](std::unique_ptr<rdma::Call> call) {
      answerer.side.pair =
          call->accept(*answerer.completions, rdma::Domain::link, kWanted, bytes_of("answer"), answerer.side);
      answerer.side.when_up = [&] { answerer.send_next(); };
      answerer.receive_all();
    });
    ASSERT_TRUE(listener);
    caller.side.when_up = [&] { caller.send_next(); };
    caller.reactor.post([&] {
      caller.side.pair =
          fabric->connect(*caller.completions, rdma::Domain::link, "", kAddress, kWanted, {}, caller.side);
      caller.receive_all();
    });
    for (int round = 0; round < 50; ++round) {
      ASSERT_TRUE(fabric->listen(*caller.completions, "127.0.0.1:0", [](std::unique_ptr<rdma::Call>) {}));
    }
    caller.done.wait();
    answerer.done.wait();
    listener->reset();
    caller.close();
    answerer.close();
    caller.closed.wait();
    answerer.closed.wait();
  }
  EXPECT_EQ(fabric->faults(), std::vector<std::string>{});
}

}  // namespace
}  // namespace lockstep::test
