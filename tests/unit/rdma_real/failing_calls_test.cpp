// Each call of librdmacm and libibverbs fails in turn: either it was one that may, or both users hear why; nothing is
// left behind, and the same fabrics serve the next connection.
#include <dlfcn.h>
#include <gmock/gmock.h>

#include "tests/unit/rdma_real/script.hpp"

namespace lockstep::test {
namespace {

TEST(RealFailingCalls, AreTheLibrarysThatStandsIn) {
  Dl_info program{}, function{}, inline_function{};
  ASSERT_NE(::dladdr(reinterpret_cast<void*>(&VerbsLibrary::reset), &program), 0);
  ASSERT_NE(::dladdr(reinterpret_cast<void*>(&rdma_create_id), &function), 0);
  ASSERT_NE(::dladdr(reinterpret_cast<void*>(&ibv_create_cq), &inline_function), 0);
  EXPECT_STREQ(function.dli_fname, program.dli_fname);
  EXPECT_STREQ(inline_function.dli_fname, program.dli_fname);
}

TEST(RealFailingCalls, WithoutAFailureAllIsDone) {
  VerbsLibrary::reset();
  {
    auto world = open_world();
    ASSERT_NE(world, nullptr);
    EXPECT_TRUE(Script(*world).run());
    EXPECT_TRUE(Script(*world).run()) << "again";
  }
  expect_clean();
}

/// What may fail without anybody's loss.
bool is_survived(std::string_view function) {
  constexpr std::array kNotNeeded = {"rdma_set_option",     "rdma_reject",       "rdma_disconnect",
                                     "rdma_notify",         "rdma_get_cm_event", "ibv_get_cq_event",
                                     "ibv_get_async_event", "ibv_req_notify_cq", "ibv_dereg_mr"};
  return std::ranges::find(kNotNeeded, function) != kNotNeeded.end();
}

/// `at`: where one listens. On a wildcard address a device is come by with the first call.
void fail_each_in_turn(std::string_view at) {
  std::map<std::string, int> failed;
  for (std::uint64_t n = 1; !testing::Test::HasFailure(); ++n) {
    VerbsLibrary::reset();
    VerbsLibrary::fail_call(n);
    bool has_failed = false;
    SCOPED_TRACE("call " + std::to_string(n));
    if (auto world = open_world()) {
      const bool well = Script(*world, at).run();
      const std::string function = VerbsLibrary::failed();
      SCOPED_TRACE(function);
      if (is_survived(function)) {
        EXPECT_TRUE(well);
      }
      has_failed = !function.empty();
      if (has_failed) {
        EXPECT_TRUE(Script(*world, at).run()) << "the next connection";
      }
      ++failed[function];
      world.reset();
      expect_clean();
    } else {
      has_failed = true;
    }
    if (!has_failed) break;
  }
  EXPECT_GT(failed.size(), 20u);
}

TEST(RealFailingCalls, OneOfAllInTurnWhereOneListensOnAnAddress) { fail_each_in_turn(RealContract::kHere); }
TEST(RealFailingCalls, OneOfAllInTurnWhereOneListensOnAll) { fail_each_in_turn("0.0.0.0:3260"); }

}  // namespace
}  // namespace lockstep::test
