// What a batch counts as failed besides seeds.
#include "tests/simulation/batch.hpp"

#include <cstdint>

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "replication/core/marks.hpp"
#include "tests/simulation/fake_program.hpp"

namespace lockstep::simulation {
namespace {

/// Each in a process of its own, once: the disk is the program's, and lives as long.
BatchOptions first_seeds(std::uint64_t count) {
  static const ProgramKind perfect = fake_program(FakeFlaw::none);
  BatchOptions options;
  options.to = count;
  options.jobs = static_cast<unsigned>(count);
  options.first = true;
  options.kind = &perfect;
  return options;
}

/// Fewer files than a batch's processes need, for a moment.
class FewFiles {
 public:
  FewFiles() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    rlimit few = before_;
    few.rlim_cur = 8;
    ::setrlimit(RLIMIT_NOFILE, &few);
  }
  ~FewFiles() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  FewFiles(const FewFiles&) = delete;
  FewFiles& operator=(const FewFiles&) = delete;

 private:
  rlimit before_{};
};

TEST(Batch, FailsWithoutAMarkThatItIsToReach) {
  BatchOptions options = first_seeds(1);
  replication::mark<"batch_test.reached">();
  options.required = {"batch_test.reached"};
  EXPECT_EQ(run_batch(options), 0);
  options.required = {"batch_test.reached", "batch_test.no_such_mark"};
  EXPECT_NE(run_batch(options), 0);
}

TEST(Batch, FailsWithSeedsThatNoProcessRan) {
  const FewFiles few;
  EXPECT_NE(run_batch(first_seeds(16)), 0);
}

}  // namespace
}  // namespace lockstep::simulation
