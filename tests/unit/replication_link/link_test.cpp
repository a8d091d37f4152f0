// The partner link over real TCP: IscsiLink against the target's own session layer with a PartnerService behind it.
#include <condition_variable>
#include <functional>
#include <future>
#include <mutex>
#include <thread>

#include <gtest/gtest.h>

#include "engine/runtime/reactor.hpp"
#include "engine/runtime/system_random.hpp"
#include "iscsi_target/tcp/server.hpp"
#include "replication/core/messages.hpp"
#include "replication/link/iscsi_link.hpp"
#include "replication/link/partner_service.hpp"

namespace lockstep::replication {
namespace {

using engine::Errc;
using engine::NodeSide;
using namespace std::chrono_literals;

const engine::Uuid kPair = *engine::Uuid::parse("00112233-4455-6677-8899-aabbccddeeff");
const engine::Uuid kOtherPair = *engine::Uuid::parse("10112233-4455-6677-8899-aabbccddeeff");

Hello hello_of(NodeSide side, const engine::Uuid& pair = kPair) {
  Hello hello;
  hello.pair = pair;
  hello.process.bytes[0] = side == NodeSide::a ? 1 : 2;
  hello.side = side;
  return hello;
}

iscsi::ChapCredentials credentials() { return {"partner", "secret-of-the-pair", "listener", "secret-of-the-other"}; }

std::span<const std::byte> as_bytes(const std::string& text) { return std::as_bytes(std::span(text)); }
std::string text_of(std::span<const std::byte> b) { return {reinterpret_cast<const char*>(b.data()), b.size()}; }

// Everything in these tests lives on one reactor of its own thread; the test waits until what it expects is so.
class World : public testing::Test {
 protected:
  void SetUp() override { reactor_.start(); }
  void TearDown() override {
    run([this] { link_.reset(); });
    stop_server();
    reactor_.stop();
    reactor_.join();
  }

  template <class Work>
  std::invoke_result_t<Work> run(Work work) {
    using T = std::invoke_result_t<Work>;
    std::promise<T> promise;
    reactor_.post([&] {
      if constexpr (std::is_void_v<T>) {
        work();
        promise.set_value();
      } else {
        promise.set_value(work());
      }
    });
    return promise.get_future().get();
  }
  [[nodiscard]] bool eventually(std::function<bool()> so) {
    const auto deadline = std::chrono::steady_clock::now() + 10s;
    while (!run(so)) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::yield();
    }
    return true;
  }

  // The listening node, B. `answering`: every request is answered at once with its own header and payload.
  struct Partner final : LinkEvents {
    struct Seen {
      std::string header;
      std::string payload;
    };
    bool answering = true;
    std::size_t burst = 0;  ///< not 0: so many are held, then answered all at once
    std::vector<Seen> seen;
    std::vector<InboundRequest*> held;
    std::vector<std::string> events;
    void on_link_up() override {}
    void on_link_down() override {}
    void on_inbound_up(std::uint64_t session) override { events.push_back("up " + std::to_string(session)); }
    void on_inbound_down(std::uint64_t session) override { events.push_back("down " + std::to_string(session)); }
    void on_request(std::uint64_t, InboundRequest& request) override {
      seen.push_back({text_of(request.header()), burst ? "" : text_of(request.payload())});
      if (answering && !burst) return echo(request);
      held.push_back(&request);
      if (burst && held.size() == burst) answer_held();
    }
    void answer_held() {
      for (auto* request : std::exchange(held, {})) echo(*request);
    }
    static void echo(InboundRequest& request) {
      const std::string header = text_of(request.header());
      const std::size_t n = std::min(request.payload().size(), request.max_answer_payload());
      request.answer(as_bytes(header), request.payload().first(n), {});
    }
  };
  // The connecting node, A.
  struct Node final : LinkEvents {
    std::vector<std::string> events;
    void on_link_up() override { events.push_back("up"); }
    void on_link_down() override { events.push_back("down"); }
    void on_inbound_up(std::uint64_t) override {}
    void on_inbound_down(std::uint64_t) override {}
    void on_request(std::uint64_t, InboundRequest&) override {}
  };

  void start_server(const Hello& ours = hello_of(NodeSide::b), const std::string& address = "127.0.0.1:0") {
    run([&] {
      service_ = std::make_unique<PartnerService>(reactor_, reserve_, ours, partner_);
      service_->on_refused([this](const std::string& why) { refused_ = why; });
      iscsi_target::Target target;
      target.name = link_name(kPair, NodeSide::b);
      target.device_servers = {service_.get()};
      target.access = std::make_shared<iscsi_target::AccessList>(
          std::vector<iscsi_target::AccessList::Entry>{{link_name(kPair, NodeSide::a), credentials()}});
      target.discoverable = false;
      registry_.put(std::move(target));
      iscsi_target::ServerOptions options;
      options.session.queue_depth = iscsi_target::kMaxQueueDepth;
      options.session.max_stash = kStash;
      options.session.offers.header_digest = iscsi::Offers::Digest::crc32c;
      options.session.offers.data_digest = iscsi::Offers::Digest::crc32c;
      server_ = std::make_unique<iscsi_target::TcpTargetServer>(
          std::vector<iscsi_target::ServerReactor>{{&reactor_, &buffers_}}, registry_, options);
      const auto listens = server_->listen(address);
      ASSERT_TRUE(listens) << listens.error().message;
      address_ = *listens;
    });
  }
  void stop_server() {
    if (!server_) return;
    run([this] {
      for (auto* request : std::exchange(partner_.held, {})) Partner::echo(*request);
    });
    std::promise<void> stopped;
    server_->stop([&] { stopped.set_value(); });
    stopped.get_future().get();
    run([this] { service_.reset(); });
    server_.reset();
  }
  IscsiLinkSettings settings() {
    IscsiLinkSettings s;
    s.identity = {hello_of(NodeSide::a), credentials()};
    s.address = address_;
    return s;
  }
  void start_link(IscsiLinkSettings s) {
    run([&] {
      link_ = std::make_unique<IscsiLink>(reactor_, random_, std::move(s));
      link_->start(node_);
    });
  }
  void connect() {
    start_server();
    start_link(settings());
    ASSERT_TRUE(eventually([this] { return link_->is_up(); })) << run([this] { return link_->problem(); });
  }

  struct Answer {
    engine::IoResult<std::string> header = std::unexpected(std::error_code{});
    std::size_t payload = 0;
  };
  std::future<Answer> send(const std::string& header, std::span<const std::byte> out = {},
                           std::span<std::byte> in = {}) {
    auto promise = std::make_shared<std::promise<Answer>>();
    auto future = promise->get_future();
    reactor_.post([this, header, out, in, promise] {
      link_->send(as_bytes(header), out, in, [promise](const engine::IoResult<LinkAnswer>& result) {
        Answer answer;
        if (result) {
          answer.header = text_of(result->header);
          answer.payload = result->payload_bytes;
        } else {
          answer.header = std::unexpected(result.error());
        }
        promise->set_value(answer);
      });
    });
    return future;
  }

  /// As lockstepd has it: all that may come unasked.
  static constexpr std::size_t kStash = iscsi_target::kMaxQueueDepth * kLinkFirstBurst;

  engine::Reactor reactor_;
  engine::SystemRandom random_;
  engine::BufferPool buffers_{kStash};    ///< the session layer's
  engine::BufferPool reserve_{64 << 20};  ///< the partner service's
  Partner partner_;
  Node node_;
  iscsi_target::TargetRegistry registry_;
  std::unique_ptr<PartnerService> service_;
  std::unique_ptr<iscsi_target::TcpTargetServer> server_;
  std::unique_ptr<IscsiLink> link_;
  std::string address_;
  std::string refused_;
};
using PartnerLink = World;

std::vector<std::byte> pattern(std::size_t size, int seed) {
  std::vector<std::byte> data(size);
  for (std::size_t i = 0; i < size; ++i) data[i] = static_cast<std::byte>((i * 31 + i / 251 + seed) & 0xFF);
  return data;
}

TEST_F(PartnerLink, CarriesHeadersBothWays) {
  connect();
  EXPECT_EQ(*send("hello").get().header, "hello");
  EXPECT_EQ(*send(std::string(kMaxLinkHeader, 'h')).get().header, std::string(kMaxLinkHeader, 'h'));
  EXPECT_EQ(*send("").get().header, "");
  EXPECT_EQ(run([this] { return partner_.events; }), std::vector<std::string>{"up 1"});
}

TEST_F(PartnerLink, CarriesPayloadsOfEverySizeBothWays) {
  connect();
  for (const std::size_t size :
       {1ul, 3ul, 512ul, 4096ul, 8191ul, 65536ul, 262144ul, 262145ul, 524288ul, kMaxLinkPayload}) {
    const auto out = pattern(size, 7);
    std::vector<std::byte> in(size, std::byte{0});
    const auto answer = send("p" + std::to_string(size), out, in).get();
    ASSERT_TRUE(answer.header) << size << " " << answer.header.error().message();
    EXPECT_EQ(*answer.header, "p" + std::to_string(size));
    EXPECT_EQ(answer.payload, size);
    EXPECT_TRUE(in == out) << size;
  }
}

TEST_F(PartnerLink, CarriesPayloadOneWayOnly) {
  connect();
  const auto out = pattern(100000, 1);
  EXPECT_EQ(send("out", out).get().payload, 0u);
  EXPECT_EQ(run([this] { return partner_.seen.back().payload.size(); }), 100000u);
  std::vector<std::byte> in(1000);
  EXPECT_EQ(send("in", {}, in).get().payload, 0u);  // room that is not used
}

TEST_F(PartnerLink, DeliversInTheOrderOfSendingWhateverTheSizes) {
  connect();
  const auto large = pattern(kMaxLinkPayload, 3);
  const auto small = pattern(100, 4);
  std::vector<std::future<Answer>> answers;
  for (int i = 0; i < 600; ++i) {  // more than the window
    answers.push_back(send(std::to_string(i), i % 10 == 0  ? std::span<const std::byte>(large)
                                              : i % 3 == 0 ? std::span<const std::byte>(small)
                                                           : std::span<const std::byte>{}));
  }
  for (auto& answer : answers) ASSERT_TRUE(answer.get().header);
  run([this] {
    ASSERT_EQ(partner_.seen.size(), 600u);
    for (int i = 0; i < 600; ++i) ASSERT_EQ(partner_.seen[i].header, std::to_string(i));
  });
}

TEST_F(PartnerLink, TakesAnswersInAnyOrder) {
  connect();
  run([this] { partner_.answering = false; });
  auto first = send("first");
  auto second = send("second");
  ASSERT_TRUE(eventually([this] { return partner_.held.size() == 2; }));
  run([this] { Partner::echo(*partner_.held[1]); });
  EXPECT_EQ(*second.get().header, "second");
  run([this] {
    Partner::echo(*partner_.held[0]);
    partner_.held.clear();
  });
  EXPECT_EQ(*first.get().header, "first");
}

TEST_F(PartnerLink, KeepsAnAnswersPayloadUntilItIsSent) {
  connect();
  run([this] { partner_.answering = false; });
  std::vector<std::byte> in(kMaxLinkPayload);
  auto answer = send("read", {}, in);
  ASSERT_TRUE(eventually([this] { return partner_.held.size() == 1; }));
  auto data = std::make_shared<std::vector<std::byte>>(pattern(kMaxLinkPayload, 9));
  const auto expected = *data;
  bool inside = false;
  run([&, this] {
    inside = true;
    partner_.held[0]->answer(as_bytes("r"), *data, [&inside, data]() mutable {
      EXPECT_FALSE(inside);
      std::fill(data->begin(), data->end(), std::byte{0xEE});
    });
    partner_.held.clear();
    inside = false;
  });
  EXPECT_EQ(answer.get().payload, kMaxLinkPayload);
  EXPECT_TRUE(in == expected);
  EXPECT_TRUE(eventually([&] { return data->front() == std::byte{0xEE}; }));
}

TEST_F(PartnerLink, EndsEverythingWithUnknownOutcomeBeforeItSaysThatItIsDown) {
  connect();
  run([this] { partner_.answering = false; });
  std::vector<std::string> order;
  run([&, this] {
    for (int i = 0; i < 300; ++i) {  // some on the wire, some behind the window
      link_->send(as_bytes("x"), {}, {}, [&order, this](const engine::IoResult<LinkAnswer>& r) {
        EXPECT_EQ(r.error(), Errc::unknown_outcome);
        EXPECT_TRUE(link_->is_up());
        order.push_back("end");
        EXPECT_EQ(node_.events.back(), "up");
      });
    }
  });
  ASSERT_TRUE(eventually([this] { return !partner_.held.empty(); }));
  run([this] { link_->reset(); });
  ASSERT_TRUE(eventually([this] { return node_.events.size() >= 3; }));
  EXPECT_EQ(run([&] { return order.size(); }), 300u);
  EXPECT_EQ(run([this] { return node_.events; }), (std::vector<std::string>{"up", "down", "up"}));
  // The old session was gone before the new one was let in.
  EXPECT_EQ(run([this] { return partner_.events; }), (std::vector<std::string>{"up 1", "down 1", "up 2"}));
  // What the old session had asked may still be answered; nobody hears it.
  run([this] {
    for (auto* request : std::exchange(partner_.held, {})) Partner::echo(*request);
    partner_.answering = true;
  });
  EXPECT_EQ(*send("new").get().header, "new");
}

TEST_F(PartnerLink, SendingWhileItIsDownEndsLaterWithUnknownOutcome) {
  start_server();
  IscsiLinkSettings s = settings();
  s.address = "";
  start_link(s);
  bool inside = true;
  std::promise<std::error_code> ended;
  run([&, this] {
    link_->send(as_bytes("x"), {}, {}, [&](const engine::IoResult<LinkAnswer>& r) {
      EXPECT_FALSE(inside);
      ended.set_value(r.error());
    });
    inside = false;
  });
  EXPECT_EQ(ended.get_future().get(), Errc::unknown_outcome);
}

TEST_F(PartnerLink, ComesUpWhenThePartnerDoesAndAgainAfterItsRestart) {
  start_server();
  const std::string address = address_;
  stop_server();
  start_link(settings());
  ASSERT_TRUE(eventually([this] { return !link_->problem().empty(); }));
  EXPECT_FALSE(run([this] { return link_->is_up(); }));
  start_server(hello_of(NodeSide::b), address);
  ASSERT_TRUE(eventually([this] { return link_->is_up(); })) << run([this] { return link_->problem(); });
  stop_server();
  ASSERT_TRUE(eventually([this] { return node_.events.back() == "down"; }));
  start_server(hello_of(NodeSide::b), address);
  ASSERT_TRUE(eventually([this] { return node_.events.back() == "up"; }));
}

TEST_F(PartnerLink, IsRefusedWithTheReasonWhenThePartnerSpeaksAnotherVersion) {
  Hello newer = hello_of(NodeSide::b);
  newer.version = kPartnerVersion + 1;
  start_server(newer);
  start_link(settings());
  ASSERT_TRUE(eventually([this] { return link_->problem().find("upgrade the older") != std::string::npos; }));
  EXPECT_NE(run([this] { return refused_; }).find("version 3"), std::string::npos);
  EXPECT_TRUE(run([this] { return partner_.events; }).empty());
  EXPECT_TRUE(run([this] { return node_.events; }).empty());
}

TEST_F(PartnerLink, IsRefusedWithTheReasonWhenThePartnerBelongsToAnotherPair) {
  start_server(hello_of(NodeSide::b, kOtherPair));
  start_link(settings());
  ASSERT_TRUE(eventually([this] { return link_->problem().find("belongs to pair") != std::string::npos; }));
}

TEST_F(PartnerLink, IsRefusedAtTheLoginWhenThePartnerDoesNotKnowThePair) {
  start_server();
  IscsiLinkSettings s = settings();
  s.identity.ours.pair = kOtherPair;
  start_link(s);
  ASSERT_TRUE(eventually([this] { return link_->problem().find("did not let us in") != std::string::npos; }));
}

TEST_F(PartnerLink, IsRefusedWithAWrongSecretEitherWay) {
  start_server();
  IscsiLinkSettings s = settings();
  s.identity.chap->secret = "wrong-secret-of-ours";
  start_link(s);
  ASSERT_TRUE(eventually([this] { return !link_->problem().empty(); }));
  run([this] { link_.reset(); });
  s = settings();
  s.identity.chap->mutual_secret = "wrong-secret-of-them";
  start_link(s);
  ASSERT_TRUE(eventually([this] { return !link_->problem().empty(); }));
  EXPECT_TRUE(run([this] { return node_.events; }).empty());
}

TEST_F(PartnerLink, NoticesASilentPartnerWithinItsTimeAndSaysSo) {
  connect();
  // The partner's end stands still: its reactor is this test's, so the link gets a reactor of its own.
  engine::Reactor other;
  other.start();
  Node watcher;
  std::unique_ptr<IscsiLink> lonely;
  const auto on_other = [&](auto work) {
    std::promise<void> done;
    other.post([&] {
      work();
      done.set_value();
    });
    done.get_future().get();
  };
  run([this] { link_.reset(); });
  engine::SystemRandom random;
  on_other([&] {
    lonely = std::make_unique<IscsiLink>(other, random, settings());
    lonely->start(watcher);
  });
  const auto is = [&](const char* event) {
    bool so = false;
    on_other([&] { so = !watcher.events.empty() && watcher.events.back() == event; });
    return so;
  };
  while (!is("up")) std::this_thread::yield();
  std::promise<void> go_on;
  reactor_.post([wait = go_on.get_future().share()] { wait.wait(); });
  const auto begun = std::chrono::steady_clock::now();
  while (!is("down")) std::this_thread::yield();
  const auto took = std::chrono::steady_clock::now() - begun;
  EXPECT_GT(took, 700ms);
  EXPECT_LT(took, 3s);
  on_other([&] { EXPECT_NE(lonely->problem().find("silent"), std::string::npos); });
  go_on.set_value();
  while (!is("up")) std::this_thread::yield();
  on_other([&] { lonely.reset(); });
  other.stop();
  other.join();
}

TEST_F(PartnerLink, StaysUpWhileAnAnswerTakesLong) {
  connect();
  run([this] { partner_.answering = false; });
  auto answer = send("slow");
  EXPECT_EQ(answer.wait_for(2500ms), std::future_status::timeout);
  EXPECT_EQ(run([this] { return node_.events; }), std::vector<std::string>{"up"});
  run([this] {
    for (auto* request : std::exchange(partner_.held, {})) Partner::echo(*request);
  });
  EXPECT_EQ(*answer.get().header, "slow");
}

TEST_F(PartnerLink, WaitsForBuffersInsteadOfFailing) {
  connect();
  // All of the partner's buffers are taken; they come back one by one.
  std::vector<engine::Buffer> taken;
  run([&, this] {
    for (;;) {
      auto buffer = reserve_.allocate(1 << 20);
      if (!buffer) break;
      taken.push_back(std::move(buffer));
    }
    while (auto buffer = reserve_.allocate(4096)) taken.push_back(std::move(buffer));
  });
  const auto out = pattern(200000, 5);
  auto first = send("1", out);
  auto second = send("2");
  EXPECT_EQ(first.wait_for(100ms), std::future_status::timeout);
  run([&] { taken.clear(); });
  EXPECT_TRUE(first.get().header);
  EXPECT_TRUE(second.get().header);
  run([this] {
    ASSERT_EQ(partner_.seen.size(), 2u);
    EXPECT_EQ(partner_.seen[0].header, "1");
    EXPECT_EQ(partner_.seen[1].header, "2");
  });
}

TEST_F(PartnerLink, ServesRequestsThatWaitForBuffersBeforeNewerOnes) {
  // Of the smallest reserve that can be configured a buffer is left for each of 32 requests; 63 fit the sender's
  // window.
  engine::Buffer taken = run([this] { return reserve_.allocate(std::size_t{32} << 20); });
  ASSERT_TRUE(taken);
  connect();
  run([this] { partner_.burst = 32; });
  const auto out = pattern(520 << 10, 6);
  std::vector<std::future<Answer>> answers;
  constexpr std::size_t kRequests = 9 * 32 + 12;
  for (std::size_t i = 0; i < kRequests; ++i) answers.push_back(send(std::to_string(i), out));
  EXPECT_TRUE(eventually([&, this] { return partner_.seen.size() == kRequests || node_.events.size() > 1; }));
  run([this] { partner_.answer_held(); });
  EXPECT_EQ(run([this] { return node_.events; }), std::vector<std::string>{"up"})
      << run([this] { return link_->problem(); });
  EXPECT_EQ(run([this] { return partner_.events; }), std::vector<std::string>{"up 1"});
  run([&, this] {
    ASSERT_EQ(partner_.seen.size(), kRequests);
    for (std::size_t i = 0; i < kRequests; ++i) ASSERT_EQ(partner_.seen[i].header, std::to_string(i));
  });
  for (auto& answer : answers) {
    ASSERT_EQ(answer.wait_for(10s), std::future_status::ready);
    EXPECT_TRUE(answer.get().header);
  }
  EXPECT_TRUE(eventually([this] { return reserve_.in_use() == std::size_t{32} << 20; }));
  run([&] { taken.reset(); });
}

TEST_F(PartnerLink, KeepsWhatComesUnaskedWhileNoBufferIsThere) {
  connect();
  std::vector<engine::Buffer> taken;
  run([&, this] {
    while (auto buffer = reserve_.allocate(std::size_t{1} << 20)) taken.push_back(std::move(buffer));
  });
  const auto out = pattern(kLinkFirstBurst, 8);
  std::vector<std::future<Answer>> answers;
  constexpr int kRequests = 128;  // as many as the sender's window lets out: 32 MiB
  for (int i = 0; i < kRequests; ++i) answers.push_back(send(std::to_string(i), out));
  ASSERT_TRUE(eventually([this] { return buffers_.in_use() == kRequests * kLinkFirstBurst; }));
  run([&] { taken.clear(); });
  for (auto& answer : answers) ASSERT_TRUE(answer.get().header);
  run([&, this] {
    ASSERT_EQ(partner_.seen.size(), std::size_t{kRequests});
    for (int i = 0; i < kRequests; ++i) {
      EXPECT_EQ(partner_.seen[i].header, std::to_string(i));
      EXPECT_TRUE(partner_.seen[i].payload == text_of(out)) << i;
    }
  });
  EXPECT_EQ(run([this] { return node_.events; }), std::vector<std::string>{"up"});
}

// A heartbeat tells that this node is there: it needs no part of what the data takes up.
TEST_F(PartnerLink, TakesAHeartbeatWhileEveryBufferIsTaken) {
  connect();
  std::vector<engine::Buffer> taken;
  run([&, this] {
    while (auto buffer = reserve_.allocate(std::size_t{1} << 20)) taken.push_back(std::move(buffer));
  });
  Message beat;
  beat.type = MessageType::heartbeat;
  const auto ids = pattern(2000 * 32, 2);  // of 2000 volumes
  std::vector<std::byte> granted(2000);
  beat.payload = static_cast<std::uint32_t>(ids.size());
  auto answer = send(text_of(encode(beat)), ids, granted);
  ASSERT_EQ(answer.wait_for(500ms), std::future_status::ready);
  EXPECT_TRUE(answer.get().header);
  EXPECT_TRUE(std::equal(granted.begin(), granted.end(), ids.begin()));
  run([&] { taken.clear(); });
}

TEST_F(PartnerLink, GivesEveryBufferBack) {
  connect();
  const auto out = pattern(kMaxLinkPayload, 5);
  std::vector<std::byte> in(kMaxLinkPayload);
  run([this] { partner_.answering = false; });
  std::vector<std::future<Answer>> answers;
  for (int i = 0; i < 20; ++i) answers.push_back(send("x", out));
  ASSERT_TRUE(eventually([this] { return partner_.held.size() == 20; }));
  run([this] { link_->reset(); });
  for (auto& answer : answers) EXPECT_EQ(answer.get().header.error(), Errc::unknown_outcome);
  run([this] {
    for (auto* request : std::exchange(partner_.held, {})) Partner::echo(*request);
    partner_.answering = true;
  });
  ASSERT_TRUE(eventually([this] { return node_.events.size() >= 3; }));
  EXPECT_TRUE(send("y", out, in).get().header);
  EXPECT_TRUE(eventually([this] { return reserve_.in_use() == 0; }));
}

}  // namespace
}  // namespace lockstep::replication
