#pragma once
// A metadata area whose dirty map is asked by number: a ticket each, and what became of it.
#include <set>
#include <vector>

#include "tests/unit/engine/metadata_fixture.hpp"

namespace lockstep::engine {

constexpr std::uint64_t kPerBlock = layout::kRegionsPerBlock;

struct DirtyMapTest : MetadataTest {
  void SetUp() override {
    format();
    store.counts = {};
    store.reset_max();
  }
  int set(std::uint64_t first, std::uint64_t count = 1) {
    const int ticket = tickets_++;
    area->set_dirty(region(first, count), [this, ticket](std::error_code e) { (e ? failed : done).insert(ticket); });
    return ticket;
  }
  int clear(std::vector<std::uint64_t> regions) {
    const int ticket = tickets_++;
    area->clear_dirty(std::move(regions), [this, ticket](std::error_code e) { (e ? failed : done).insert(ticket); });
    return ticket;
  }
  void crash(std::size_t torn = 0) {
    store.cut_power(torn);
    open();
    ASSERT_TRUE(area) << message();
  }
  std::set<int> done, failed;

 private:
  int tickets_ = 0;
};

}  // namespace lockstep::engine
