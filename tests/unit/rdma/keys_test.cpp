#include "engine/rdma/real/keys.hpp"

#include <array>
#include <atomic>
#include <thread>

#include <gtest/gtest.h>

namespace lockstep::rdma {
namespace {

/// The local key of the arena that holds it; 0: none does.
std::uint32_t key_of(const Keys& keys, std::span<const std::byte> memory) {
  return keys.find(memory).value_or(Keys::Registration{}).key;
}

TEST(Keys, AreThoseOfTheArenaThatHoldsTheWholeSpan) {
  std::array<std::byte, 300> memory{};
  const std::span<std::byte> all(memory);
  Keys keys;
  keys.add(all.first(100), {.key = 11});
  keys.add(all.subspan(200), {.key = 22});
  EXPECT_EQ(key_of(keys, all.first(1)), 11u);
  EXPECT_EQ(key_of(keys, all.first(100)), 11u);
  EXPECT_EQ(key_of(keys, all.subspan(299, 1)), 22u);
  EXPECT_EQ(key_of(keys, all.subspan(200)), 22u);
  EXPECT_EQ(keys.find(all.first(101)), std::nullopt) << "its end is outside";
  EXPECT_EQ(keys.find(all.subspan(99, 2)), std::nullopt);
  EXPECT_EQ(keys.find(all.subspan(150, 10)), std::nullopt);
  EXPECT_EQ(keys.find(all.subspan(199, 2)), std::nullopt) << "its beginning is outside";
}

TEST(Keys, OfAnArenaThatWasRemovedAreNotFoundAndTheOthersAre) {
  std::array<std::byte, 300> memory{};
  const std::span<std::byte> all(memory);
  Keys keys;
  keys.add(all.first(100), {.key = 11});
  keys.add(all.subspan(100, 100), {.key = 22});
  keys.remove(all.first(100));
  EXPECT_EQ(keys.find(all.first(100)), std::nullopt);
  EXPECT_EQ(keys.find({}), std::nullopt) << "nothing is in no arena";
  EXPECT_EQ(key_of(keys, all.subspan(100, 100)), 22u);
  keys.add(all.first(50), {.key = 33});
  EXPECT_EQ(key_of(keys, all.first(50)), 33u);
  EXPECT_EQ(keys.find(all.first(51)), std::nullopt);
}

TEST(Keys, AsManyArenasAsAreRemovedMayBeAdded) {
  std::array<std::byte, Keys::kMost + 1> memory{};
  const std::span<std::byte> all(memory);
  Keys keys;
  for (std::size_t i = 0; i < Keys::kMost; ++i) {
    ASSERT_FALSE(keys.is_full()) << i;
    keys.add(all.subspan(i, 1), {.key = static_cast<std::uint32_t>(i + 1)});
  }
  EXPECT_TRUE(keys.is_full());
  for (const std::size_t gone : {std::size_t{7}, Keys::kMost - 1, std::size_t{0}}) {
    keys.remove(all.subspan(gone, 1));
    EXPECT_FALSE(keys.is_full());
    keys.add(all.subspan(Keys::kMost, 1), {.key = 999});
    EXPECT_TRUE(keys.is_full());
    EXPECT_EQ(key_of(keys, all.subspan(Keys::kMost, 1)), 999u);
    EXPECT_EQ(key_of(keys, all.subspan(100, 1)), 101u);
    keys.remove(all.subspan(Keys::kMost, 1));
    keys.add(all.subspan(gone, 1), {.key = static_cast<std::uint32_t>(gone + 1)});
  }
}

/// Neighbours come and go in the place before it, together spanning what is looked for: only a mixture of two of them
/// would hold it.
TEST(Keys, AreRightWhileOtherArenasComeAndGo) {
  std::array<std::byte, 300> memory{};
  const std::span<std::byte> all(memory);
  Keys keys;
  keys.add(all.first(100), {.key = 11});
  keys.add(all.subspan(100, 100), {.key = 22});
  std::atomic<bool> is_over = false;
  std::jthread other([&] {
    for (int round = 0; round < 2'000'000; ++round) {
      keys.remove(all.first(100));
      keys.add(all.subspan(200, 100), {.key = 33});
      keys.remove(all.subspan(200, 100));
      keys.add(all.first(100), {.key = 11});
    }
    is_over = true;
  });
  std::uint64_t wrong = 0;
  while (!is_over) wrong += key_of(keys, all.subspan(120, 50)) == 22 ? 0 : 1;
  EXPECT_EQ(wrong, 0u);
}

}  // namespace
}  // namespace lockstep::rdma
