// What the partner link carries over RDMA, with encryption and without, and what becomes of it when that is lost.
#include "tests/unit/replication_link/two_ways.hpp"

namespace lockstep::replication {
namespace {

INSTANTIATE_TEST_SUITE_P(Whether, LinkOverRdma, testing::Values(LinkKind::plain, LinkKind::encrypted),
                         [](const auto& one) {
                           return std::string(one.param == LinkKind::plain ? "Plain" : "Encrypted");
                         });

using PlainLinkOverRdma = TwoWays;

/// Completions are told so late that some of them change places: an answer comes before its request is known to be
/// sent.
class LateNewsOverRdma : public TwoWays {
 protected:
  LateNewsOverRdma() : TwoWays({.wire = 1us, .told = 1ms}) {}
};

TEST_P(LinkOverRdma, CarriesRequestsOfEverySizeInOrder) {
  for (int round = 0; round < 20; ++round) {
    run([&, this] {
      for (std::size_t i = 0; i < kSizes.size(); ++i) {
        send(round * static_cast<int>(kSizes.size()) + static_cast<int>(i), kSizes.at(i), round % 2 == 0);
      }
    });
    ASSERT_TRUE(all_done((round + 1) * static_cast<int>(kSizes.size())));
  }
  expect_in_order(20 * static_cast<int>(kSizes.size()));
  EXPECT_GT(run([this] { return here_.figures.messages_out; }), 100u) << "what went over RDMA";
  EXPECT_GT(run([this] { return here_.figures.windows; }), 40u);
}

TEST_F(PlainLinkOverRdma, CopiesNothingOfWhatLiesInRegisteredMemory) {
  const auto before = run([this] { return here_.figures.copied.bounce; });
  run([this] {
    for (int i = 0; i < 60; ++i) send(i, kSizes.at(static_cast<std::size_t>(i) % kSizes.size()));
  });
  ASSERT_TRUE(all_done(60));
  expect_in_order(60);
  EXPECT_EQ(run([this] { return here_.figures.copied.bounce; }), before);
  EXPECT_EQ(run([this] { return here_.figures.copied.ahs; }), 0u);
}

/// With room for no more than fits, a read's answer brings its blocks with it.
TEST_F(PlainLinkOverRdma, CountsTheBlocksOfAShortAnswerThatAreCopiedAsSuch) {
  constexpr std::size_t kSome = 2048;
  Message read;
  read.type = MessageType::fetch;
  const auto header = encode(read);
  engine::Buffer out = here_.data.allocate(kSome);
  ASSERT_TRUE(out);
  std::vector<std::byte> in(kSome);
  const auto copied = [this] {
    return run([this] { return std::array{here_.figures.copied, there_.figures.copied}; });
  };
  const auto before = copied();
  std::atomic<bool> done = false;
  run([&, this] { link_->send(header, out.span(), in, [&](const auto& result) { done = result.has_value(); }); });
  ASSERT_TRUE(eventually([&] { return done.load(); }));
  const auto after = copied();
  EXPECT_EQ(after[0].bounce - before[0].bounce, 2 * kSome) << "out of the message, and to where it is wanted";
  EXPECT_EQ(after[1].bounce - before[1].bounce, kSome) << "into the message";
  EXPECT_LT(after[0].control - before[0].control, kSome);
}

TEST_F(LateNewsOverRdma, ARequestIsOverWhenItIsSentAndItsWindowsAreShut) {
  constexpr int kRequests = 1000;
  // One after the other: none waits for what is told of those before it.
  for (int i = 0; i < kRequests; ++i) {
    run([this, i] { send(i, 20'000); });
    ASSERT_TRUE(all_done(i + 1));
  }
  expect_in_order(kRequests);
}

TEST_P(LinkOverRdma, GoesOnOverTcpWhenTheConnectionIsLostAndReturns) {
  for (int round = 0; round < 6; ++round) {
    run([&, this] {
      for (int i = 0; i < 50; ++i) send(round * 50 + i, kSizes.at(static_cast<std::size_t>(i) % kSizes.size()));
      fabric_.lose(fabric_.connections().back());
    });
    ASSERT_TRUE(eventually([&, this] { return ends_[kRdma]->downs == static_cast<unsigned>(round) + 1; }));
    ASSERT_TRUE(all_done((round + 1) * 50));
    ASSERT_TRUE(eventually([this] { return link_->paths().joined().contains(PathSlot{kRdma}); }));
  }
  expect_in_order(300);
}

/// As a kernel does that waits for what an interface holds on to.
class SlowlyDestroyedOverRdma : public TwoWays {
 protected:
  SlowlyDestroyedOverRdma() : TwoWays({.closing = 3s}) {}
};

TEST_F(SlowlyDestroyedOverRdma, WhatIsSentMeanwhileGoesByTcp) {
  run([this] { fabric_.lose(fabric_.connections().back()); });
  ASSERT_TRUE(eventually([this] { return !link_->paths().joined().contains(PathSlot{kRdma}); }));
  run([this] {
    for (int i = 0; i < 40; ++i) send(i, 4096);
  });
  ASSERT_TRUE(all_done(40));
  EXPECT_EQ(run([this] { return ends_[kRdma]->downs; }), 0u) << "nobody waited for the queue pair's end";
  expect_in_order(40);
}

TEST_P(LinkOverRdma, GoesOnOverTcpWhenNothingComesAnyMore) {
  run([this] {
    listening_.answering = false;
    for (int i = 0; i < 40; ++i) send(i, kSizes.at(static_cast<std::size_t>(i) % kSizes.size()));
    fabric_.lose_packets(true);
  });
  ASSERT_TRUE(eventually([this] { return ends_[kRdma]->downs == 1; }));
  run([this] {
    listening_.answering = true;
    listening_.answer_held();
  });
  ASSERT_TRUE(all_done(40));
  run([this] { fabric_.lose_packets(false); });
  ASSERT_TRUE(eventually([this] { return link_->paths().joined().contains(PathSlot{kRdma}); }));
  expect_in_order(40);
}

TEST_F(PlainLinkOverRdma, IsRefusedWhileThePartnerTakesNothingWithoutTls) {
  server_->protect({of_b_, engine::TlsRole::server});
  run([this] { fabric_.lose(fabric_.connections().back()); });
  EXPECT_TRUE(problem_says("over RDMA")) << run([this] { return paths_[kRdma]->problem(); });
  EXPECT_TRUE(told("have to be encrypted here")) << told_;
  EXPECT_FALSE(is_joined());
  server_->protect({});
  EXPECT_TRUE(eventually([this] { return link_->paths().joined().contains(PathSlot{kRdma}); }));
}

TEST_P(LinkOverRdma, HoldsBuffersUntilTheyAreAnsweredAndLetsEveryOneGo) {
  run([this] {
    listening_.answering = false;
    for (int i = 0; i < 200; ++i) send(i, i % 3 == 0 ? 4096 : 20'000);
  });
  ASSERT_TRUE(eventually([this] { return listening_.seen.size() >= 60; }));
  run([this] {
    listening_.answering = true;
    listening_.answer_held();
  });
  ASSERT_TRUE(all_done(200));
  expect_in_order(200);
}

TEST_P(LinkOverRdma, BringsLongHeartbeatsThoughItsWindowsAreTaken) {
  run([this] {  // by RDMA alone
    link_->on_path_closing(PathSlot{kTcp});
    IscsiLinkSettings nowhere = settings_of(kTcp, nullptr);
    nowhere.address.clear();
    paths_[kTcp]->change(nowhere);
  });
  ASSERT_TRUE(eventually([this] { return ends_[kTcp]->downs == 1; }));
  run([this] {
    listening_.answering = false;
    for (int i = 0; i < 200; ++i) send(i, 20'000);
  });
  ASSERT_TRUE(eventually([this] { return listening_.seen.size() >= 50; }));
  const auto said = heartbeat();
  const auto volumes = pattern(20'000, 7);
  std::vector<std::byte> granted(5'000);
  int beats = 0;
  run([&, this] {
    listening_.heard = [&](InboundRequest& request) {
      EXPECT_TRUE(std::ranges::equal(request.payload(), volumes));
      request.answer(said, std::span(volumes).first(granted.size()), {});
    };
    for (int i = 0; i < 8; ++i) {
      link_->send(said, volumes, granted, [&](const auto& r) { beats += r ? 1 : 0; });
    }
  });
  EXPECT_TRUE(eventually([&] { return beats == 8; })) << beats;
  run([&, this] {
    EXPECT_TRUE(std::ranges::equal(granted, std::span(volumes).first(granted.size())));
    listening_.answering = true;
    listening_.answer_held();
  });
  ASSERT_TRUE(all_done(200));
  expect_in_order(200);
}

/// A few of every kind, of which each machine posts some.
constexpr int kSome = 6;
constexpr int kReceives = 300;  // more than there are
constexpr std::array<std::size_t, kSome> kSomeSizes{0, 512, 4096, 8193, 20'000, 65'536};

class FailingOverRdma : public TwoWays {
 protected:
  [[nodiscard]] bool is_protected() const override { return true; }
  /// While one machine's fabric is to fail at something: everything is answered, in order, whatever became of the path.
  void carry(int round) {
    run([&, this] {
      for (int i = 0; i < kSome; ++i) send(round * kSome + i, kSomeSizes.at(static_cast<std::size_t>(i)));
    });
    ASSERT_TRUE(all_done((round + 1) * kSome)) << round;
  }
  void wait_proven() {
    ASSERT_TRUE(eventually([this] { return link_->paths().is_proven(PathSlot{kRdma}); }));
  }
};
TEST_F(FailingOverRdma, NothingIsLostByAnyCompletionThatFails) {
  using rdma::Work;
  const std::vector<std::pair<test::FakeFabric*, Work>> posted{
      {&fabric_, Work::send},       {&fabric_, Work::receive},       {&fabric_, Work::hide},
      {&other_fabric_, Work::send}, {&other_fabric_, Work::receive}, {&other_fabric_, Work::read},
      {&other_fabric_, Work::write}};
  int round = 0;
  for (const auto& [machine, work] : posted) {
    for (const std::errc status : test::FakeStatus::all) {
      wait_proven();
      const unsigned downs = run([&, this] {
        machine->fail_next(work, std::make_error_code(status));
        return ends_[kRdma]->downs;
      });
      // A receive that is posted now is filled when those before it were.
      const auto is_lost = [&, this] { return ends_[kRdma]->downs > downs; };
      for (int more = 0; more < kReceives && !run(is_lost); ++more) ASSERT_NO_FATAL_FAILURE(carry(round++));
      ASSERT_TRUE(eventually(is_lost)) << round << ", " << std::make_error_code(status).message();
    }
  }
  wait_proven();
  expect_in_order(round * kSome);
}

TEST_F(FailingOverRdma, NothingIsLostByAnyCallThatFails) {
  constexpr std::uint64_t kCalls = 40;  // far more than one of each kind
  int round = 0;
  for (test::FakeFabric* const machine : {&fabric_, &other_fabric_}) {
    for (std::uint64_t number = 1; number <= kCalls; ++number) {
      wait_proven();
      run([&] { machine->fail_call(number); });
      ASSERT_NO_FATAL_FAILURE(carry(round++));
      run([&] { machine->fail_call(0); });
    }
  }
  EXPECT_GE(run([this] { return ends_[kRdma]->downs; }), kCalls) << "most of them lost the path";
  expect_in_order(round * kSome);
}

TEST_P(LinkOverRdma, EndsWithItsSession) {
  run([this] {
    listening_.answering = false;
    for (int i = 0; i < 100; ++i) send(i, 20'000);
    link_->reset();
  });
  ASSERT_TRUE(eventually([this] { return calling_.downs == 1; }));
  EXPECT_EQ(failed_, 100);
  run([this] { listening_.answer_held(); });
  ASSERT_TRUE(eventually([this] { return calling_.ups == 2; }));
}

}  // namespace
}  // namespace lockstep::replication
