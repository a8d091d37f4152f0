#pragma once
// Two machines on a network without a device: users that keep what they are told, and memory in arenas.
#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/rdma/fake_fabric.hpp"

namespace lockstep::test {

/// Timers run in the order of their times, and no time passes without one.
class StepClock final : public engine::Clock {
 public:
  [[nodiscard]] engine::TimePoint now() const override { return now_; }
  engine::TimerId call_after(engine::Duration delay, engine::Callback<> action) override {
    timers_.emplace(std::pair{now_ + delay, ++last_}, std::move(action));
    return engine::TimerId{last_};
  }
  void cancel(engine::TimerId timer) override {
    std::erase_if(timers_, [&](const auto& t) { return t.first.second == static_cast<std::uint64_t>(timer); });
  }
  /// False when there is none, or none before `end`.
  bool step(engine::TimePoint end) {
    if (timers_.empty() || timers_.begin()->first.first > end) return false;
    auto timer = timers_.extract(timers_.begin());
    now_ = std::max(now_, timer.key().first);
    timer.mapped()();
    return true;
  }
  void run_for(engine::Duration time) {
    const auto end = now_ + time;
    while (step(end)) {
    }
    now_ = end;
  }

 private:
  engine::TimePoint now_;
  std::uint64_t last_ = 0;
  std::map<std::pair<engine::TimePoint, std::uint64_t>, engine::Callback<>> timers_;
};

class StepRandom final : public engine::Random {
 public:
  explicit StepRandom(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() override {  // splitmix64
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

 private:
  std::uint64_t state_;
};

/// One side of a connection. What it is told is a list of words: "up", "send 3", "receive 1 failed", "lost".
struct Side final : rdma::QueuePairUser {
  void on_established(std::span<const std::byte> private_data) override {
    told.emplace_back("up");
    answer.assign(private_data.begin(), private_data.end());
    if (when_up) when_up();
  }
  void on_completion(const rdma::Completion& completion) override {
    constexpr std::array<const char*, 5> kNames = {"send", "receive", "read", "write", "hide"};
    told.push_back(kNames[static_cast<std::size_t>(completion.work)] + std::string(" ") +
                   std::to_string(completion.id) + (completion.error ? " failed" : ""));
    completions.push_back(completion);
    if (when_completed) when_completed(completion);
  }
  void on_lost(std::error_code why) override {
    told.emplace_back("lost");
    lost = why;
  }

  [[nodiscard]] std::size_t times(std::string_view word) const {
    return static_cast<std::size_t>(std::ranges::count(told, word));
  }
  /// Where it stands in what was told, or the length of that.
  [[nodiscard]] std::size_t place(std::string_view word) const {
    return static_cast<std::size_t>(std::ranges::find(told, word) - told.begin());
  }
  [[nodiscard]] bool was_told(std::string_view word) const { return times(word) != 0; }
  [[nodiscard]] std::error_code error_of(rdma::Work work, std::uint64_t id) const {
    const auto found = std::ranges::find_if(completions, [&](const auto& c) { return c.work == work && c.id == id; });
    return found == completions.end() ? std::error_code() : found->error;
  }
  void close() {
    pair->close([this] { closed = true; });
  }

  std::unique_ptr<rdma::QueuePair> pair;
  std::vector<std::string> told;
  std::vector<rdma::Completion> completions;
  std::vector<std::byte> answer;
  std::error_code lost;
  bool closed = false;
  engine::Callback<> when_up;
  engine::Callback<const rdma::Completion&> when_completed;
};

inline std::vector<std::byte> bytes_of(std::string_view text) {
  std::vector<std::byte> bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

/// Both ends of a connection, and the memory of either's machine.
struct TwoEnds {
  static constexpr std::size_t kPage = 4096;

  TwoEnds() {
    for (std::size_t at = 0; at < target_memory.size(); ++at) {
      target_memory[at] = static_cast<std::byte>(at * 7 + at / 251);
      initiator_memory[at] = static_cast<std::byte>(at * 13 + at / 241);
    }
  }
  void close(Side& side) {
    is_closing[&side == &caller ? 0 : 1] = true;
    side.close();
  }

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

  std::vector<std::byte> target_memory = std::vector<std::byte>(20 * kPage);
  std::vector<std::byte> initiator_memory = std::vector<std::byte>(20 * kPage);
  Side caller, answerer;  ///< of the initiator, of the target
  std::array<bool, 2> is_closing{};
};

/// A target, which product code would be, and an initiator, which grants memory.
struct World : TwoEnds {
  static constexpr rdma::Wanted kWanted = {.sends = 16, .receives = 16, .reads = 4, .max_inline = 64};

  explicit World(std::uint64_t seed) : random(seed) {
    target.add_arena(target_memory);
    initiator.add_arena(initiator_memory);
    target_completions = target.attach(clock);
    initiator_completions = initiator.attach(clock);
  }
  ~World() {
    for (Side* const side : {&caller, &answerer}) {
      if (side->pair != nullptr && !side->closed && !is_closing[side == &caller ? 0 : 1]) close(*side);
    }
    run();
    caller.pair.reset();
    answerer.pair.reset();
  }

  void listen(std::string_view address = "10.0.0.1:3260") {
    auto made = target.listen(*target_completions, address,
                              [this](std::unique_ptr<rdma::Call> call) { calls.push_back(std::move(call)); });
    ASSERT_TRUE(made) << made.error().message;
    listener = std::move(*made);
  }
  void call(std::string_view to = "10.0.0.1:3260", std::string_view data = "ask") {
    caller.pair = initiator.connect(*initiator_completions, domain, "10.0.0.2:0", to, wanted, bytes_of(data), caller);
  }
  void accept(std::string_view data = "answer") {
    ASSERT_EQ(calls.size(), 1u);
    answerer.pair = calls[0]->accept(*target_completions, domain, wanted, bytes_of(data), answerer);
    calls.clear();
  }
  /// Both sides are up.
  void connect() {
    listen();
    call();
    run();
    accept();
    run();
    ASSERT_TRUE(caller.was_told("up") && answerer.was_told("up"));
  }
  /// Until nothing is about to happen.
  void run() { clock.run_for(std::chrono::milliseconds(20)); }
  void run_for(engine::Duration time) { clock.run_for(time); }

  [[nodiscard]] rdma::Remote grant(std::size_t far, bool readable, bool writable) {
    return initiator.grant(rdma::Domain::initiators, far_page(far), readable, writable);
  }
  [[nodiscard]] std::vector<std::byte> far_copy(std::size_t number) {
    return {far_page(number).begin(), far_page(number).end()};
  }
  [[nodiscard]] bool has_fault(std::string_view part) const {
    return std::ranges::any_of(target.faults(), [&](const auto& fault) { return fault.contains(part); });
  }

  rdma::Domain domain = rdma::Domain::initiators;  ///< of both sides' connections
  rdma::Wanted wanted = kWanted;                   ///< by both
  StepClock clock;
  StepRandom random;
  FakeFabric target{clock, random};
  FakeFabric initiator{target};
  std::unique_ptr<rdma::Completions> target_completions, initiator_completions;
  std::unique_ptr<rdma::Listener> listener;
  std::vector<std::unique_ptr<rdma::Call>> calls;
};

/// Each rule holds whatever chance chooses. Stops at the first seed for which it does not.
template <class Body>
void for_many_seeds(const Body& body) {
  for (std::uint64_t seed = 1; seed <= 200 && !testing::Test::HasFailure(); ++seed) {
    const testing::ScopedTrace trace(__FILE__, __LINE__, "seed " + std::to_string(seed));
    World world(seed);
    body(world);
  }
}

/// The same with a connection that stands, and nothing done against the rules.
template <class Body>
void for_many_connections(const Body& body) {
  for_many_seeds([&](World& world) {
    world.connect();
    if (!testing::Test::HasFailure()) body(world);
    EXPECT_EQ(world.target.faults(), std::vector<std::string>{});
  });
}

}  // namespace lockstep::test
