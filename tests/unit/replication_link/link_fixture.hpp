#pragma once
// The partner link over real TCP: IscsiLink against the target's own session layer with a PartnerService behind it.
#include <condition_variable>
#include <functional>
#include <future>
#include <mutex>
#include <thread>

#include <gtest/gtest.h>

#include "engine/runtime/reactor.hpp"
#include "engine/runtime/system_random.hpp"
#include "iscsi_target/server/server.hpp"
#include "replication/core/messages.hpp"
#include "replication/link/iscsi_link.hpp"
#include "replication/link/partner_service.hpp"

namespace lockstep::replication {

using engine::Errc;
using engine::NodeSide;
using namespace std::chrono_literals;

inline const engine::Uuid kPair = *engine::Uuid::parse("00112233-4455-6677-8899-aabbccddeeff");
inline const engine::Uuid kOtherPair = *engine::Uuid::parse("10112233-4455-6677-8899-aabbccddeeff");

inline Hello hello_of(NodeSide side, const engine::Uuid& pair = kPair) {
  Hello hello;
  hello.pair = pair;
  hello.process.bytes[0] = side == NodeSide::a ? 1 : 2;
  hello.side = side;
  return hello;
}

inline iscsi::ChapCredentials credentials() {
  return {"partner", "secret-of-the-pair", "listener", "secret-of-the-other"};
}

inline std::span<const std::byte> as_bytes(const std::string& text) { return std::as_bytes(std::span(text)); }
inline std::string text_of(std::span<const std::byte> b) { return {reinterpret_cast<const char*>(b.data()), b.size()}; }

// Everything in these tests lives on one reactor of its own thread; the test waits until what it expects is so.
/// Node B's, for node A.
inline iscsi_target::Target target_of_b(scsi::DeviceServer& server) {
  iscsi_target::Target target;
  target.name = link_name(kPair, NodeSide::b);
  target.device_servers = {&server};
  target.access = std::make_shared<iscsi_target::AccessList>(
      std::vector<iscsi_target::AccessList::Entry>{{link_name(kPair, NodeSide::a), credentials()}});
  target.discoverable = false;
  return target;
}

class OnAReactor : public testing::Test {
 protected:
  void SetUp() override { reactor_.start(); }
  /// To end a TearDown() with.
  void stop_reactor() {
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

  engine::Reactor reactor_;
};

class World : public OnAReactor {
 protected:
  void TearDown() override {
    run([this] { link_.reset(); });
    stop_server();
    stop_reactor();
  }

  // The listening node, B. `answering`: every request is answered at once with its own header and payload.
  struct Partner final : LinkEvents {
    struct Seen {
      std::string header;
      std::string payload;
    };
    bool answering = true;
    std::string answered_first;  ///< not empty: what begins so is answered even when nothing else is
    std::size_t burst = 0;       ///< not 0: so many are held, then answered all at once
    std::vector<Seen> seen;
    std::vector<InboundRequest*> held;
    std::vector<std::string> events;
    void on_link_up() override {}
    void on_link_down() override {}
    void on_inbound_up(std::uint64_t session) override { events.push_back("up " + std::to_string(session)); }
    void on_inbound_down(std::uint64_t session) override { events.push_back("down " + std::to_string(session)); }
    void on_request(std::uint64_t, InboundRequest& request) override {
      seen.push_back({text_of(request.header()), burst ? "" : text_of(request.payload())});
      const bool anyway = !answered_first.empty() && text_of(request.header()).starts_with(answered_first);
      if ((answering && !burst) || anyway) return echo(request);
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
      registry_.put(target_of_b(*service_));
      iscsi_target::ServerOptions options;
      options.session.brings_buffers = false;  // as Pair has it
      options.session.queue_depth = iscsi_target::kMaxQueueDepth;
      options.session.max_stash = kStash;
      options.session.offers.header_digest = iscsi::Offers::Digest::crc32c;
      options.session.offers.data_digest = iscsi::Offers::Digest::crc32c;
      server_ = std::make_unique<iscsi_target::TargetServer>(
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

  engine::SystemRandom random_;
  engine::BufferPool buffers_{kStash};    ///< the session layer's
  engine::BufferPool reserve_{64 << 20};  ///< the partner service's
  Partner partner_;
  Node node_;
  iscsi_target::TargetRegistry registry_;
  std::unique_ptr<PartnerService> service_;
  std::unique_ptr<iscsi_target::TargetServer> server_;
  std::unique_ptr<IscsiLink> link_;
  std::string address_;
  std::string refused_;
};
using PartnerLink = World;

inline std::vector<std::byte> pattern(std::size_t size, int seed) {
  std::vector<std::byte> data(size);
  for (std::size_t i = 0; i < size; ++i) data[i] = static_cast<std::byte>((i * 31 + i / 251 + seed) & 0xFF);
  return data;
}

}  // namespace lockstep::replication
