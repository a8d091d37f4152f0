#pragma once
// A target server on two reactors with RAM disks behind it, on a port of its own.
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "engine/runtime/buffer_pool.hpp"
#include "engine/runtime/reactor.hpp"
#include "iscsi_target/server/registry.hpp"
#include "iscsi_target/server/server.hpp"
#include "tests/unit/iscsi_session/ram_disk.hpp"

namespace lockstep::test {

inline const std::string kTarget = "iqn.2026-11.io.lockstep:test";
inline const std::string kInitiator = "iqn.2026-11.io.lockstep:initiator";

/// Waits for a state that is bound to come.
[[nodiscard]] inline bool eventually(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

struct TestServer {
  explicit TestServer(iscsi_target::ServerOptions options = {}, std::size_t reactor_count = 2,
                      std::size_t pool_bytes = std::size_t{64} << 20) {
    for (std::size_t i = 0; i < reactor_count; ++i) {
      reactors.push_back(std::make_unique<engine::Reactor>(engine::ReactorOptions{.name = "r" + std::to_string(i)}));
      pools.push_back(std::make_unique<engine::BufferPool>(pool_bytes, engine::BufferPool::Layout::by_size));
      disks.push_back(std::make_unique<RamDisk>(*reactors.back(), *pools.back(), storage));
    }
    put_target({});
    std::vector<iscsi_target::ServerReactor> where;
    for (std::size_t i = 0; i < reactor_count; ++i) where.push_back({reactors[i].get(), pools[i].get()});
    server = std::make_unique<iscsi_target::TargetServer>(where, registry, options);
    server->on_event([this](const iscsi_target::SessionEvent& event) {
      const std::lock_guard lock(events_mutex);
      events.push_back(event);
    });
    for (auto& reactor : reactors) reactor->start();
    const auto bound = server->listen("127.0.0.1:0");
    if (!bound) throw std::runtime_error(bound.error().message);
    address = *bound;
  }

  ~TestServer() {
    std::promise<void> stopped;
    server->stop([&] { stopped.set_value(); });
    EXPECT_EQ(stopped.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
    for (auto& reactor : reactors) reactor->stop();
    for (auto& reactor : reactors) reactor->join();
    server.reset();
    for (auto& pool : pools) EXPECT_EQ(pool->in_use(), 0u);
    EXPECT_EQ(storage.nexuses_open, 0);
    EXPECT_EQ(storage.executed, storage.completed);
  }

  void put_target(std::vector<iscsi_target::AccessList::Entry> access, std::vector<iscsi_target::Portal> portals = {},
                  const std::string& name = kTarget) {
    iscsi_target::Target target;
    target.name = name;
    target.portals = std::move(portals);
    for (auto& disk : disks) target.device_servers.push_back(disk.get());
    target.access = std::make_shared<iscsi_target::AccessList>(std::move(access));
    registry.put(std::move(target));
  }

  void release_held() {
    storage.hold = storage.hold_writes = false;
    for (std::size_t i = 0; i < disks.size(); ++i) {
      reactors[i]->post([disk = disks[i].get()] { disk->release_held(); });
    }
  }

  /// The reasons of all events of that kind, of which there is bound to be one.
  [[nodiscard]] std::vector<std::string> awaited_reasons(iscsi_target::SessionEvent::Kind kind) {
    EXPECT_TRUE(eventually([&] { return !reasons(kind).empty(); }));
    return reasons(kind);
  }
  /// The reasons of all events of that kind.
  [[nodiscard]] std::vector<std::string> reasons(iscsi_target::SessionEvent::Kind kind) {
    const std::lock_guard lock(events_mutex);
    std::vector<std::string> out;
    for (const auto& event : events) {
      if (event.kind == kind) out.push_back(event.reason);
    }
    return out;
  }

  RamStorage storage{std::size_t{32} << 20};
  std::vector<std::unique_ptr<engine::Reactor>> reactors;
  std::vector<std::unique_ptr<engine::BufferPool>> pools;
  std::vector<std::unique_ptr<RamDisk>> disks;
  iscsi_target::TargetRegistry registry;
  std::unique_ptr<iscsi_target::TargetServer> server;
  std::string address;
  std::mutex events_mutex;
  std::vector<iscsi_target::SessionEvent> events;
};

}  // namespace lockstep::test
