// The partner link over several real paths: sessions over TCP, and the numbered requests above them.
#include "replication/link/path_measurement.hpp"
#include "replication/link/paths_link.hpp"
#include "replication/link/paths_target.hpp"
#include "tests/unit/replication_link/path_ends.hpp"

namespace lockstep::replication {
namespace {

/// Node B listens on several addresses, node A calls each of them.
class SeveralRealPaths : public OnAReactor {
 protected:
  static constexpr std::size_t kPaths = 3;

  struct Listening final : Hearing {
    unsigned sent = 0;
    void answer(InboundRequest& request, const std::string& header, std::span<const std::byte> payload) override {
      auto copy = std::make_unique<std::vector<std::byte>>(payload.begin(), payload.end());
      const std::span<const std::byte> bytes(*copy);
      request.answer(as_bytes(header), bytes, [this, copy = std::move(copy)] { ++sent; });
    }
  };

  void TearDown() override {
    run([this] {
      for (auto& path : paths_) path->stop();
      link_.reset();
      paths_.clear();
      listening_.answer_held();
    });
    std::promise<void> stopped;
    server_->stop([&] { stopped.set_value(); });
    stopped.get_future().get();
    run([this] { target_.reset(); });
    server_.reset();
    stop_reactor();
  }

  void start(const Hello& caller, const Hello& listener) {
    run([&] {
      target_ = std::make_unique<PathsTarget>(reactor_, reserve_, listener, listening_);
      registry_.put(target_of_b(*target_));
      iscsi_target::ServerOptions options;
      options.session.brings_buffers = false;
      options.session.queue_depth = iscsi_target::kMaxQueueDepth;
      options.session.max_stash = std::size_t{iscsi_target::kMaxQueueDepth} * kLinkFirstBurst;
      server_ = std::make_unique<iscsi_target::TargetServer>(
          std::vector<iscsi_target::ServerReactor>{{&reactor_, &buffers_}}, registry_, options);
      std::vector<PathOut> out;
      for (std::size_t i = 0; i < kPaths; ++i) {
        const auto listens = server_->listen("127.0.0." + std::to_string(i + 1) + ":0");
        ASSERT_TRUE(listens) << listens.error().message;
        IscsiLinkSettings settings;
        settings.identity = {caller, credentials()};
        settings.identity.path = static_cast<std::uint8_t>(i);
        settings.address = *listens;
        paths_.push_back(std::make_unique<IscsiLink>(reactor_, random_, settings));
        out.push_back({*paths_.back(), rank_of(PathTransport::tcp, 1'000, 0)});
      }
      link_ = std::make_unique<PathsLink>(reactor_, caller.process, std::move(out));
      link_->start(calling_);
      for (std::size_t i = 0; i < kPaths; ++i) {
        ends_.push_back(std::make_unique<PathOfNode>(*link_, i));
        paths_[i]->start(*ends_.back());
      }
    });
  }
  void start_and_join() {
    start(newer(NodeSide::a), newer(NodeSide::b));
    ASSERT_TRUE(eventually([this] { return link_->paths().joined().size() == static_cast<int>(kPaths); }));
  }
  /// Echoed, or counted as failed.
  void send(int number, std::size_t size) {
    auto& request = *requests_.emplace_back(std::make_unique<Request>());
    request.out.assign(size, static_cast<std::byte>(number));
    request.in.resize(size);
    link_->send(as_bytes(std::to_string(number)), request.out, request.in, [this, &request, number](const auto& r) {
      ++(r ? done_ : failed_);
      if (!r) return;
      EXPECT_EQ(text_of(r->header), std::to_string(number));
      EXPECT_EQ(request.in, request.out);
      request.out.assign(request.out.size(), std::byte{0xEE});
    });
  }

  struct Request {
    std::vector<std::byte> out, in;
  };
  engine::SystemRandom random_;
  engine::BufferPool buffers_{std::size_t{iscsi_target::kMaxQueueDepth} * kLinkFirstBurst};
  engine::BufferPool reserve_{64 << 20};
  Listening listening_;
  Calling calling_;
  iscsi_target::TargetRegistry registry_;
  std::unique_ptr<PathsTarget> target_;
  std::unique_ptr<iscsi_target::TargetServer> server_;
  std::vector<std::unique_ptr<IscsiLink>> paths_;
  std::unique_ptr<PathsLink> link_;
  std::vector<std::unique_ptr<PathOfNode>> ends_;
  std::vector<std::unique_ptr<Request>> requests_;
  int done_ = 0, failed_ = 0;
};

TEST_F(SeveralRealPaths, CarryRequestsOfEverySizeInOrder) {
  start_and_join();
  run([this] {
    for (int i = 0; i < 500; ++i) send(i, i % 7 == 0 ? 300'000 : i % 3 == 0 ? 4096 : 0);
  });
  ASSERT_TRUE(eventually([this] { return done_ + failed_ == 500; }));
  run([this] {
    EXPECT_EQ(failed_, 0);
    ASSERT_EQ(listening_.seen.size(), 500u);
    for (int i = 0; i < 500; ++i) ASSERT_EQ(listening_.seen[i], i);
  });
  EXPECT_TRUE(eventually([this] { return listening_.sent == 500; })) << "answers are kept for ever";
  EXPECT_TRUE(eventually([this] { return reserve_.in_use() == 0; }));
}

TEST_F(SeveralRealPaths, TellWhatTheirConnectionsCarried) {
  start_and_join();
  run([this] {
    for (int i = 0; i < 30; ++i) send(i, 300'000);
  });
  ASSERT_TRUE(eventually([this] { return done_ == 30; }));
  run([this] {
    std::uint64_t out = 0, in = 0;
    for (const auto& path : paths_) {
      const auto figures = path->figures();
      ASSERT_TRUE(figures);
      EXPECT_GT(figures->round_trip, 0us);
      EXPECT_GT(figures->segments_out, 0U);
      out += figures->bytes_out;
      in += figures->bytes_in;
    }
    EXPECT_GE(out, 30U * 300'000);
    EXPECT_GE(in, 30U * 300'000);
  });
}

TEST_F(SeveralRealPaths, AreMeasuredWhileTheyCarryRequests) {
  start_and_join();
  std::optional<PathMeasured> measured;
  std::unique_ptr<PathMeasurement> measurement;
  run([&] {
    measurement = std::make_unique<PathMeasurement>(reactor_, *link_, PathSlot{1},
                                                    [&](const PathMeasured& found) { measured = found; });
    for (int i = 0; i < 200; ++i) send(i, 4096);
  });
  ASSERT_TRUE(eventually([&] { return measured.has_value(); }));
  run([&] {
    EXPECT_TRUE(measured->whole);
    ASSERT_EQ(measured->sizes.size(), kMeasuredSizes.size());
    for (const SizeMeasured& size : measured->sizes) {
      EXPECT_GT(size.least, 0us) << size.bytes;
      EXPECT_LE(size.least, size.median) << size.bytes;
      EXPECT_LE(size.median, size.p99) << size.bytes;
      EXPECT_GT(size.bytes_a_second, size.bytes) << size.bytes;
    }
    EXPECT_EQ(done_, 200);
    EXPECT_EQ(listening_.seen.size(), 200u) << "the mirror hears nothing of it";
    measurement.reset();
  });
}

TEST_F(SeveralRealPaths, MeasurementThatIsCutShortSaysSo) {
  start_and_join();
  std::optional<PathMeasured> measured;
  std::unique_ptr<PathMeasurement> measurement, given_up;
  run([&] {
    measurement = std::make_unique<PathMeasurement>(reactor_, *link_, PathSlot{1},
                                                    [&](const PathMeasured& found) { measured = found; });
    given_up = std::make_unique<PathMeasurement>(reactor_, *link_, PathSlot{0}, [](const PathMeasured&) { FAIL(); });
  });
  run([&] { given_up.reset(); });
  run([&] { paths_[1]->reset(); });
  ASSERT_TRUE(eventually([&] { return measured.has_value(); }));
  run([&] {
    EXPECT_FALSE(measured->whole);
    measurement.reset();
  });
}

TEST_F(SeveralRealPaths, LoseNothingWhenTwoOfThemBreakUnderLoad) {
  start_and_join();
  for (int round = 0; round < 8; ++round) {
    run([&, this] {
      for (int i = 0; i < 50; ++i) send(round * 50 + i, i % 5 == 0 ? 300'000 : 4096);
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(round % 4));
    run([&, this] {
      paths_[round % kPaths]->reset();
      paths_[(round + 1) % kPaths]->reset();
    });
    // They are noticed later. The third one is left to them until they are back.
    ASSERT_TRUE(eventually([&, this] {
      unsigned downs = 0;
      for (const auto& end : ends_) downs += end->downs;
      return downs >= 2 * (static_cast<unsigned>(round) + 1);
    }));
    ASSERT_TRUE(eventually([this] { return link_->paths().joined().size() == static_cast<int>(kPaths); }));
  }
  ASSERT_TRUE(eventually([this] { return done_ + failed_ == 400; }));
  run([this] {
    EXPECT_EQ(failed_, 0);
    EXPECT_EQ(calling_.downs, 0u);
    EXPECT_EQ(listening_.downs, 0u);
    ASSERT_EQ(listening_.seen.size(), 400u);
    for (int i = 0; i < 400; ++i) ASSERT_EQ(listening_.seen[i], i);
    EXPECT_EQ(link_->faults(), 0u) << link_->problem();
  });
}

TEST_F(SeveralRealPaths, WhatIsNotAnsweredYetIsAnsweredByAnotherPath) {
  start_and_join();
  run([this] {
    listening_.answering = false;
    for (int i = 0; i < 100; ++i) send(i, 4096);
  });
  ASSERT_TRUE(eventually([this] { return listening_.seen.size() == 100; }));
  run([this] {
    paths_[0]->reset();
    paths_[1]->reset();
  });
  ASSERT_TRUE(eventually([this] { return link_->paths().joined().size() == static_cast<int>(kPaths); }));
  run([this] {
    listening_.answering = true;
    listening_.answer_held();
  });
  ASSERT_TRUE(eventually([this] { return done_ + failed_ == 100; }));
  EXPECT_EQ(failed_, 0);
  EXPECT_EQ(listening_.seen.size(), 100u);
}

TEST_F(SeveralRealPaths, AllEndWithTheLinkSession) {
  start_and_join();
  run([this] {
    listening_.answering = false;
    for (int i = 0; i < 100; ++i) send(i, 4096);
    link_->reset();
  });
  ASSERT_TRUE(eventually([this] { return calling_.downs == 1; }));
  EXPECT_EQ(failed_, 100);
  ASSERT_TRUE(eventually([this] { return calling_.ups == 2; }));
  EXPECT_EQ(run([this] { return listening_.ups; }), 2u);
}

Hello older(NodeSide side) {
  Hello hello = hello_of(side);
  hello.versions.highest = kSeveralPaths - 1;
  return hello;
}

class OfTwoVersions : public SeveralRealPaths, public testing::WithParamInterface<NodeSide> {};

TEST_P(OfTwoVersions, TalkOverOneOfThem) {
  const bool a_is_newer = GetParam() == NodeSide::a;
  start(a_is_newer ? newer(NodeSide::a) : older(NodeSide::a), a_is_newer ? older(NodeSide::b) : newer(NodeSide::b));
  ASSERT_TRUE(eventually([this] { return link_->is_up(); }));
  EXPECT_EQ(run([this] { return link_->version(); }), kSeveralPaths - 1);
  run([this] {
    for (int i = 0; i < 50; ++i) send(i, 4096);
  });
  ASSERT_TRUE(eventually([this] { return done_ == 50; }));
  run([this] { EXPECT_EQ(listening_.seen.size(), 50u); });
  run([this] { link_->reset(); });
  ASSERT_TRUE(eventually([this] { return calling_.downs == 1 && calling_.ups == 2; }));
  run([this] {
    for (int i = 50; i < 100; ++i) send(i, 4096);
  });
  ASSERT_TRUE(eventually([this] { return done_ == 100; }));
}

INSTANTIATE_TEST_SUITE_P(WhicheverIsNewer, OfTwoVersions, testing::Values(NodeSide::a, NodeSide::b));

// The smallest reserve that can be configured (link_buffer_mib = 32), and requests that take most of their blocks.
TEST_F(SeveralRealPaths, DoNotWaitForOneAnothersBuffers) {
  engine::Buffer taken = run([this] { return reserve_.allocate(std::size_t{32} << 20); });
  ASSERT_TRUE(taken);
  start_and_join();
  const std::vector<std::byte> out(520 << 10);
  constexpr int kRequests = 52;  // 26.4 MiB: what the mirror has under way at the most (format.md: 27)
  run([&, this] {
    for (int i = 0; i < kRequests; ++i) {
      link_->send(as_bytes(std::to_string(i)), out, {}, [this](const auto& r) { ++(r ? done_ : failed_); });
    }
    paths_[0]->reset();
  });
  EXPECT_TRUE(eventually([this] { return done_ + failed_ == kRequests; }))
      << run([this] { return done_; }) << " done, " << run([this] { return listening_.seen.size(); })
      << " delivered, link is up: " << run([this] { return link_->is_up(); })
      << ", reserve in use: " << run([this] { return reserve_.in_use() >> 20; }) << " MiB";
  EXPECT_EQ(run([this] { return calling_.downs; }), 0u);
  run([this] { link_->reset(); });
  ASSERT_TRUE(eventually([this] { return done_ + failed_ == kRequests; }));
  run([&, this] {
    for (auto& path : paths_) path->stop();
  });
  EXPECT_TRUE(eventually([this] { return reserve_.in_use() <= std::size_t{32} << 20; }));
  run([&] { taken.reset(); });
}

// What no sender of ours does: the second request takes the buffer that the first one would need.
TEST_F(SeveralRealPaths, AreEndedWhenOneWaitsForABufferThatWhatCameByAnotherHas) {
  start_and_join();
  const std::vector<std::byte> out(300'000);
  run([&, this] {
    const auto second = encode_request_frame({FrameKind::numbered, {2}, {}});
    paths_[1]->send(second, out, {}, [](const auto&) {});
  });
  ASSERT_TRUE(eventually([this] { return reserve_.in_use() != 0; }));
  std::vector<engine::Buffer> taken;
  run([&, this] {
    while (engine::Buffer one = reserve_.allocate(out.size())) taken.push_back(std::move(one));
    link_->send(as_bytes("1"), out, {}, [this](const auto& r) { ++(r ? done_ : failed_); });
  });
  EXPECT_TRUE(eventually([this] { return listening_.downs == 1 && calling_.downs == 1; }));
  EXPECT_EQ(failed_, 1);
  EXPECT_TRUE(listening_.seen.empty());
  run([&] { taken.clear(); });
}

TEST_F(SeveralRealPaths, OneThatIsTakenAwayWhileItConnectsStaysAway) {
  start_and_join();
  std::unique_ptr<IscsiLink> path;
  struct Seen final : LinkEvents {
    unsigned ups = 0;
    void on_link_up() override { ++ups; }
    void on_link_down() override {}
    void on_inbound_up(std::uint64_t) override {}
    void on_inbound_down(std::uint64_t) override {}
    void on_request(std::uint64_t, InboundRequest&) override {}
  } seen;
  run([&, this] {
    IscsiLinkSettings settings;
    settings.identity = {newer(NodeSide::a), credentials()};
    settings.identity.path = 5;
    settings.address = paths_[0]->way().address;
    path = std::make_unique<IscsiLink>(reactor_, random_, settings);
    path->start(seen);
    settings.address.clear();
    path->change(settings);
  });
  std::this_thread::sleep_for(500ms);
  EXPECT_EQ(run([&] { return seen.ups; }), 0u) << "and it carries data, and no report names it";
  run([&] { path.reset(); });
}

}  // namespace
}  // namespace lockstep::replication
