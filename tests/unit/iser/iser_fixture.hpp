#pragma once
// An initiator and a target on a fabric that moves data at the worst moment, and a clock that both live by.
#include <deque>

#include "iscsi_target/session/iser_transfers.hpp"
#include "tests/unit/iser/event_clock.hpp"
#include "tests/unit/iser/iser_initiator.hpp"
#include "tests/unit/iser/memory_device.hpp"

namespace lockstep::test {

struct IserWorld {
  explicit IserWorld(std::uint64_t seed, IserInitiator::Options options = {},
                     std::size_t pool_bytes = std::size_t{64} << 20, FakeDelays delays = {})
      : random(seed),
        pool(pool_bytes, engine::BufferPool::Layout::by_size),
        fabric(clock, random, delays),
        device(clock, pool, random, std::size_t{8} << 20) {
    fabric.add_arena(pool.arena());
    fabric.add_arena(message_pool.arena());
    other_fabric.add_arena(their_pool.arena());
    completions = fabric.attach(clock);
    resources.data_buffers = std::make_unique<iscsi_target::DataBuffers>(clock, pool);
    iscsi_target::Target target;
    target.name = kTarget;
    target.device_servers = {&device};
    registry.put(std::move(target));
    listener = *fabric.listen(*completions, "10.0.0.1:3260",
                              [this](std::unique_ptr<rdma::Call> call) { accept(std::move(call)); });
    options.target = kTarget;
    initiator.emplace(other_fabric, clock, their_pool, std::move(options));
  }
  ~IserWorld() {
    initiator->close();
    for (auto& one : more_initiators) one->close();
    if (connection) connection->reset("The test is over.");
    for (auto& one : more) one->reset("The test is over.");
    device.holds = false;
    for (scsi::Command* command : std::exchange(device.held, {})) device.finish(*command, scsi::Status::good);
    clock.run_for(std::chrono::seconds(10));
    EXPECT_EQ(host.closed_count, (connection ? 1 : 0) + static_cast<int>(more.size()));
    connection.reset();
    more.clear();
    initiator.reset();
    more_initiators.clear();
    EXPECT_EQ(resources.commands.in_use(), 0u);
    EXPECT_EQ(resources.pdus.in_use(), 0u);
    EXPECT_EQ(pool.in_use(), 0u);
    EXPECT_EQ(message_pool.in_use(), 0u);
    EXPECT_EQ(messages.committed(), 0u);
    for (const std::string& fault : fabric.faults()) ADD_FAILURE() << fault;
    EXPECT_EQ(fabric.counts().no_receive, 0u);
    EXPECT_EQ(figures.queues.connections, 0u);
    EXPECT_EQ(figures.queues.work, 0u);
    EXPECT_EQ(figures.queues.depth, 0u);
    listener.reset();
    completions.reset();
  }

  void accept(std::unique_ptr<rdma::Call> call) {
    std::string address = iscsi_target::host_of(call->peer_address());
    auto transport =
        iser::Transport::make(std::move(call), {.completions = *completions,
                                                .pool = pool,
                                                .messages = messages,
                                                .share = std::move(address),
                                                .pdus = resources.pdus,
                                                .clock = clock,
                                                .figures = figures,

                                                .at_end_of_turn = [this](engine::TurnHook& hook) { ask(hook); }});
    if (!transport) return void(++refused);
    auto transfers = std::make_unique<iscsi_target::IserTransfers>(*transport);
    auto fresh = std::make_unique<iscsi_target::TargetConnection>(std::move(transport), std::move(transfers), host,
                                                                  resources, registry, settings);
    connection ? more.push_back(std::move(fresh)) : void(connection = std::move(fresh));
  }
  /// One more, which has logged in. `from`: an address, "10.0.0.9".
  IserInitiator& add_initiator(const std::string& from = "10.0.0.1") {
    auto& one = add_caller(from, true);
    clock.run_until([&one] { return one.logged_in() || one.lost(); });
    return one;
  }
  /// One more, which may never log in.
  IserInitiator& add_caller(const std::string& from, bool logs_in) {
    auto& one = more_initiators.emplace_back(std::make_unique<IserInitiator>(
        other_fabric, clock, their_pool,
        IserInitiator::Options{
            .invalidates = true, .immediate = 8192, .target = kTarget, .logs_in = logs_in, .from = from + ":0"}));
    one->call("10.0.0.1:3260");
    return *one;
  }
  // Every event is a turn of its own.
  void ask(engine::TurnHook& hook) {
    if (std::ranges::find(asked, &hook) != asked.end()) return;
    asked.push_back(&hook);
    clock.call_after(engine::Duration{0}, [this, &hook] {
      if (std::erase(asked, &hook) != 0 && connection) hook.end_of_turn();
    });
  }

  bool log_in() {
    initiator->call("10.0.0.1:3260");
    return clock.run_until([this] {
      return initiator->logged_in() || initiator->lost() || !initiator->login_error.empty();
    }) && initiator->logged_in();
  }
  /// Each once: the answer to a command that is sent when the window lets it.
  std::optional<Answer> ask_and_wait(std::uint8_t opcode, std::uint32_t lba, std::uint32_t bytes, bool write,
                                     engine::Buffer memory) {
    std::optional<Answer> got;
    if (!clock.run_until([this] { return initiator->has_window(); })) return got;
    initiator->command(opcode, lba, bytes, write, std::move(memory), [&got](const Answer& answer) { got = answer; });
    clock.run_until([this, &got] { return got || initiator->lost(); });
    return got;
  }

  EventClock clock;
  SeededRandom random;
  engine::BufferPool pool;
  engine::BufferPool their_pool{std::size_t{512} << 20};
  FakeFabric fabric;
  FakeFabric other_fabric{fabric};
  std::unique_ptr<rdma::Completions> completions;
  MemoryDevice device;
  FakeHost host{device};
  iscsi_target::TargetRegistry registry;
  iscsi_target::SessionSettings settings;
  iscsi_target::SessionResources resources{clock, random, pool};
  iser::Figures figures;
  engine::BufferPool message_pool{std::size_t{32} << 20};
  iser::MessageMemory messages{message_pool};
  std::unique_ptr<rdma::Listener> listener;
  std::unique_ptr<iscsi_target::TargetConnection> connection;
  std::optional<IserInitiator> initiator;
  std::vector<std::unique_ptr<iscsi_target::TargetConnection>> more;
  std::vector<std::unique_ptr<IserInitiator>> more_initiators;
  std::vector<engine::TurnHook*> asked;
  int refused = 0;
};

}  // namespace lockstep::test
