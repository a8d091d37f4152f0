#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mgmt/data_plane/memory_bound.hpp"
#include "tests/unit/mgmt/temporary_folder.hpp"

namespace lockstep::data_plane {
namespace {

using testing::HasSubstr;

/// A machine as its files tell of it.
struct Machine {
  test::TemporaryFolder root;

  void file(const std::filesystem::path& name, const std::string& text) {
    std::filesystem::create_directories((root.path() / name).parent_path());
    std::ofstream(root.path() / name) << text;
  }
  [[nodiscard]] std::optional<MemoryLimit> limit() const { return memory_limit(root.path()); }
};

Configuration without_rdma() {
  Configuration c;
  c.rdma = false;
  return c;
}

TEST(MemoryBound, IsThatOfAllReactorsAndOfEachShardsLinkAndWhatIsBeside) {
  Configuration c = without_rdma();
  EXPECT_EQ(memory_bound(c), (256ULL + 64 + 256) << 20);
  c.reactors = 4;
  c.buffer_mib = 512;
  EXPECT_EQ(memory_bound(c), (2048ULL + 4 * 64 + 3 * 60 + 256) << 20);
  c.reactors = 16;
  EXPECT_EQ(memory_bound(c), (8192ULL + 8 * 64 + 7 * 60 + 256) << 20) << "there are eight shards at the most";
}

TEST(MemoryBound, WithRdmaIsThatOfEachReactorsAndEachShardsMessagesToo) {
  Configuration c;
  c.reactors = 2;
  EXPECT_EQ(memory_bound(c), (2 * 256ULL + 2 * 64 + 60 + 2 * 64 + 2 * 160 + 256) << 20);
}

TEST(MemoryLimit, IsTheMachinesMemoryWhereNothingElseIsSaid) {
  Machine m;
  EXPECT_FALSE(m.limit());
  m.file("proc/meminfo", "MemTotal:        1000 kB\nMemFree: 10 kB\n");
  m.file("proc/self/cgroup", "0::/\n");
  ASSERT_TRUE(m.limit());
  EXPECT_EQ(m.limit()->bytes, 1000u << 10);
  EXPECT_FALSE(m.limit()->of_control_group);
}

TEST(MemoryLimit, IsTheLeastOfTheControlGroupsThatItIsIn) {
  Machine m;
  m.file("proc/meminfo", "MemTotal:        100000 kB\n");
  m.file("proc/self/cgroup", "1:name=systemd:/x\n0::/system.slice/lockstepd.service\n");
  m.file("sys/fs/cgroup/system.slice/lockstepd.service/memory.max", "max\n");
  EXPECT_FALSE(m.limit()->of_control_group);
  m.file("sys/fs/cgroup/system.slice/memory.max", "2000000\n");
  EXPECT_EQ(m.limit()->bytes, 2000000u);
  m.file("sys/fs/cgroup/system.slice/lockstepd.service/memory.max", "1000000\n");
  EXPECT_EQ(m.limit()->bytes, 1000000u);
  EXPECT_TRUE(m.limit()->of_control_group);
}

TEST(MemoryLimit, OfThisMachineIsKnown) { EXPECT_TRUE(memory_limit()); }

TEST(MemoryProblem, SaysWhatDoesNotFitAndWhatToDo) {
  const Configuration c = without_rdma();
  EXPECT_FALSE(memory_problem(c, {.bytes = 576ULL << 20, .of_control_group = false}));
  const auto small = memory_problem(c, {.bytes = (576ULL << 20) - 1, .of_control_group = false});
  ASSERT_TRUE(small);
  EXPECT_THAT(*small, HasSubstr("may come to use 576 MiB"));
  EXPECT_THAT(*small, HasSubstr("this machine has 575 MiB"));
  const auto bounded = memory_problem(c, {.bytes = 100 << 20, .of_control_group = true});
  EXPECT_THAT(bounded.value_or(""), HasSubstr("its unit (MemoryMax) allows 100 MiB"));
}

}  // namespace
}  // namespace lockstep::data_plane
