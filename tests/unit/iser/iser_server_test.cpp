// A server's calls over RDMA when one address has many: who gives way, who is refused, and what is told of it.
#include <future>

#include <gtest/gtest.h>

#include "engine/runtime/system_random.hpp"
#include "iscsi_target/server/server.hpp"
#include "tests/unit/iser/iser_initiator.hpp"
#include "tests/unit/iser/memory_device.hpp"

namespace lockstep::test {
namespace {

using namespace std::chrono_literals;

class IserServer : public testing::Test {
 protected:
  void SetUp() override {
    reactor_.start();
    run([this] {
      for (auto* pool : {&pool_, &messages_}) fabric_.add_arena(pool->arena());
      other_fabric_.add_arena(their_pool_.arena());
      completions_ = fabric_.attach(reactor_);
      iscsi_target::Target target;
      target.name = kTarget;
      target.device_servers = {&device_};
      registry_.put(std::move(target));
    });
  }
  void TearDown() override {
    run([this] {
      for (auto& one : initiators_) one->close();
    });
    std::promise<void> stopped;
    server_->stop([&] { stopped.set_value(); });
    stopped.get_future().get();
    EXPECT_TRUE(eventually([this] { return messages_.in_use() == 0; }));
    EXPECT_TRUE(eventually([this] { return fabric_.connections().empty(); }));
    run([this] {
      initiators_.clear();
      server_.reset();
      completions_.reset();
      for (const std::string& fault : fabric_.faults()) ADD_FAILURE() << fault;
    });
    reactor_.stop();
    reactor_.join();
  }

  void serve(bool shares) {
    iscsi_target::ServerOptions options;
    options.rdma.fabric = &fabric_;
    options.rdma.shape.first = 120;  // so that a few sessions take much
    options.rdma.shape.most = 3000;
    options.rdma.shares_memory = shares;
    server_ = std::make_unique<iscsi_target::TargetServer>(
        std::vector<iscsi_target::ServerReactor>{
            {&reactor_, &pool_, completions_.get(), &messages_, nullptr, &figures_}},
        registry_, options);
    server_->on_event([this](const iscsi_target::SessionEvent& event) {
      if (event.kind == iscsi_target::SessionEvent::Kind::refused) told_.push_back(event);
    });
    address_ = server_->listen("127.0.0.1:0").value_or("");
  }
  template <class Work>
  std::invoke_result_t<Work> run(Work work) {
    std::packaged_task<std::invoke_result_t<Work>()> task(std::move(work));
    reactor_.post([&task] { task(); });
    return task.get_future().get();
  }
  [[nodiscard]] bool eventually(const std::function<bool()>& so) {
    for (int i = 0; i < 1000; ++i) {
      if (run(so)) return true;
      std::this_thread::sleep_for(5ms);
    }
    return false;
  }
  IserInitiator& call(const std::string& from, bool logs_in) {
    return *run([&] {
      const IserInitiator::Options options{.target = kTarget,
                                           .logs_in = logs_in,
                                           .from = from + ":0",
                                           .port = static_cast<std::uint8_t>(initiators_.size())};
      initiators_.push_back(std::make_unique<IserInitiator>(other_fabric_, reactor_, their_pool_, options));
      initiators_.back()->call(address_);
      return initiators_.back().get();
    });
  }
  bool logs_in(const std::string& from) {
    IserInitiator& one = call(from, true);
    EXPECT_TRUE(eventually([&] { return one.logged_in() || one.lost() || !one.login_error.empty(); }));
    last_error_ = run([&] { return one.login_error; });
    return run([&] { return one.logged_in(); });
  }
  bool is_told(const char* what) {
    return eventually([&] {
      return std::ranges::any_of(told_, [&](const auto& event) {
        return event.reason.find(what) != std::string::npos && event.session.address.starts_with("10.0.0.2:") &&
               event.session.portal == address_;
      });
    });
  }

  engine::Reactor reactor_;
  engine::SystemRandom random_;
  SeededRandom seeded_{1};
  FakeFabric fabric_{reactor_, random_};
  FakeFabric other_fabric_{fabric_};
  engine::BufferPool pool_{std::size_t{64} << 20};
  engine::BufferPool messages_{std::size_t{32} << 20};
  engine::BufferPool their_pool_{std::size_t{256} << 20};
  iser::Figures figures_;
  MemoryDevice device_{reactor_, pool_, seeded_, 1 << 20};
  std::unique_ptr<rdma::Completions> completions_;
  iscsi_target::TargetRegistry registry_;
  std::unique_ptr<iscsi_target::TargetServer> server_;
  std::string address_, last_error_;
  std::vector<std::unique_ptr<IserInitiator>> initiators_;
  std::vector<iscsi_target::SessionEvent> told_;
};

TEST_F(IserServer, RefusesALoginThatItsAddressHasNoShareForAndSaysSo) {
  serve(true);
  int count = 0;
  while (count < 40 && logs_in("10.0.0.2")) ++count;
  EXPECT_GT(count, 4);
  EXPECT_LT(count, 20);
  EXPECT_FALSE(last_error_.empty()) << "the login is answered";
  EXPECT_TRUE(is_told("all the memory that one address may have"));
  EXPECT_TRUE(logs_in("10.0.0.3"));
  EXPECT_TRUE(logs_in("10.0.0.3"));
  EXPECT_TRUE(logs_in("10.0.0.4"));
}

TEST_F(IserServer, LetsOnePeerHaveAllWhereNobodyElseCalls) {
  serve(false);
  int count = 0;
  while (count < 40 && logs_in("10.0.0.2")) ++count;
  EXPECT_GT(count, 20);
  EXPECT_TRUE(is_told("as many sessions over RDMA as there is memory for"));
}

// However often it calls: the oldest of its own gives way, and nobody else's.
TEST_F(IserServer, LetsStrangersGiveWayWhoseAddressHasMost) {
  serve(true);
  IserInitiator& quiet = call("10.0.0.3", false);
  EXPECT_TRUE(eventually([this] { return messages_.in_use() != 0; }));
  for (int i = 0; i < 60; ++i) call("10.0.0.2", false);
  EXPECT_TRUE(is_told("Too many calls over RDMA have no session yet"));
  EXPECT_TRUE(logs_in("10.0.0.4"));
  EXPECT_TRUE(eventually([this] {
    return std::ranges::any_of(told_,
                               [](const auto& e) { return e.reason.find("the oldest of them") != std::string::npos; });
  }));
  EXPECT_FALSE(run([&] { return quiet.lost(); }));
}

}  // namespace
}  // namespace lockstep::test
