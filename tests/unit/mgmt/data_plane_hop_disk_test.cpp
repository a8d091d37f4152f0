// A volume's disk from another reactor: requests there and back, and cancelled on their way.
#include <chrono>
#include <future>
#include <map>
#include <memory>
#include <set>

#include <gtest/gtest.h>

#include "engine/runtime/reactor.hpp"
#include "mgmt/data_plane/hop_disk.hpp"
#include "mgmt/data_plane/worker_stalls.hpp"

namespace lockstep::data_plane {
namespace {

using engine::DiskRequest;
using engine::Errc;
using engine::Reactor;

/// Ends what it is given when it is told to, or cancels it; all of that on one reactor.
class HomeDisk final : public engine::Disk {
 public:
  explicit HomeDisk(Reactor& home) : home_(home) {}
  [[nodiscard]] const engine::DiskInfo& info() const override { return info_; }
  [[nodiscard]] engine::AccessState access_state() const override { return engine::AccessState::active_optimized; }
  void submit(DiskRequest& request) override {
    EXPECT_TRUE(home_.on_this_thread());
    EXPECT_TRUE(at_work.insert(&request).second);
    seen.insert(&request);
    ++submitted;
    if (ends_soon && submitted % 3 == 0) return end(request, {});
    if (ends_soon) home_.post([this, &request, number = submitted] { end_late(request, number); });
    numbers[&request] = submitted;
  }
  void cancel(DiskRequest& request) override {
    EXPECT_TRUE(home_.on_this_thread());
    EXPECT_TRUE(at_work.contains(&request)) << "over, or never begun";
    ++cancelled;
    if (can_cancel && numbers[&request] % 2 == 0) end(request, Errc::aborted);
  }
  void end(DiskRequest& request, std::error_code status) {
    at_work.erase(&request);
    numbers.erase(&request);
    request.status = status;
    request.done(request);
  }

  std::set<DiskRequest*> at_work, seen;
  std::map<DiskRequest*, std::size_t> numbers;
  std::size_t submitted = 0, cancelled = 0;
  bool ends_soon = false, can_cancel = true;

 private:
  /// Ends the request unless it was cancelled meanwhile; another may be in its place by now.
  void end_late(DiskRequest& request, std::size_t number) {
    if (at_work.contains(&request) && numbers[&request] == number) end(request, {});
  }
  Reactor& home_;
  engine::DiskInfo info_;
};

class HopDiskTest : public testing::Test {
 protected:
  HopDiskTest() {
    home.start();
    away.start();
  }
  ~HopDiskTest() override {
    for (Reactor* reactor : {&away, &home}) {
      reactor->stop();
      reactor->join();
    }
  }
  template <class Work>
  static auto on(Reactor& reactor, Work work) {
    std::promise<decltype(work())> result;
    reactor.post([&] {
      if constexpr (std::is_void_v<decltype(work())>) {
        work();
        result.set_value();
      } else {
        result.set_value(work());
      }
    });
    return result.get_future().get();
  }

  Reactor home, away;
  HomeDisk inner{home};
  HopDisk disk{inner, {{&home}, {&away}}, 0};
};

struct Watched {
  explicit Watched(Reactor& on) : reactor(on) {
    request.owner = this;
    request.done = [](DiskRequest& r) {
      auto& self = *static_cast<Watched*>(r.owner);
      EXPECT_TRUE(self.reactor.on_this_thread());
      self.ended.set_value(r.status);
    };
  }
  Reactor& reactor;
  DiskRequest request;
  std::promise<std::error_code> ended;
};

TEST_F(HopDiskTest, ACancelReachesTheDiskOnItsReactorAndTheEndComesBack) {
  Watched one(away);
  inner.submitted = 1;  // the next is one that can be cancelled
  on(away, [&] {
    disk.submit(one.request);
    disk.cancel(one.request);
    disk.cancel(one.request);
  });
  EXPECT_EQ(one.ended.get_future().get(), Errc::aborted);
  EXPECT_EQ(on(home, [&] { return inner.cancelled; }), 1u);
}

TEST_F(HopDiskTest, WhatCannotBeCancelledEndsAsItDoes) {
  inner.can_cancel = false;
  Watched one(away);
  on(away, [&] {
    disk.submit(one.request);
    disk.cancel(one.request);
  });
  on(home, [&] {
    EXPECT_EQ(inner.cancelled, 1u);
    inner.end(**inner.at_work.begin(), Errc::no_space);
  });
  EXPECT_EQ(one.ended.get_future().get(), Errc::no_space);
}

TEST_F(HopDiskTest, WhatIsKnownOfTheAgeOfARequestGoesWithIt) {
  auto stalls = std::make_unique<WorkerStalls>(away);
  HopDisk watched{inner, {{&home}, {&away, stalls.get()}}, 0};
  const engine::TimePoint then{std::chrono::seconds(7)};
  for (HopDisk* each : {&disk, &watched}) {
    Watched one(away);
    one.request.came_since = then;
    on(away, [&] { each->submit(one.request); });
    on(home, [&] {
      EXPECT_EQ((*inner.at_work.begin())->came_since, then);
      inner.end(**inner.at_work.begin(), {});
    });
    EXPECT_FALSE(one.ended.get_future().get());
  }
  on(away, [&] { stalls.reset(); });
}

TEST_F(HopDiskTest, FromTheDisksOwnReactorACancelGoesStraightThrough) {
  Watched one(home);
  inner.submitted = 1;
  on(home, [&] {
    disk.submit(one.request);
    disk.cancel(one.request);
  });
  EXPECT_EQ(one.ended.get_future().get(), Errc::aborted);
}

/// Keeps eight requests on their way, and cancels every other one at once or a turn later, while the disk ends them.
class Storm {
 public:
  static constexpr std::size_t kDepth = 8, kRequests = 20000;
  Storm(HopDisk& disk, Reactor& reactor) : disk_(disk), reactor_(reactor) {
    for (Slot& slot : slots_) {
      slot.storm = this;
      slot.request.owner = &slot;
      slot.request.done = [](DiskRequest& r) {
        auto& at = *static_cast<Slot*>(r.owner);
        EXPECT_TRUE(std::exchange(at.is_out, false)) << "ended twice";
        at.storm->ended(at);
      };
    }
  }
  /// On the reactor.
  void start() {
    for (Slot& slot : slots_) submit(slot);
  }
  [[nodiscard]] std::future<void> over() { return over_.get_future(); }

 private:
  struct Slot {
    Storm* storm = nullptr;
    DiskRequest request;
    bool is_out = false;
    std::size_t number = 0;
  };
  void submit(Slot& slot) {
    const std::size_t number = slot.number = ++submitted_;
    slot.is_out = true;
    slot.request.status.clear();
    disk_.submit(slot.request);
    if (number % 4 == 0) return disk_.cancel(slot.request);
    if (number % 4 != 1) return;
    reactor_.post([this, &slot, number] {
      if (slot.is_out && slot.number == number) disk_.cancel(slot.request);
    });
  }
  void ended(Slot& slot) {
    EXPECT_TRUE(!slot.request.status || slot.request.status == Errc::aborted);
    if (submitted_ < kRequests) return submit(slot);
    if (++idle_ == kDepth) over_.set_value();
  }

  HopDisk& disk_;
  Reactor& reactor_;
  std::array<Slot, kDepth> slots_;
  std::size_t submitted_ = 0, idle_ = 0;
  std::promise<void> over_;
};

TEST_F(HopDiskTest, CancelsNeverMeetARequestThatIsOverNorOneThatTookItsPlace) {
  inner.ends_soon = true;
  Storm storm(disk, away);
  auto over = storm.over();
  on(away, [&] { storm.start(); });
  ASSERT_EQ(over.wait_for(std::chrono::seconds(60)), std::future_status::ready);
  on(home, [&] {
    EXPECT_TRUE(inner.at_work.empty());
    EXPECT_EQ(inner.submitted, Storm::kRequests);
    EXPECT_GT(inner.cancelled, 0u);
    EXPECT_LE(inner.seen.size(), Storm::kDepth) << "what was allocated once is used again";
  });
}

}  // namespace
}  // namespace lockstep::data_plane
