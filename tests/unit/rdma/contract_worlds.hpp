#pragma once
// The two providers of the seam that tests have, behind one face: what holds for any provider is written once.
#include <filesystem>

#include "engine/rdma/real/errors.hpp"
#include "engine/runtime/reactor.hpp"
#include "tests/support/rdma_between/fabric.hpp"
#include "tests/unit/rdma/fabric_fixture.hpp"

namespace lockstep::test {

constexpr std::uint32_t kContractWindows = 3;

/// On the fake, with many seeds.
struct FakeContract : World {
  static std::error_code error(std::errc status) { return std::make_error_code(status); }
  static inline const auto kLength = error(FakeStatus::length), kNoReceive = error(FakeStatus::no_receive),
                           kRemoteAccess = error(FakeStatus::remote_access),
                           kRemoteInvalid = error(FakeStatus::remote_request);
  static constexpr const char* kHere = "10.0.0.1:3260";

  explicit FakeContract(std::uint64_t seed) : World(seed) {
    domain = rdma::Domain::link;
    wanted.windows = kContractWindows;
  }
  template <class Body>
  static void each(const Body& body) {
    for (std::uint64_t seed = 1; seed <= 200 && !testing::Test::HasFailure(); ++seed) {
      const testing::ScopedTrace trace(__FILE__, __LINE__, "seed " + std::to_string(seed));
      FakeContract world(seed);
      body(world);
    }
  }
  template <class Condition>
  void run_until(const Condition& condition) {
    const auto end = clock.now() + std::chrono::seconds(10);
    while (!condition()) ASSERT_TRUE(clock.step(end)) << "it did not come about";
  }
  [[nodiscard]] rdma::Fabric& called_fabric() { return target; }
  [[nodiscard]] std::vector<std::string> faults() const { return target.faults(); }
  [[nodiscard]] std::uint64_t messages_without_receive() const { return target.counts().no_receive; }
};

/// A folder that is removed at the end.
class TestFolder {
 public:
  TestFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "rdma-between-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~TestFolder() { std::filesystem::remove_all(path_); }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// Sockets, as between processes, with both sides in this one. What is waited for comes by the reactor, in real time.
struct BetweenContract {
  static inline const auto kLength = make_error_code(rdma::RdmaErrc::length),
                           kNoReceive = make_error_code(rdma::RdmaErrc::no_receive),
                           kRemoteAccess = make_error_code(rdma::RdmaErrc::remote_access),
                           kRemoteInvalid = make_error_code(rdma::RdmaErrc::remote_invalid);
  static constexpr const char* kHere = "10.0.0.1:3260";
  static constexpr std::size_t kPage = World::kPage;

  BetweenContract() {
    wanted.windows = kContractWindows;
    target->add_arena(target_memory);
    initiator->add_arena(initiator_memory);
    target_completions = target->attach(reactor);
    initiator_completions = initiator->attach(reactor);
    for (std::size_t at = 0; at < target_memory.size(); ++at) {
      target_memory[at] = static_cast<std::byte>(at * 7 + at / 251);
      initiator_memory[at] = static_cast<std::byte>(at * 13 + at / 241);
    }
  }
  ~BetweenContract() {
    for (Side* const side : {&caller, &answerer}) {
      if (side->pair == nullptr) continue;
      if (!is_closing[side == &caller ? 0 : 1]) close(*side);
      run_until([&] { return side->closed; });
      side->pair.reset();
    }
  }
  template <class Body>
  static void each(const Body& body) {
    BetweenContract world;
    body(world);
  }

  void listen(std::string_view address = kHere) {
    auto made = target->listen(*target_completions, address,
                               [this](std::unique_ptr<rdma::Call> call) { calls.push_back(std::move(call)); });
    ASSERT_TRUE(made) << made.error().message;
    listener = std::move(*made);
  }
  void call(std::string_view to = kHere, std::string_view data = "ask") {
    caller.pair = initiator->connect(*initiator_completions, domain, "10.0.0.2:0", to, wanted, bytes_of(data), caller);
  }
  void accept(std::string_view data = "answer") {
    ASSERT_EQ(calls.size(), 1u);
    answerer.pair = calls[0]->accept(*target_completions, domain, wanted, bytes_of(data), answerer);
    calls.clear();
  }
  void connect() {
    listen();
    call();
    run_until([this] { return !calls.empty(); });
    accept();
    run_until([this] { return caller.was_told("up") && answerer.was_told("up"); });
  }
  void close(Side& side) {
    is_closing[&side == &caller ? 0 : 1] = true;
    side.close();
  }
  template <class Condition>
  void run_until(const Condition& condition) {
    const auto end = reactor.now() + std::chrono::seconds(10);
    while (!condition()) {
      ASSERT_LT(reactor.now(), end) << "it did not come about";
      run_for(std::chrono::milliseconds(1));
    }
  }
  void run_for(engine::Duration time) {
    reactor.call_after(time, [this] { reactor.stop(); });
    reactor.run();
  }
  /// Until whatever is under way has come, which takes a few turns.
  void run() { run_for(std::chrono::milliseconds(20)); }

  [[nodiscard]] std::span<std::byte> page(std::size_t number) {
    return std::span(target_memory).subspan(number * kPage, kPage);
  }
  [[nodiscard]] std::span<std::byte> far_page(std::size_t number) {
    return std::span(initiator_memory).subspan(number * kPage, kPage);
  }
  void send(Side& side, std::span<const std::byte> bytes, std::uint64_t id,
            std::optional<std::uint32_t> invalidates = std::nullopt) {
    const std::array pieces = {bytes};
    side.pair->send({.pieces = pieces, .invalidates = invalidates, .id = id});
  }
  [[nodiscard]] rdma::Fabric& called_fabric() { return *target; }
  [[nodiscard]] std::vector<std::string> faults() const {
    auto all = target->faults();
    std::ranges::copy(initiator->faults(), std::back_inserter(all));
    return all;
  }
  [[nodiscard]] std::uint64_t messages_without_receive() const { return faults().size(); }

  TestFolder folder;
  rdma::Domain domain = rdma::Domain::link;
  rdma::Wanted wanted = World::kWanted;
  std::vector<std::byte> target_memory = std::vector<std::byte>(20 * kPage);
  std::vector<std::byte> initiator_memory = std::vector<std::byte>(20 * kPage);
  engine::Reactor reactor;
  std::unique_ptr<BetweenFabric> target = *BetweenFabric::open(folder.path());
  std::unique_ptr<BetweenFabric> initiator = *BetweenFabric::open(folder.path());
  std::unique_ptr<rdma::Completions> target_completions, initiator_completions;
  std::unique_ptr<rdma::Listener> listener;
  std::vector<std::unique_ptr<rdma::Call>> calls;
  Side caller, answerer;
  std::array<bool, 2> is_closing{};
};

/// With a connection that stands, and nothing done against the rules.
template <class Contract, class Body>
void for_each_connection(const Body& body) {
  Contract::each([&](Contract& world) {
    world.connect();
    if (!testing::Test::HasFailure()) body(world);
    EXPECT_EQ(world.faults(), std::vector<std::string>{});
  });
}

struct ContractNames {
  template <class Contract>
  static std::string GetName(int) {
    return std::is_same_v<Contract, FakeContract> ? "Fake" : "Between";
  }
};
using Contracts = testing::Types<FakeContract, BetweenContract>;

/// The caller exposes; by a message the answerer hears of it.
template <class Contract>
[[nodiscard]] rdma::Remote expose(Contract& world, std::size_t far, rdma::Access access) {
  const auto remote = world.caller.pair->expose(world.far_page(far), access);
  const auto heard = world.answerer.times("receive 90");
  world.answerer.pair->receive(world.page(19), {}, 90);
  world.send(world.caller, bytes_of("a key"), 90);
  world.run_until([&] { return world.answerer.times("receive 90") > heard; });
  return remote;
}

[[nodiscard]] inline std::optional<std::uint32_t> invalidated_by(const Side& side, std::uint64_t receive) {
  const auto is_it = [&](const auto& told) { return told.work == rdma::Work::receive && told.id == receive; };
  const auto found = std::ranges::find_if(side.completions, is_it);
  return found == side.completions.end() ? std::nullopt : found->invalidated;
}

}  // namespace lockstep::test
