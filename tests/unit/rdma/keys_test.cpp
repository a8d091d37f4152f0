#include <array>

#include <gtest/gtest.h>

#include "engine/rdma/real/device.hpp"

namespace lockstep::rdma {
namespace {

TEST(Keys, AreThoseOfTheArenaThatHoldsTheWholeSpan) {
  std::array<std::byte, 300> memory{};
  const std::span<std::byte> all(memory);
  Keys keys;
  keys.add(all.first(100), 11);
  keys.add(all.subspan(200), 22);
  EXPECT_EQ(keys.find(all.first(1)), 11u);
  EXPECT_EQ(keys.find(all.first(100)), 11u);
  EXPECT_EQ(keys.find(all.subspan(299, 1)), 22u);
  EXPECT_EQ(keys.find(all.subspan(200)), 22u);
  EXPECT_EQ(keys.find(all.first(101)), std::nullopt) << "its end is outside";
  EXPECT_EQ(keys.find(all.subspan(99, 2)), std::nullopt);
  EXPECT_EQ(keys.find(all.subspan(150, 10)), std::nullopt);
  EXPECT_EQ(keys.find(all.subspan(199, 2)), std::nullopt) << "its beginning is outside";
}

}  // namespace
}  // namespace lockstep::rdma
