#pragma once
// The partner link by two ways, RDMA and TCP: sessions by iSER on a fabric that moves data at the worst moment, and the
// numbered requests above both.
#include "iscsi_target/server/server.hpp"
#include "replication/link/paths_target.hpp"
#include "tests/support/rdma/fake_fabric.hpp"
#include "tests/unit/engine/tls_fixture.hpp"
#include "tests/unit/replication_link/path_ends.hpp"

namespace lockstep::replication {

inline constexpr std::size_t kMiB = std::size_t{1} << 20;

/// One machine of the two: memory that its fabric knows, and some for its messages.
struct Machine {
  explicit Machine(test::FakeFabric& of) : fabric(of) {
    for (auto* pool : {&data, &messages, &copies}) fabric.add_arena(pool->arena());
  }
  test::FakeFabric& fabric;
  engine::BufferPool data{64 * kMiB};
  engine::BufferPool messages{64 * kMiB};
  engine::BufferPool copies{64 * kMiB};
  iser::MessageMemory memory{messages};
  iser::Figures figures;
  std::unique_ptr<rdma::Completions> completions;
};

/// Node B listens for both, node A calls by RDMA (path 0) and by TCP (path 1).
class TwoWays : public OnAReactor {
 protected:
  static constexpr std::size_t kRdma = 0, kTcp = 1;

  explicit TwoWays(const test::FakeDelays& delays = {}) : fabric_(reactor_, random_, delays) {}

  /// Of the whole link.
  [[nodiscard]] virtual bool is_protected() const { return false; }

  struct Listening final : Hearing {
    std::function<void(InboundRequest&)> heard;  ///< of heartbeats
    void on_request(std::uint64_t session, InboundRequest& request) override {
      is_heartbeat(request.header()) ? heard(request) : Hearing::on_request(session, request);
    }
    /// Out of the very memory that the payload came to.
    void answer(InboundRequest& request, const std::string& header, std::span<const std::byte> payload) override {
      request.answer(as_bytes(header), payload, {});
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
      rdma_.emplace(here_.fabric, *here_.completions, here_.copies, here_.memory, here_.figures);
      listen();
      call();
    });
    // RDMA carries, then, whichever is proven first.
    ASSERT_TRUE(eventually([this] {
      return link_->paths().joined().size() == 2 && link_->paths().is_proven(PathSlot{kRdma});
    })) << run([this] { return paths_[kRdma]->problem() + paths_[kTcp]->problem(); });
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
        EXPECT_EQ(machine->copies.in_use(), 0u);
        machine->completions.reset();
      }
    });
    stop_reactor();
  }

  void listen() {
    const Hello listener = newer(NodeSide::b);
    target_ = std::make_unique<PathsTarget>(reactor_, there_.data, listener, listening_);
    registry_.put(target_of_b(*target_));
    iscsi_target::ServerOptions options;
    options.rdma = {&there_.fabric, rdma::Domain::link, kLinkTargetShape};
    options.session.brings_buffers = false;
    options.session.queue_depth = iscsi_target::kMaxQueueDepth;
    options.session.max_stash = std::size_t{iscsi_target::kMaxQueueDepth} * kLinkFirstBurst;
    server_ = std::make_unique<iscsi_target::TargetServer>(
        std::vector<iscsi_target::ServerReactor>{
            {&reactor_, &stash_, there_.completions.get(), &there_.messages, &there_.copies, &there_.figures}},
        registry_, options);
    server_->on_event([this](const iscsi_target::SessionEvent& event) {
      using Kind = iscsi_target::SessionEvent::Kind;
      if (event.kind == Kind::refused || event.kind == Kind::turned_away) told_ = event.reason;
      if (event.kind == Kind::closed && event.session.over_rdma) ended_ = event.reason;
    });
    if (is_protected()) server_->protect({of_b_, engine::TlsRole::server});
    const auto listens = server_->listen("127.0.0.1:0");
    ASSERT_TRUE(listens) << listens.error().message;
    ASSERT_EQ(server_->why_no_rdma(*listens), "");
    address_ = *listens;
  }

  IscsiLinkSettings settings_of(std::size_t number, std::shared_ptr<const engine::TlsContext> tls) {
    IscsiLinkSettings settings;
    settings.identity = {newer(NodeSide::a), credentials()};
    settings.identity.path = static_cast<std::uint8_t>(number);
    settings.address = address_;
    settings.tls = std::move(tls);
    settings.last_retry = 50ms;
    if (number == kRdma) settings.rdma = &*rdma_;
    return settings;
  }
  /// Node A calls by RDMA anew, and shows that.
  void call_again(std::shared_ptr<const engine::TlsContext> tls) {
    run([&, this] {
      link_->on_path_closing(PathSlot{kRdma});
      paths_[kRdma]->change(settings_of(kRdma, tls));
    });
  }
  bool is_joined() {
    return run([this] { return link_->paths().joined().contains(PathSlot{kRdma}); });
  }
  std::string cipher() {
    return run([this] { return std::string(paths_[kRdma]->cipher()); });
  }
  /// Why node A's calls by RDMA fail.
  bool problem_says(const char* what) {
    return eventually([&, this] { return paths_[kRdma]->problem().find(what) != std::string::npos; });
  }
  /// What node B tells of calls.
  bool told(const char* what) {
    return eventually([&, this] { return told_.find(what) != std::string::npos; });
  }

  void call() {
    std::vector<PathOut> out;
    for (const std::size_t number : {kRdma, kTcp}) {
      paths_.push_back(
          std::make_unique<IscsiLink>(reactor_, random_, settings_of(number, is_protected() ? of_a_ : nullptr)));
      out.push_back({*paths_.back(), rank_of(number == kRdma ? PathTransport::rdma : PathTransport::tcp, 1'000, 0)});
    }
    PathTimes times;
    times.first_proof = times.longest_proof = 50ms;
    link_ = std::make_unique<PathsLink>(reactor_, newer(NodeSide::a).process, std::move(out), times);
    link_->start(calling_);
    for (const std::size_t number : {kRdma, kTcp}) {
      ends_.push_back(std::make_unique<PathOfNode>(*link_, number));
      if (number == kRdma) paths_[number]->on_problem([this](const std::string&) { ++failed_calls_; });
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

  engine::test::MadeCertificate a_ = engine::test::make_certificate(), b_ = engine::test::make_certificate();
  std::shared_ptr<const engine::TlsContext> of_a_ = engine::test::context_of(a_, {b_.fingerprint});
  std::shared_ptr<const engine::TlsContext> of_b_ = engine::test::context_of(b_, {a_.fingerprint});
  engine::SystemRandom random_;
  test::FakeFabric fabric_;
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
  std::string told_, ended_;
  unsigned failed_calls_ = 0;  ///< by RDMA: new reasons
  int done_ = 0, failed_ = 0;
};

inline constexpr std::array<std::size_t, 9> kSizes{0, 13, 512, 4096, 8192, 8193, 65'536, 300'000, kMiB};

enum class LinkKind : std::uint8_t { plain, encrypted };

/// As it is with encryption and without.
class LinkOverRdma : public TwoWays, public testing::WithParamInterface<LinkKind> {
 protected:
  [[nodiscard]] bool is_protected() const override { return GetParam() == LinkKind::encrypted; }
};

/// The mirror's own: it goes ahead, and what it brings is kept beside the reserve.
inline std::vector<std::byte> heartbeat() {
  Message m;
  m.type = MessageType::heartbeat;
  const auto header = encode(m);
  return {header.begin(), header.end()};
}

}  // namespace lockstep::replication
