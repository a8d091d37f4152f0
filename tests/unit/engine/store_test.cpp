// What every real store promises, checked on each: memory, a file, both encrypted, a block device where one can be
// made.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "engine/encryption/cipher_store.hpp"
#include "engine/stores/block_store.hpp"
#include "engine/stores/file_store.hpp"
#include "engine/stores/memory_store.hpp"
#include "tests/unit/engine/reactor_fixture.hpp"

namespace lockstep::engine {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;
constexpr std::uint64_t kSize = 16 * kMiB;

/// What a store stands on; goes after it.
struct Below {
  std::unique_ptr<Store> store;
  std::unique_ptr<BufferPool> pool;
};

struct Memory {
  static Result<std::unique_ptr<Store>> make(StoreWorld& world, Below&) {
    auto store = MemoryStore::create(world.reactor, kSize);
    if (!store) return std::unexpected(store.error());
    return std::unique_ptr<Store>(std::move(*store));
  }
};
struct File {
  static Result<std::unique_ptr<Store>> make(StoreWorld& world, Below&) {
    const std::string path = world.folder / "data";
    if (auto made = FileStore::create(path, kSize, Allocation::thin); !made) return std::unexpected(made.error());
    auto store = FileStore::open(world.ring(), path, kSize);
    if (!store) return std::unexpected(store.error());
    return std::unique_ptr<Store>(std::move(*store));
  }
};

template <class Kind>
struct Encrypted {
  static Result<std::unique_ptr<Store>> make(StoreWorld& world, Below& below) {
    auto store = Kind::make(world, below);
    if (!store) return store;
    below.store = std::move(*store);
    below.pool = std::make_unique<BufferPool>(BufferPool::kMaxBuffer);
    return std::make_unique<CipherStore>(*below.store, *below.pool, *VolumeKey::make(), CipherStore::SaveKey{});
  }
};

template <class Kind>
struct Stores : StoreWorld {
  Below below;
  std::unique_ptr<Store> store;
  void SetUp() override {
    auto made = Kind::make(*this, below);
    ASSERT_TRUE(made) << made.error().message;
    store = std::move(*made);
  }
  void TearDown() override {
    store.reset();
    below = {};
  }

  std::error_code write(std::uint64_t offset, std::span<const std::byte> data,
                        Durability durability = Durability::cached) {
    return await([&](IoCallback done) { store->write(offset, data, durability, std::move(done)); });
  }
  std::error_code zeroes(Extent extent, Durability durability = Durability::cached) {
    return await([&](IoCallback done) { store->write_zeroes(extent, durability, std::move(done)); });
  }
  std::error_code discard(Extent extent, Durability durability = Durability::cached) {
    return await([&](IoCallback done) { store->discard(extent, durability, std::move(done)); });
  }
  StoreRun run_at(std::uint64_t offset) {
    StoreRun run;
    EXPECT_FALSE(await([&](IoCallback done) {
      store->next_run(offset, [&run, done = std::move(done)](const IoResult<StoreRun>& found) mutable {
        if (found) run = *found;
        done(found ? std::error_code{} : found.error());
      });
    }));
    return run;
  }
  std::vector<std::byte> read(std::uint64_t offset, std::size_t length) {
    Memory4K memory(length);
    EXPECT_FALSE(await([&](IoCallback done) { store->read(offset, memory.span(), std::move(done)); }));
    return {memory.span().begin(), memory.span().end()};
  }
};
using Kinds = testing::Types<Memory, File, Encrypted<Memory>, Encrypted<File>>;
TYPED_TEST_SUITE(Stores, Kinds);

TYPED_TEST(Stores, ReadsZerosWhenNew) {
  EXPECT_TRUE(this->store->info().reads_zero_when_new);
  EXPECT_EQ(this->read(kSize - 8192, 8192), std::vector<std::byte>(8192));
}

TYPED_TEST(Stores, ReadsBackWhatWasWrittenCachedOrDurable) {
  for (const auto durability : {Durability::cached, Durability::durable}) {
    const Memory4K data(64 << 10, 7 + static_cast<unsigned>(durability));
    EXPECT_FALSE(this->write(512 * 3, data.span(), durability));
    EXPECT_EQ(this->read(512 * 3, data.span().size()), data.copy());
  }
}

TYPED_TEST(Stores, NoCallbackRunsInsideTheCall) {
  const Memory4K data(4096, 1);
  bool inside = true;
  int left = 6;
  const auto done = [&](std::error_code) {
    EXPECT_FALSE(inside);
    if (--left == 0) this->reactor.stop();
  };
  this->in_reactor([&] {
    this->store->write(0, data.span(), Durability::cached, done);
    this->store->write(kSize, data.span(), Durability::cached, done);  // out of range
    this->store->write(0, data.span().first(0), Durability::durable, done);
    this->store->read(8192, std::span<std::byte>{}, done);
    this->store->discard({0, 0}, Durability::cached, done);
    this->store->flush(done);
    inside = false;
  });
}

TYPED_TEST(Stores, WhatLiesOutsideIsOutOfRangeAndNeverWraps) {
  const Memory4K data(4096, 1);
  EXPECT_EQ(this->write(kSize - 512, data.span()), Errc::out_of_range);
  EXPECT_EQ(this->write(~std::uint64_t{0} - 511, data.span()), Errc::out_of_range);
  EXPECT_EQ(this->zeroes({kSize, 512}), Errc::out_of_range);
  EXPECT_EQ(this->zeroes({512, ~std::uint64_t{0} - 511}), Errc::out_of_range);
  EXPECT_EQ(this->discard({kSize - 512, 1024}), Errc::out_of_range);
  EXPECT_EQ(this->read(kSize - 512, 512), std::vector<std::byte>(512));
}

TYPED_TEST(Stores, WhatIsNotWholeBlocksIsMisaligned) {
  const Memory4K data(4096, 1);
  EXPECT_EQ(this->write(100, data.span()), Errc::misaligned);
  EXPECT_EQ(this->write(0, data.span().first(100)), Errc::misaligned);
  EXPECT_EQ(this->zeroes({0, 100}), Errc::misaligned);
  EXPECT_EQ(this->discard({100, 512}), Errc::misaligned);
}

TYPED_TEST(Stores, MisalignedMemoryIsFineBothWays) {
  const Memory4K aligned(20'000, 3);
  const auto data = aligned.span().subspan(1, 8192);
  EXPECT_FALSE(this->write(4096, data));
  std::vector<std::byte> raw(8192 + 1);
  const std::span<std::byte> into(raw.data() + 1, 8192);
  EXPECT_FALSE(this->await([&](IoCallback done) { this->store->read(4096, into, std::move(done)); }));
  EXPECT_TRUE(std::ranges::equal(into, data));
}

TYPED_TEST(Stores, ZeroedAndDiscardedExtentsReadAsZerosAndTheirNeighboursStay) {
  const Memory4K data(4 * kMiB, 5);
  for (const Extent hole : {Extent{512, 512}, Extent{4096, 4096}, Extent{512 * 7, 512 * 30}, Extent{512, 3 * kMiB},
                            Extent{65536, 2 * kMiB}, Extent{0, 4 * kMiB}}) {
    for (const auto durability : {Durability::cached, Durability::durable}) {
      for (const bool give_back : {false, true}) {
        ASSERT_FALSE(this->write(0, data.span()));
        ASSERT_FALSE(give_back ? this->discard(hole, durability) : this->zeroes(hole, durability));
        auto expected = data.copy();
        std::fill_n(expected.begin() + static_cast<std::ptrdiff_t>(hole.offset), hole.length, std::byte{0});
        ASSERT_TRUE(this->read(0, expected.size()) == expected) << hole.offset << " + " << hole.length;
      }
    }
  }
}

TYPED_TEST(Stores, ANewStoreIsOneHoleAndWhatIsWrittenOrGivenBackShows) {
  ASSERT_TRUE(this->store->info().knows_holes);
  const auto is = [](StoreRun run, std::uint64_t length, bool hole) {
    return run.length == length && run.hole == hole;
  };
  EXPECT_TRUE(is(this->run_at(0), kSize, true));
  EXPECT_TRUE(is(this->run_at(kSize - 512), 512, true));
  const Memory4K data(4 * kMiB, 5);
  ASSERT_FALSE(this->write(kMiB, data.span()));
  EXPECT_TRUE(is(this->run_at(0), kMiB, true));
  EXPECT_TRUE(is(this->run_at(kMiB), 4 * kMiB, false));
  EXPECT_TRUE(is(this->run_at(kMiB + 512), 4 * kMiB - 512, false));
  ASSERT_FALSE(this->discard({2 * kMiB, kMiB}));
  EXPECT_TRUE(is(this->run_at(kMiB), kMiB, false));
  EXPECT_TRUE(is(this->run_at(2 * kMiB), kMiB, true));
  EXPECT_TRUE(is(this->run_at(5 * kMiB), kSize - 5 * kMiB, true));
}

TYPED_TEST(Stores, NoRunBeginsOutsideOrWithinABlock) {
  const auto fails = [&](std::uint64_t offset) {
    return this->await([&](IoCallback done) {
      this->store->next_run(offset, [done = std::move(done)](const IoResult<StoreRun>& found) mutable {
        done(found ? std::error_code{} : found.error());
      });
    });
  };
  EXPECT_EQ(fails(kSize), Errc::out_of_range);
  EXPECT_EQ(fails(100), Errc::misaligned);
}

TYPED_TEST(Stores, AFlushEnds) {
  const Memory4K data(4096, 1);
  EXPECT_FALSE(this->write(0, data.span()));
  EXPECT_FALSE(this->await([&](IoCallback done) { this->store->flush(std::move(done)); }));
}

TYPED_TEST(Stores, ManyOperationsAtOnceEachEndOnceAndRight) {
  constexpr std::size_t kMany = 3000;  // more than the ring takes at a time
  const Memory4K data(64 * 4096, 9);
  std::vector<int> ended(kMany);
  this->in_reactor([&] {
    auto left = std::make_shared<std::size_t>(kMany);
    for (std::size_t i = 0; i < kMany; ++i) {
      this->store->write((i * 4096) % kSize, data.span().subspan(i % 64 * 4096, 4096),
                         i % 50 == 0 ? Durability::durable : Durability::cached, [&, i, left](std::error_code e) {
                           EXPECT_FALSE(e);
                           ++ended[i];
                           if (--*left == 0) this->reactor.stop();
                         });
    }
  });
  EXPECT_EQ(ended, std::vector<int>(kMany, 1));
  const auto back = this->read(0, 64 * 4096);
  EXPECT_EQ(back, data.copy());
}

TYPED_TEST(Stores, AgreesWithAnArrayThroughRandomUse) {
  std::mt19937 random(17);
  std::vector<std::byte> model(kMiB);
  for (int step = 0; step < 400; ++step) {
    const std::uint64_t offset = random() % 2000 * 512;
    const std::uint64_t length = std::min<std::uint64_t>((1 + random() % 600) * 512, kMiB - offset);
    const auto begin = model.begin() + static_cast<std::ptrdiff_t>(offset);
    const auto durability = random() % 10 == 0 ? Durability::durable : Durability::cached;
    switch (random() % 4) {
      case 0: {
        const Memory4K data(length, static_cast<unsigned>(step));
        ASSERT_FALSE(this->write(offset, data.span(), durability));
        std::ranges::copy(data.span(), begin);
        break;
      }
      case 1:
        ASSERT_FALSE(this->zeroes({offset, length}, durability));
        std::fill_n(begin, length, std::byte{0});
        break;
      case 2:
        ASSERT_FALSE(this->discard({offset, length}, durability));
        std::fill_n(begin, length, std::byte{0});
        break;
      default:
        ASSERT_TRUE(std::ranges::equal(this->read(offset, length), std::span(&*begin, length))) << "step " << step;
    }
  }
  EXPECT_TRUE(this->read(0, kMiB) == model);
  for (std::uint64_t at = 0; at < kMiB;) {
    const StoreRun run = this->run_at(at);
    ASSERT_GT(run.length, 0u);
    const std::uint64_t length = std::min(run.length, kMiB - at);
    const auto bytes = std::span(model).subspan(at, length);
    const bool zero = std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{0}; });
    EXPECT_TRUE(zero || !run.hole) << at;
    at += length;
  }
}

struct LargeMemory : StoreWorld {};

TEST_F(LargeMemory, ARangeTooLargeForATurnIsZeroedWholeAndOthersGoOnMeanwhile) {
  constexpr std::uint64_t kLarge = 300 * kMiB;
  auto made = MemoryStore::create(reactor, kLarge);
  ASSERT_TRUE(made);
  Store& store = **made;
  const Memory4K data(4096, 5);
  const std::vector<std::uint64_t> places = {0, 4096, 64 * kMiB, 130 * kMiB + 4096, kLarge - 8192, kLarge - 4096};
  for (const auto at : places) {
    ASSERT_FALSE(await([&](IoCallback done) { store.write(at, data.span(), Durability::cached, std::move(done)); }));
  }
  bool zeroed = false, read_before = false;
  Memory4K first(4096), rest(4096);
  in_reactor([&] {
    store.discard({4096, kLarge - 8192}, Durability::durable, [&](std::error_code error) {
      EXPECT_FALSE(error);
      zeroed = true;
      reactor.stop();
    });
    store.read(0, first.span(), [&](std::error_code) { read_before = !zeroed; });
  });
  EXPECT_TRUE(read_before) << "the reactor was not kept from it";
  for (const auto at : places) {
    ASSERT_FALSE(await([&](IoCallback done) { store.read(at, rest.span(), std::move(done)); }));
    const bool outside = at == 0 || at == kLarge - 4096;
    EXPECT_EQ(rest.copy(), outside ? data.copy() : std::vector<std::byte>(4096)) << at;
  }
}

}  // namespace
}  // namespace lockstep::engine
