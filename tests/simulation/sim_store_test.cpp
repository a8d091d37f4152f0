// The simulated disk keeps what a disk must keep, and loses what a disk may lose.
#include "tests/simulation/sim_store.hpp"

#include <optional>

#include <gtest/gtest.h>

namespace lockstep::simulation {
namespace {

class SimulatedDisk : public testing::Test {
 protected:
  SimulatedDisk() { make(1); }
  void make(std::uint64_t seed) {
    store.reset();
    scheduler.emplace(trace, SimRandom(seed));
    store.emplace(SimStore::World{*scheduler, trace, verdict}, SimRandom(seed + 1), Owner::node_a, "disk", 64 * 1024);
  }
  std::error_code wait() {
    while (!status && scheduler->step()) {
    }
    return status.value_or(make_error_code(engine::Errc::timed_out));
  }
  engine::IoCallback done() {
    status.reset();
    return [this](std::error_code e) { status = e; };
  }
  std::error_code write(std::uint64_t offset, std::byte fill, engine::Durability durability, std::size_t bytes = 1024) {
    data.assign(bytes, fill);
    store->write(offset, data, durability, done());
    return wait();
  }
  std::error_code flush() {
    store->flush(done());
    return wait();
  }
  void fail_a_flush() {
    StoreFaults faults;
    faults.flush_error = 1'000'000;
    store->set_faults(faults);
    ASSERT_TRUE(flush());
    store->set_faults({});
  }
  [[nodiscard]] std::byte visible(std::uint64_t offset) const { return store->visible()[offset]; }

  Trace trace;
  Verdict verdict;
  std::optional<Scheduler> scheduler;
  std::optional<SimStore> store;
  std::optional<std::error_code> status;
  std::vector<std::byte> data;
};

TEST_F(SimulatedDisk, ADurableWriteSurvivesEveryPowerCut) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    make(seed);
    ASSERT_FALSE(write(512, std::byte{7}, engine::Durability::durable));
    store->power_cut();
    ASSERT_EQ(visible(512), std::byte{7});
    ASSERT_EQ(visible(1024), std::byte{7});
  }
}

TEST_F(SimulatedDisk, AFlushedWriteSurvivesEveryPowerCut) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    make(seed);
    ASSERT_FALSE(write(512, std::byte{7}, engine::Durability::cached));
    ASSERT_FALSE(flush());
    store->power_cut();
    ASSERT_EQ(visible(512), std::byte{7});
  }
}

TEST_F(SimulatedDisk, AnUnflushedWriteIsLostKeptOrTornBySectors) {
  unsigned lost = 0;
  unsigned kept = 0;
  unsigned torn = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    make(seed);
    ASSERT_FALSE(write(512, std::byte{7}, engine::Durability::cached));
    ASSERT_EQ(visible(512), std::byte{7});
    store->power_cut();
    const bool first = visible(512) == std::byte{7};
    const bool second = visible(1024) == std::byte{7};
    ASSERT_EQ(visible(512), visible(1023)) << "a sector is whole";
    ++(first != second ? torn : (first ? kept : lost));
  }
  EXPECT_GT(lost, 20u);
  EXPECT_GT(kept, 20u);
  EXPECT_GT(torn, 5u);
}

TEST_F(SimulatedDisk, AKilledProcessLosesNothingThatCompleted) {
  ASSERT_FALSE(write(512, std::byte{7}, engine::Durability::cached));
  store->process_died();
  EXPECT_EQ(visible(512), std::byte{7});
}

TEST_F(SimulatedDisk, AFailedFlushMayLoseWhatALaterFlushDoesNotBringBack) {
  ASSERT_FALSE(write(512, std::byte{7}, engine::Durability::cached));
  fail_a_flush();
  store->opened_anew();
  ASSERT_FALSE(flush());
  store->power_cut();
  EXPECT_EQ(visible(512), std::byte{0});
}

TEST_F(SimulatedDisk, AfterAFailedFlushNothingIsWrittenUntilItIsOpenedAnew) {
  ASSERT_FALSE(write(512, std::byte{7}, engine::Durability::durable));
  fail_a_flush();
  EXPECT_TRUE(store->refuses_writes());
  EXPECT_EQ(flush(), make_error_code(engine::Errc::io_error));
  EXPECT_EQ(write(512, std::byte{8}, engine::Durability::durable), make_error_code(engine::Errc::io_error));
  EXPECT_EQ(visible(512), std::byte{7});
  store->opened_anew();
  EXPECT_FALSE(store->refuses_writes());
  EXPECT_FALSE(write(512, std::byte{8}, engine::Durability::durable));
}

TEST_F(SimulatedDisk, AnExtentBeyondTheEndIsRefusedWithoutEffect) {
  EXPECT_EQ(write(64 * 1024 - 512, std::byte{7}, engine::Durability::durable),
            make_error_code(engine::Errc::out_of_range));
  EXPECT_EQ(visible(64 * 1024 - 1), std::byte{0});
}

TEST_F(SimulatedDisk, AFullDiskRefusesWhatItHasNoSpaceForAndKeepsTheRest) {
  ASSERT_FALSE(write(0, std::byte{1}, engine::Durability::durable));
  StoreFaults faults;
  faults.full = true;
  store->set_faults(faults);
  EXPECT_EQ(write(8192, std::byte{7}, engine::Durability::durable), make_error_code(engine::Errc::no_space));
  EXPECT_FALSE(write(0, std::byte{7}, engine::Durability::durable));
}

TEST_F(SimulatedDisk, ALostSectorIsWrittenOverByItsWholePhysicalBlockAlone) {
  store->set_physical_block_size(4096);
  store->lose_sector(9);
  for (const std::uint64_t offset : {9 * 512, 8 * 512 - 1024 + 512}) {
    EXPECT_EQ(write(offset, std::byte{7}, engine::Durability::durable), make_error_code(engine::Errc::io_error));
  }
  EXPECT_NE(visible(10 * 512), std::byte{7});
  EXPECT_FALSE(write(16 * 512, std::byte{7}, engine::Durability::durable)) << "beside it";
  EXPECT_TRUE(store->is_lost(9));
  EXPECT_FALSE(write(4096, std::byte{7}, engine::Durability::durable, 4096));
  EXPECT_FALSE(store->is_lost(9));
}

TEST_F(SimulatedDisk, AHungOperationReturnsOnceReleased) {
  StoreFaults faults;
  faults.hang = 1'000'000;
  store->set_faults(faults);
  data.assign(512, std::byte{7});
  store->write(0, data, engine::Durability::durable, done());
  while (scheduler->step()) {
  }
  EXPECT_FALSE(status.has_value());
  store->release_hung();
  EXPECT_FALSE(wait());
  EXPECT_EQ(visible(0), std::byte{7});
}

TEST_F(SimulatedDisk, ABufferChangedWhileItIsWrittenIsNoticed) {
  data.assign(512, std::byte{7});
  store->write(0, data, engine::Durability::durable, done());
  data[5] = std::byte{8};
  (void)wait();
  EXPECT_TRUE(verdict.failed());
}

TEST_F(SimulatedDisk, WhatStandsStillCompletesInOrderWhenItGoesOn) {
  store->stand_still();
  std::vector<int> order;
  for (int i = 0; i < 8; ++i) {
    store->write(static_cast<std::uint64_t>(i) * 512, data = std::vector<std::byte>(512), engine::Durability::cached,
                 [&order, i](std::error_code) { order.push_back(i); });
  }
  scheduler->at(
      kSecond, Owner::world, [](void*, std::uint64_t) {}, nullptr);
  while (scheduler->step()) {
  }
  EXPECT_TRUE(order.empty());
  store->go_on();
  while (scheduler->step()) {
  }
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST_F(SimulatedDisk, IsSetBackToItsSnapshot) {
  ASSERT_FALSE(write(512, std::byte{1}, engine::Durability::durable));
  const StoreSnapshot before = store->snapshot();
  ASSERT_FALSE(write(512, std::byte{2}, engine::Durability::durable));
  ASSERT_FALSE(write(8192, std::byte{2}, engine::Durability::cached));
  store->process_died();
  store->set_back(before);
  EXPECT_EQ(visible(512), std::byte{1});
  EXPECT_EQ(visible(8192), std::byte{0});
  EXPECT_TRUE(store->run_at(8192).hole);
  store->power_cut();
  EXPECT_EQ(visible(512), std::byte{1});
}

}  // namespace
}  // namespace lockstep::simulation
