// Requests that are larger than a message of the link: their pieces are one request again to whoever sent them.
#include <gtest/gtest.h>

#include "replication/core/messages.hpp"
#include "tests/simulation/pair_program.hpp"
#include "tests/simulation/scripted_pair.hpp"

namespace lockstep::simulation {
namespace {

constexpr std::uint64_t kPiece = replication::kMaxPiece / kBlock;  // blocks
constexpr std::uint32_t kCount = 2 * kPiece + 8;
constexpr std::uint64_t kFirst = 16;
constexpr std::uint64_t kMarked[] = {0, 5, kPiece - 1, kPiece, kPiece + 5, 2 * kPiece - 1, 2 * kPiece, kCount - 1};

void roomy(Scenario& s) { s.regions = 1024; }

class Pieces : public testing::TestWithParam<engine::NodeSide> {
 protected:
  ScriptedPair pair{pair_program(), roomy};
  void mark_blocks() {
    for (int i = 0; const std::uint64_t block : kMarked) ASSERT_FALSE(pair.written(kA, kFirst + block, ++i));
  }
};

TEST_P(Pieces, OfAReadAreEachReadFromTheirPlace) {
  mark_blocks();
  auto& read = pair.read(GetParam(), kFirst, kCount);
  ASSERT_TRUE(pair.wait_for([&] { return read.done; }));
  ASSERT_FALSE(read.status());
  for (int i = 0; const std::uint64_t block : kMarked)
    EXPECT_EQ(std::to_integer<int>(read.request.data[block * kBlock]), ++i) << "block " << block;
  EXPECT_EQ(read.request.data[(kPiece + 6) * kBlock], std::byte{}) << "where nothing was written";
}

TEST_P(Pieces, OfAWriteCoverItAndNothingBeside) {
  ASSERT_FALSE(pair.written(GetParam(), kFirst, 9, kCount));
  for (const std::uint64_t block : kMarked) EXPECT_EQ(pair.value_at(other(GetParam()), kFirst + block), 9) << block;
  EXPECT_EQ(pair.value_at(kA, kFirst - 1), 0);
  EXPECT_EQ(pair.value_at(kA, kFirst + kCount), 0);
}

TEST_P(Pieces, OfAVerificationTellWhereTheRequestDiffers) {
  ASSERT_FALSE(pair.written(kA, kFirst, 9, kCount));
  ASSERT_FALSE(pair.written(kA, kFirst + kPiece + 3, 8));
  auto& verify = pair.submit(GetParam(), engine::DiskOpcode::verify, kFirst, kCount, 9);
  ASSERT_TRUE(pair.wait_for([&] { return verify.done; }));
  EXPECT_EQ(verify.status(), make_error_code(engine::Errc::miscompare));
  EXPECT_EQ(verify.request.miscompare_offset, (kPiece + 3) * kBlock);
}

/// Its pieces end in any order.
TEST_P(Pieces, OfAVerificationTellOfTheFirstPlaceThatDiffers) {
  ASSERT_FALSE(pair.written(kA, kFirst, 9, kCount));
  for (const std::uint64_t block : {kPiece - 1, kPiece + 3, 2 * kPiece}) {
    ASSERT_FALSE(pair.written(kA, kFirst + block, 8));
  }
  for (int again = 0; again < 20; ++again) {
    auto& verify = pair.submit(GetParam(), engine::DiskOpcode::verify, kFirst, kCount, 9);
    ASSERT_TRUE(pair.wait_for([&] { return verify.done; }));
    EXPECT_EQ(verify.status(), make_error_code(engine::Errc::miscompare));
    EXPECT_EQ(verify.request.miscompare_offset, (kPiece - 1) * kBlock);
  }
}

INSTANTIATE_TEST_SUITE_P(Through, Pieces, testing::Values(kA, kB),
                         [](const auto& it) { return it.param == kA ? "TheOneThatOrders" : "TheOther"; });

}  // namespace
}  // namespace lockstep::simulation
