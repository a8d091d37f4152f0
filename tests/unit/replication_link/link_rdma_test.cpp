// The partner link over RDMA, beside a path over TCP: sessions by iSER on a fabric that moves data at the worst moment,
// and the numbered requests above both.
#include "iscsi_target/server/server.hpp"
#include "replication/link/paths_target.hpp"
#include "tests/support/rdma/fake_fabric.hpp"
#include "tests/unit/engine/tls_fixture.hpp"
#include "tests/unit/replication_link/path_ends.hpp"

namespace lockstep::replication {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

/// One machine of the two: memory that its fabric knows, and some for its messages.
struct Machine {
  explicit Machine(test::FakeFabric& of) : fabric(of) {
    for (auto* pool : {&data, &messages}) fabric.add_arena(pool->arena());
  }
  test::FakeFabric& fabric;
  engine::BufferPool data{64 * kMiB};
  engine::BufferPool messages{64 * kMiB};
  iser::MessageMemory memory{messages};
  iser::Figures figures;
  std::unique_ptr<rdma::Completions> completions;
};

/// Node B listens for both, node A calls by RDMA (path 0) and by TCP (path 1).
class LinkOverRdma : public OnAReactor {
 protected:
  static constexpr std::size_t kRdma = 0, kTcp = 1;

  struct Listening final : LinkEvents {
    bool answering = true;
    std::vector<int> seen;
    std::vector<InboundRequest*> held;
    unsigned ups = 0, downs = 0;
    void on_link_up() override {}
    void on_link_down() override {}
    void on_inbound_up(std::uint64_t) override { ++ups; }
    void on_inbound_down(std::uint64_t) override { ++downs; }
    std::function<void(InboundRequest&)> heard;  ///< of heartbeats
    void on_request(std::uint64_t, InboundRequest& request) override {
      if (is_heartbeat(request.header())) return heard(request);
      seen.push_back(std::stoi(text_of(request.header())));
      held.push_back(&request);
      if (answering) answer_held();
    }
    /// Out of the very memory that the payload came to.
    void answer_held() {
      for (auto* request : std::exchange(held, {})) {
        const std::string header = text_of(request->header());
        const std::size_t bytes = std::min(request->payload().size(), request->max_answer_payload());
        request->answer(as_bytes(header), request->payload().first(bytes), {});
      }
    }
  };
  struct Request {
    engine::Buffer out_buffer, in_buffer;
    std::vector<std::byte> out_own, in_own;
    std::span<std::byte> out, in;
  };

  void SetUp() override {
    OnAReactor::SetUp();
    run([this] {
      for (Machine* machine : {&here_, &there_}) machine->completions = machine->fabric.attach(reactor_);
      rdma_.emplace(here_.fabric, *here_.completions, here_.messages, here_.memory, here_.figures);
      listen();
      call();
    });
    ASSERT_TRUE(eventually([this] { return link_->paths().joined().size() == 2; }))
        << run([this] { return paths_[kRdma]->problem() + paths_[kTcp]->problem(); });
  }
  void TearDown() override {
    std::promise<void> rdma_stopped;
    run([this, &rdma_stopped] {
      link_->stop();
      paths_[kTcp]->stop();
      paths_[kRdma]->stop([&rdma_stopped] { rdma_stopped.set_value(); });
    });
    rdma_stopped.get_future().get();
    run([this] {
      link_.reset();
      paths_.clear();
      requests_.clear();
      listening_.answer_held();
    });
    std::promise<void> stopped;
    server_->stop([&] { stopped.set_value(); });
    stopped.get_future().get();
    run([this] {
      target_.reset();
      server_.reset();
      fabric_.look();
      for (const std::string& fault : fabric_.faults()) ADD_FAILURE() << fault;
      EXPECT_EQ(fabric_.counts().no_receive, 0u);
      for (Machine* machine : {&here_, &there_}) {
        EXPECT_EQ(machine->data.in_use(), 0u);
        EXPECT_EQ(machine->messages.in_use(), 0u);
        machine->completions.reset();
      }
    });
    stop_reactor();
  }

  void listen() {
    const Hello listener = newer(NodeSide::b);
    target_ = std::make_unique<PathsTarget>(reactor_, there_.data, listener, listening_);
    iscsi_target::Target target;
    target.name = link_name(kPair, NodeSide::b);
    target.device_servers = {target_.get()};
    target.access = std::make_shared<iscsi_target::AccessList>(
        std::vector<iscsi_target::AccessList::Entry>{{link_name(kPair, NodeSide::a), credentials()}});
    target.discoverable = false;
    registry_.put(std::move(target));
    iscsi_target::ServerOptions options;
    options.rdma = {&there_.fabric, rdma::Domain::link, kLinkTargetShape};
    options.session.brings_buffers = false;
    options.session.queue_depth = iscsi_target::kMaxQueueDepth;
    options.session.max_stash = std::size_t{iscsi_target::kMaxQueueDepth} * kLinkFirstBurst;
    server_ = std::make_unique<iscsi_target::TargetServer>(
        std::vector<iscsi_target::ServerReactor>{
            {&reactor_, &stash_, there_.completions.get(), &there_.messages, &there_.messages, &there_.figures}},
        registry_, options);
    const auto listens = server_->listen("127.0.0.1:0");
    ASSERT_TRUE(listens) << listens.error().message;
    ASSERT_EQ(server_->why_no_rdma(*listens), "");
    address_ = *listens;
  }

  void call() {
    std::vector<PathOut> out;
    for (const std::size_t number : {kRdma, kTcp}) {
      IscsiLinkSettings settings;
      settings.identity = {newer(NodeSide::a), credentials()};
      settings.identity.path = static_cast<std::uint8_t>(number);
      settings.address = address_;
      if (number == kRdma) settings.rdma = &*rdma_;
      paths_.push_back(std::make_unique<IscsiLink>(reactor_, random_, settings));
      out.push_back({*paths_.back(), rank_of(number == kRdma ? PathTransport::rdma : PathTransport::tcp, 1'000, 0)});
    }
    PathTimes times;
    times.first_proof = 50ms;
    link_ = std::make_unique<PathsLink>(reactor_, newer(NodeSide::a).process, std::move(out), times);
    link_->start(calling_);
    for (const std::size_t number : {kRdma, kTcp}) {
      ends_.push_back(std::make_unique<PathOfNode>(*link_, number));
      paths_[number]->start(*ends_.back());
    }
  }

  /// Echoed, or counted as failed. `registered`: in memory that the fabric knows.
  void send(int number, std::size_t size, bool registered = true) {
    auto& request = *requests_.emplace_back(std::make_unique<Request>());
    if (registered && size != 0) {
      request.out_buffer = here_.data.allocate(size);
      request.in_buffer = here_.data.allocate(size);
      ASSERT_TRUE(request.out_buffer && request.in_buffer);
      request.out = request.out_buffer.span();
      request.in = request.in_buffer.span();
    } else {
      request.out_own.resize(size);
      request.in_own.resize(size);
      request.out = request.out_own;
      request.in = request.in_own;
    }
    const auto said = pattern(size, number);
    std::ranges::copy(said, request.out.begin());
    std::ranges::fill(request.in, std::byte{0x11});
    link_->send(as_bytes(std::to_string(number)), request.out, request.in,
                [this, &request, number, size](const auto& r) {
                  ++(r ? done_ : failed_);
                  if (!r) return;
                  EXPECT_EQ(text_of(r->header), std::to_string(number));
                  EXPECT_EQ(r->payload_bytes, size);
                  EXPECT_TRUE(std::ranges::equal(request.in, pattern(size, number))) << number << ", " << size;
                  // The memory is the sender's again: whoever still touches it finds something else.
                  std::ranges::fill(request.out, std::byte{0xEE});
                  std::ranges::fill(request.in, std::byte{0xEE});
                  request.out_buffer.reset();
                  request.in_buffer.reset();
                });
  }
  [[nodiscard]] bool all_done(int count) {
    return eventually([this, count] { return done_ + failed_ == count; });
  }
  void expect_in_order(int count) {
    run([this, count] {
      EXPECT_EQ(failed_, 0);
      EXPECT_EQ(calling_.downs, 0u);
      EXPECT_EQ(listening_.downs, 0u);
      ASSERT_EQ(listening_.seen.size(), static_cast<std::size_t>(count));
      for (int i = 0; i < count; ++i) ASSERT_EQ(listening_.seen[static_cast<std::size_t>(i)], i);
      EXPECT_EQ(link_->faults(), 0u) << link_->problem();
    });
  }

  engine::SystemRandom random_;
  test::FakeFabric fabric_{reactor_, random_};
  test::FakeFabric other_fabric_{fabric_};
  Machine here_{fabric_}, there_{other_fabric_};
  engine::BufferPool stash_{64 * kMiB};  ///< of TCP sessions
  std::optional<LinkRdma> rdma_;
  Listening listening_;
  Calling calling_;
  iscsi_target::TargetRegistry registry_;
  std::unique_ptr<PathsTarget> target_;
  std::unique_ptr<iscsi_target::TargetServer> server_;
  std::string address_;
  std::vector<std::unique_ptr<IscsiLink>> paths_;
  std::unique_ptr<PathsLink> link_;
  std::vector<std::unique_ptr<PathOfNode>> ends_;
  std::vector<std::unique_ptr<Request>> requests_;
  int done_ = 0, failed_ = 0;
};

constexpr std::array<std::size_t, 9> kSizes{0, 13, 512, 4096, 8192, 8193, 65'536, 300'000, kMiB};

TEST_F(LinkOverRdma, CarriesRequestsOfEverySizeInOrder) {
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

TEST_F(LinkOverRdma, CopiesNothingOfWhatLiesInRegisteredMemory) {
  const auto before = run([this] { return here_.figures.copied.bounce; });
  run([this] {
    for (int i = 0; i < 60; ++i) send(i, kSizes.at(static_cast<std::size_t>(i) % kSizes.size()));
  });
  ASSERT_TRUE(all_done(60));
  expect_in_order(60);
  EXPECT_EQ(run([this] { return here_.figures.copied.bounce; }), before);
  EXPECT_EQ(run([this] { return here_.figures.copied.ahs; }), 0u);
}

TEST_F(LinkOverRdma, GoesOnOverTcpWhenTheConnectionIsLostAndReturns) {
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

TEST_F(LinkOverRdma, GoesOnOverTcpWhenNothingComesAnyMore) {
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

TEST_F(LinkOverRdma, IsRefusedWhileThePartnerTakesNothingWithoutTls) {
  const auto certificate = engine::test::make_certificate();
  server_->protect({engine::test::context_of(certificate, {certificate.fingerprint}), engine::TlsRole::server});
  run([this] { fabric_.lose(fabric_.connections().back()); });
  ASSERT_TRUE(eventually([this] { return paths_[kRdma]->problem().find("over RDMA") != std::string::npos; }))
      << run([this] { return paths_[kRdma]->problem(); });
  EXPECT_FALSE(run([this] { return link_->paths().joined().contains(PathSlot{kRdma}); }));
  server_->protect({});
  EXPECT_TRUE(eventually([this] { return link_->paths().joined().contains(PathSlot{kRdma}); }));
}

struct Damage {
  rdma::Work work;
  std::size_t least;  ///< bytes of the message or the data
  std::size_t size;   ///< of the request that is damaged
  const char* name;
};
class DamagedOverRdma : public LinkOverRdma, public testing::WithParamInterface<Damage> {};

// Nothing but the checksum finds it: the network's own ends at the network cards.
TEST_P(DamagedOverRdma, IsNoticedAndSentAgainByAnotherPath) {
  run([this] {
    fabric_.damage_next(GetParam().work, GetParam().least);
    send(0, GetParam().size);
  });
  ASSERT_TRUE(all_done(1));
  ASSERT_TRUE(eventually([this] { return ends_[kRdma]->downs == 1; }));
  expect_in_order(1);
  ASSERT_TRUE(eventually([this] { return link_->paths().joined().contains(PathSlot{kRdma}); }));
}

INSTANTIATE_TEST_SUITE_P(EachWay, DamagedOverRdma,
                         testing::Values(Damage{rdma::Work::send, 4096, 4096, "APayloadThatComesWithItsRequest"},
                                         Damage{rdma::Work::send, 1000, 1000, "AnAnswersPayload"},
                                         Damage{rdma::Work::read, 20'000, 20'000, "APayloadThatIsRead"},
                                         Damage{rdma::Work::write, 20'000, 20'000, "AnAnswersPayloadThatIsWritten"}),
                         [](const auto& one) { return std::string(one.param.name); });

TEST_F(LinkOverRdma, HoldsBuffersUntilTheyAreAnsweredAndLetsEveryOneGo) {
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

/// The mirror's own: it goes ahead, and what it brings is kept beside the reserve.
std::vector<std::byte> heartbeat() {
  Message m;
  m.type = MessageType::heartbeat;
  const auto header = encode(m);
  return {header.begin(), header.end()};
}

TEST_F(LinkOverRdma, BringsLongHeartbeatsThoughItsWindowsAreTaken) {
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

TEST_F(LinkOverRdma, EndsWithItsSession) {
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
