#pragma once
// What two machines do with each other from a call to its end: messages both ways, windows that are written and read
// and shut, by the peer and by their own side. Whatever fails meanwhile, both users hear of it, close, and are closed.
#include <thread>

#include "tests/unit/rdma_real/real_world.hpp"

namespace lockstep::test {

class Script {
 public:
  explicit Script(RealContract& world, std::string_view at = RealContract::kHere) : world_(world), at_(at) {}

  /// Until both are closed; true if all that was to be done was done.
  bool run() {
    world_.caller.told.clear(), world_.answerer.told.clear();
    world_.caller.completions.clear(), world_.answerer.completions.clear();
    world_.caller.closed = world_.answerer.closed = false;
    world_.caller.lost = world_.answerer.lost = {};
    world_.is_closing = {};
    if (!listen()) return false;
    world_.call();
    for (std::uint64_t id = 1; id <= 2; ++id) world_.caller.pair->receive(world_.far_page(id), {}, id);
    world_.run_until([this] { return goes_on(); });
    const bool well = step_ == Step::over;
    for (Side* const side : {&world_.caller, &world_.answerer}) {
      if (!well && side->pair != nullptr) {
        EXPECT_TRUE(side->lost && !side->lost.message().empty()) << "it does not say why";
      }
      side->pair.reset();
    }
    world_.calls.clear();
    world_.listener.reset();
    return well;
  }

 private:
  enum class Step : std::uint8_t { calling, called, telling, moving, answering, hiding, over };

  bool listen() {
    auto made = world_.target->listen(*world_.target_completions, at_,
                                      [this](auto call) { world_.calls.push_back(std::move(call)); });
    if (!made) {
      EXPECT_THAT(made.error().message, testing::HasSubstr(std::string(at_)));
      return false;
    }
    world_.listener = std::move(*made);
    return true;
  }

  /// True when it has ended.
  bool goes_on() {
    if (step_ != Step::over) act();
    bool is_over = true;
    for (Side* const side : {&world_.caller, &world_.answerer}) {
      if (side->pair == nullptr) continue;
      bool& closing = world_.is_closing[side == &world_.caller ? 0 : 1];
      if (!closing && (step_ == Step::over || side->was_told("lost"))) world_.close(*side);
      is_over = is_over && side->closed;
    }
    return is_over;
  }

  [[nodiscard]] bool is_ended() const {
    return world_.is_closing[0] || world_.is_closing[1] || world_.caller.was_told("lost") ||
           world_.answerer.was_told("lost");
  }

  void act() {
    Side &caller = world_.caller, &answerer = world_.answerer;
    if (step_ == Step::calling && !world_.calls.empty() && !is_ended()) {
      world_.accept();
      for (std::uint64_t id = 1; id <= 2; ++id) answerer.pair->receive(world_.page(id), {}, id);
      step_ = Step::called;
    }
    if (is_ended()) return;
    if (step_ == Step::called && caller.was_told("up") && answerer.was_told("up")) {
      read_ = caller.pair->expose(world_.far_page(5), rdma::Access::read);
      written_ = caller.pair->expose(world_.far_page(6), rdma::Access::write);
      world_.send(caller, bytes_of("two keys"), 10);
      step_ = Step::telling;
    } else if (step_ == Step::telling && answerer.was_told("receive 1") && caller.was_told("send 10")) {
      answerer.pair->read(world_.page(5), read_, 11);
      answerer.pair->write(world_.page(7), written_, 12);
      step_ = Step::moving;
    } else if (step_ == Step::moving && answerer.was_told("read 11") && answerer.was_told("write 12")) {
      EXPECT_TRUE(std::ranges::equal(world_.page(5), world_.far_page(5)));
      EXPECT_TRUE(std::ranges::equal(world_.page(7), world_.far_page(6)));
      world_.send(answerer, world_.page(8).first(2000), 13, written_.key);
      step_ = Step::answering;
    } else if (step_ == Step::answering && caller.was_told("receive 1") && answerer.was_told("send 13")) {
      EXPECT_EQ(invalidated_by(caller, 1), written_.key);
      EXPECT_TRUE(std::ranges::equal(world_.far_page(1).first(2000), world_.page(8).first(2000)));
      caller.pair->hide(read_.key, 14);
      step_ = Step::hiding;
    } else if (step_ == Step::hiding && caller.was_told("hide 14")) {
      step_ = Step::over;
    }
  }

  RealContract& world_;
  std::string_view at_;  ///< where it listens
  Step step_ = Step::calling;
  rdma::Remote read_, written_;
};

/// Until another thread, the fabric's, has brought it about.
template <class Condition>
void wait_until(const Condition& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!condition()) {
    ASSERT_LT(std::chrono::steady_clock::now(), end) << "it did not come about";
    std::this_thread::yield();
  }
}

/// Opens both machines' fabrics; nothing when one has none, which says why.
inline std::unique_ptr<RealContract> open_world() {
  auto called = rdma::open_fabric(), calling = rdma::open_fabric();
  for (const auto* const fabric : {&called, &calling}) {
    if (*fabric) continue;
    EXPECT_FALSE(fabric->error().message.empty());
    return nullptr;
  }
  return std::make_unique<RealContract>(std::move(*called), std::move(*calling));
}

/// Nothing was done against the libraries' rules, and nothing is left.
inline void expect_clean() {
  EXPECT_THAT(VerbsLibrary::faults(), testing::IsEmpty());
  EXPECT_THAT(VerbsLibrary::left(), testing::IsEmpty());
}

}  // namespace lockstep::test
