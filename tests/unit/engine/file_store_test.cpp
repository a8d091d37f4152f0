// Files as stores: what opening refuses, what creating leaves behind, what a full disk says, and the space they take.
#include "engine/stores/file_store.hpp"

#include <algorithm>
#include <csignal>
#include <fstream>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "engine/runtime/buffer_pool.hpp"
#include "engine/stores/block_store.hpp"
#include "engine/stores/descriptor.hpp"
#include "tests/unit/engine/reactor_fixture.hpp"

namespace lockstep::engine {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

struct FileStores : StoreWorld {
  std::string path = folder / "vm1.data";

  std::unique_ptr<FileStore> make(std::uint64_t size, Allocation allocation = Allocation::thin) {
    const auto made = FileStore::create(path, size, allocation);
    EXPECT_TRUE(made) << made.error().message;
    return open(size);
  }
  std::unique_ptr<FileStore> open(std::uint64_t size) {
    auto opened = FileStore::open(ring(), path, size);
    EXPECT_TRUE(opened) << opened.error().message;
    return opened ? std::move(*opened) : nullptr;
  }
  std::error_code write(Store& store, std::uint64_t offset, std::span<const std::byte> data) {
    return await([&](IoCallback done) { store.write(offset, data, Durability::durable, std::move(done)); });
  }
  Error refusal(std::uint64_t size, std::uint32_t block_size = 512) {
    auto opened = FileStore::open(ring(), path, size, block_size);
    EXPECT_FALSE(opened);
    return opened ? Error{} : opened.error();
  }
  [[nodiscard]] std::size_t files() const {
    std::size_t count = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder.path())) ++count;
    return count;
  }
};

/// Another descriptor of what this process has open under the path, as dup() makes it; -1 if there is none.
int duplicate_of(const std::string& path) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    if (std::filesystem::read_symlink(entry.path(), gone) == path) return ::dup(std::stoi(entry.path().filename()));
  }
  return -1;
}

TEST_F(FileStores, AThinFileTakesSpaceWithItsFirstWriteAndGivesItBackByDiscard) {
  const auto store = make(64 * kMiB);
  EXPECT_LT(store->allocated_bytes(), 64 << 10);
  const Memory4K data(4 * kMiB, 3);
  ASSERT_FALSE(write(*store, 8 * kMiB, data.span()));
  EXPECT_GE(store->allocated_bytes(), 4 * kMiB);
  EXPECT_LT(store->allocated_bytes(), 5 * kMiB);
  EXPECT_FALSE(await([&](IoCallback done) {
    store->discard({8 * kMiB, 4 * kMiB}, Durability::durable, std::move(done));
  }));
  EXPECT_LT(store->allocated_bytes(), 64 << 10);
}

TEST_F(FileStores, ReservedSpaceIsTakenAndReadsAsItDid) {
  const auto store = make(64 * kMiB);
  EXPECT_TRUE(store->info().reserves);
  const Memory4K data(8192, 3);
  Memory4K back(8192, 9);
  ASSERT_FALSE(write(*store, kMiB, data.span()));
  EXPECT_FALSE(await([&](IoCallback done) { store->reserve({kMiB, 4 * kMiB}, std::move(done)); }));
  EXPECT_GE(store->allocated_bytes(), 4 * kMiB);
  EXPECT_FALSE(await([&](IoCallback done) { store->read(kMiB, back.span(), std::move(done)); }));
  EXPECT_TRUE(std::ranges::equal(back.span(), data.span()));
  EXPECT_FALSE(await([&](IoCallback done) { store->read(2 * kMiB, back.span(), std::move(done)); }));
  EXPECT_TRUE(std::ranges::all_of(back.span(), [](std::byte b) { return b == std::byte{0}; }));
}

TEST_F(FileStores, AnAllocatedFileHasItsSpaceFromTheStartAndKeepsItWhenZeroed) {
  const auto store = make(16 * kMiB, Allocation::allocated);
  EXPECT_GE(store->allocated_bytes(), 16 * kMiB);
  EXPECT_FALSE(await([&](IoCallback done) {
    store->write_zeroes({0, 16 * kMiB}, Durability::cached, std::move(done));
  }));
  EXPECT_GE(store->allocated_bytes(), 16 * kMiB);
}

TEST_F(FileStores, CreatingLeavesOneFileAndNothingBeside) {
  ASSERT_TRUE(FileStore::create(path, kMiB, Allocation::thin));
  EXPECT_EQ(files(), 1u);
  EXPECT_EQ(std::filesystem::file_size(path), kMiB);
}

TEST_F(FileStores, CreatingOverwritesNothing) {
  std::ofstream(path) << "precious";
  const auto made = FileStore::create(path, kMiB, Allocation::thin);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, Errc::refused);
  EXPECT_NE(made.error().message.find("exists already"), std::string::npos);
  EXPECT_EQ(std::filesystem::file_size(path), 8u);
  EXPECT_EQ(files(), 1u);
}

TEST_F(FileStores, CreatingInAMissingFolderNamesTheFolder) {
  const auto made = FileStore::create(folder / "missing/vm1.data", kMiB, Allocation::thin);
  ASSERT_FALSE(made);
  EXPECT_NE(made.error().message.find("/missing does not exist"), std::string::npos) << made.error().message;
}

TEST_F(FileStores, CreatingMoreThanThereIsSpaceForSaysHowMuchAndLeavesNothing) {
  const auto made = FileStore::create(path, std::uint64_t{1} << 50, Allocation::allocated);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, Errc::no_space);
  EXPECT_NE(made.error().message.find("are free in"), std::string::npos) << made.error().message;
  EXPECT_EQ(files(), 0u);
}

TEST_F(FileStores, CreatingAFileThatCannotBeSoLargeLeavesNothing) {
  const auto made = FileStore::create(path, std::uint64_t{1} << 62, Allocation::thin);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, Errc::no_space) << made.error().message;
  EXPECT_EQ(files(), 0u);
}

TEST_F(FileStores, ADraftLeftByACrashIsNoHindrance) {
  std::ofstream(folder / ".vm1.data.new") << "half made";
  ASSERT_TRUE(FileStore::create(path, kMiB, Allocation::thin));
  EXPECT_EQ(files(), 1u);
  const auto store = open(kMiB);
  Memory4K memory(4096, 1);
  EXPECT_FALSE(await([&](IoCallback done) { store->read(0, memory.span(), std::move(done)); }));
  EXPECT_EQ(memory.copy(), std::vector<std::byte>(4096));
}

TEST_F(FileStores, RemovingSucceedsTwice) {
  ASSERT_TRUE(FileStore::create(path, kMiB, Allocation::thin));
  EXPECT_TRUE(FileStore::remove(path));
  EXPECT_TRUE(FileStore::remove(path));
  EXPECT_TRUE(FileStore::remove(folder / "missing/vm1.data"));
  EXPECT_EQ(files(), 0u);
}

TEST_F(FileStores, OpeningNamesWhatIsWrong) {
  EXPECT_NE(refusal(kMiB).message.find("does not exist"), std::string::npos);
  ASSERT_TRUE(FileStore::create(path, kMiB, Allocation::thin));
  const Error size = refusal(2 * kMiB);
  EXPECT_EQ(size.code, Errc::corrupt);
  EXPECT_NE(size.message.find("has 1048576 bytes; the volume needs exactly 2097152"), std::string::npos)
      << size.message;
  path = folder.path();
  EXPECT_NE(refusal(kMiB).message.find("is a folder"), std::string::npos);
  path = "/dev/null";
  EXPECT_FALSE(refusal(kMiB).message.empty());
}

TEST_F(FileStores, AFileIsOpenedOnlyOnce) {
  const auto store = make(kMiB);
  const Error second = refusal(kMiB);
  EXPECT_EQ(second.code, Errc::refused);
  EXPECT_NE(second.message.find("is in use"), std::string::npos);
}

TEST_F(FileStores, AClosedFileIsFreeThoughTheKernelStillHoldsItsDescriptor) {
  auto store = make(kMiB);
  // Stands for a kernel whose ring lets go of its files late.
  const Descriptor held(duplicate_of(path));
  ASSERT_TRUE(held.valid());
  store.reset();
  EXPECT_TRUE(open(kMiB));
}

TEST_F(FileStores, AFileMayBeOpenedAgainAfterItWasClosed) {
  make(kMiB).reset();
  EXPECT_TRUE(open(kMiB));
}

TEST_F(FileStores, ATruncatedFileGivesAnErrorNotZeros) {
  const auto store = make(kMiB);
  std::filesystem::resize_file(path, 512 << 10);
  Memory4K memory(4096);
  EXPECT_EQ(await([&](IoCallback done) { store->read(768 << 10, memory.span(), std::move(done)); }), Errc::io_error);
}

TEST_F(FileStores, BuffersOfTheRegisteredPoolWork) {
  BufferPool pool(16 * kMiB);
  ring({.pool = &pool});
  EXPECT_TRUE(ring().has_fixed_buffers());
  {
    const auto store = make(16 * kMiB);
    const Buffer out = pool.allocate(8 * kMiB), in = pool.allocate(8 * kMiB);
    const Memory4K pattern(8 * kMiB, 21);
    std::memcpy(out.data(), pattern.span().data(), 8 * kMiB);
    ASSERT_FALSE(write(*store, 0, out.span()));
    ASSERT_FALSE(await([&](IoCallback done) { store->read(0, in.span(), std::move(done)); }));
    EXPECT_TRUE(std::ranges::equal(out.span(), in.span()));
  }
  ring_.reset();
}

TEST_F(FileStores, ARingMadeBeforeItsReactorsThreadStartsServesThatThread) {
  ASSERT_TRUE(FileStore::create(path, kMiB, Allocation::thin));
  ring();
  reactor.start();
  const Memory4K data(4096, 5);
  std::unique_ptr<FileStore> store;
  std::error_code written = Errc::timed_out;
  reactor.post([&] {
    store = open(kMiB);
    store->write(0, data.span(), Durability::durable, [&](std::error_code error) {
      written = error;
      store.reset();
      reactor.post([&] { reactor.stop(); });
    });
  });
  reactor.join();
  EXPECT_FALSE(written);
  std::ifstream in(path, std::ios::binary);
  std::vector<char> start(4096);
  in.read(start.data(), 4096);
  EXPECT_EQ(std::memcmp(start.data(), data.span().data(), 4096), 0);
}

/// A small tmpfs of this test's own: full when it is full.
struct FullDisk : FileStores {
  std::string mounted = folder / "small";
  void SetUp() override {
    std::filesystem::create_directory(mounted);
    if (::mount("none", mounted.c_str(), "tmpfs", 0, "size=4m") != 0) GTEST_SKIP() << "may not mount";
    path = mounted + "/vm1.data";
  }
  void TearDown() override { ::umount2(mounted.c_str(), MNT_DETACH); }
};

TEST_F(FullDisk, AWriteThatFindsNoSpaceSaysSoAndOldDataStays) {
  const auto store = make(16 * kMiB);
  if (!store) GTEST_SKIP() << "no direct I/O on tmpfs here";
  const Memory4K data(kMiB, 8);
  ASSERT_FALSE(write(*store, 0, data.span()));
  std::error_code error;
  for (std::uint64_t at = kMiB; at < 16 * kMiB && !error; at += kMiB) error = write(*store, at, data.span());
  EXPECT_EQ(error, Errc::no_space);
  Memory4K back(kMiB);
  EXPECT_FALSE(await([&](IoCallback done) { store->read(0, back.span(), std::move(done)); }));
  EXPECT_EQ(back.copy(), data.copy());
  EXPECT_FALSE(write(*store, 0, data.span())) << "space that is there may still be written";
}

TEST_F(FullDisk, ZeroingFallsBackWhereTheFileSystemCannot) {
  const auto store = make(2 * kMiB);
  if (!store) GTEST_SKIP() << "no direct I/O on tmpfs here";
  const Memory4K data(2 * kMiB, 8);
  ASSERT_FALSE(write(*store, 0, data.span()));
  EXPECT_FALSE(await([&](IoCallback done) {
    store->write_zeroes({4096, kMiB}, Durability::durable, std::move(done));
  }));
  Memory4K back(2 * kMiB, 1);
  EXPECT_FALSE(await([&](IoCallback done) { store->read(0, back.span(), std::move(done)); }));
  auto expected = data.copy();
  std::fill_n(expected.begin() + 4096, kMiB, std::byte{0});
  EXPECT_TRUE(back.copy() == expected);
}

TEST_F(FullDisk, WhatWasReservedIsThereWhenNothingElseIs) {
  const auto store = make(16 * kMiB);
  if (!store) GTEST_SKIP() << "no direct I/O on tmpfs here";
  ASSERT_FALSE(await([&](IoCallback done) { store->reserve({8 * kMiB, kMiB}, std::move(done)); }));
  const Memory4K data(kMiB, 8);
  std::error_code error;
  for (std::uint64_t at = 0; at < 8 * kMiB && !error; at += kMiB) error = write(*store, at, data.span());
  EXPECT_EQ(error, Errc::no_space);
  EXPECT_FALSE(write(*store, 8 * kMiB, data.span()));
  const auto before = store->allocated_bytes();
  EXPECT_EQ(await([&](IoCallback done) { store->reserve({12 * kMiB, kMiB}, std::move(done)); }), Errc::no_space);
  EXPECT_EQ(store->allocated_bytes(), before);
}

/// A small ext4, as on a real disk.
struct FullExt4 : FileStores {
  std::string mounted = folder / "small";
  void SetUp() override {
    std::filesystem::create_directory(mounted);
    const std::string image = folder / "small.img";
    std::ofstream(image).close();
    std::filesystem::resize_file(image, 32 * kMiB);
    const std::string made = "mkfs.ext4 -q -m " + std::to_string(percent_for_root()) + " -O ^has_journal " + image +
                             " >/dev/null 2>&1 && mount -o loop " + image + " " + mounted + " 2>/dev/null";
    if (std::system(made.c_str()) != 0) GTEST_SKIP() << "may not mount";
    path = mounted + "/vm1.data";
  }
  void TearDown() override { ::umount(mounted.c_str()); }
  [[nodiscard]] virtual unsigned percent_for_root() const { return 0; }
  [[nodiscard]] std::uint64_t free_bytes() const { return std::filesystem::space(mounted).free; }
  std::error_code reserve(Store& store, Extent extent) {
    return await([&](IoCallback done) { store.reserve(extent, std::move(done)); });
  }
  /// Everything but less than a MiB is somebody else's.
  void fill_the_rest() {
    while (free_bytes() >= kMiB) {
      const std::string more = mounted + "/ballast" + std::to_string(free_bytes());
      ASSERT_TRUE(FileStore::create(more, free_bytes() / 2, Allocation::allocated));
    }
  }
};

TEST_F(FullExt4, ARangeThatDoesNotFitTakesNothingFromOthers) {
  const auto store = make(256 * kMiB);
  const auto before = free_bytes();
  EXPECT_EQ(reserve(*store, {0, 128 * kMiB}), Errc::no_space);
  EXPECT_EQ(free_bytes(), before);
}

/// lockstepd has none of what root alone may use, which an ext4 has unless it is told otherwise.
struct Ext4WithAPartForRoot : FullExt4 {
  [[nodiscard]] unsigned percent_for_root() const override { return 50; }
};

TEST_F(Ext4WithAPartForRoot, ARangeThatOnlyRootCouldHaveTakesNothingFromOthers) {
  const auto store = make(256 * kMiB);
  const auto before = free_bytes();
  EXPECT_EQ(reserve(*store, {0, 20 * kMiB}), Errc::no_space);
  EXPECT_EQ(free_bytes(), before);
}

TEST_F(FullExt4, ARangeThatHasItsSpaceIsReservedThoughTheDiskIsFull) {
  const auto store = make(256 * kMiB);
  const Memory4K data(kMiB, 8);
  for (const std::uint64_t at : {0, 1, 2, 4}) ASSERT_FALSE(write(*store, at * kMiB, data.span()));
  ASSERT_FALSE(reserve(*store, {3 * kMiB, kMiB}));
  fill_the_rest();
  EXPECT_FALSE(reserve(*store, {0, 5 * kMiB})) << "written, or set aside before";
  EXPECT_EQ(reserve(*store, {0, 7 * kMiB}), Errc::no_space);
}

TEST_F(FullExt4, GivingBackPartsOfBlocksInAHoleNeedsNoSpace) {
  const auto store = make(64 * kMiB);
  const Memory4K data(8192, 8);
  ASSERT_FALSE(write(*store, 0, data.span()));
  fill_the_rest();
  const auto before = store->allocated_bytes();
  for (const Extent hole : {Extent{kMiB + 512, 1024}, Extent{2 * kMiB - 512, 64 * 1024}, Extent{1024, 2 * kMiB}}) {
    EXPECT_FALSE(await([&](IoCallback done) { store->discard(hole, Durability::durable, std::move(done)); }));
  }
  EXPECT_LE(store->allocated_bytes(), before);
  Memory4K back(8192, 1);
  EXPECT_FALSE(await([&](IoCallback done) { store->read(0, back.span(), std::move(done)); }));
  auto expected = data.copy();
  std::fill(expected.begin() + 1024, expected.end(), std::byte{0});
  EXPECT_TRUE(back.copy() == expected);
}

TEST_F(FullDisk, AllocatingTooMuchLeavesNothing) {
  const auto made = FileStore::create(path, 16 * kMiB, Allocation::allocated);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, Errc::no_space);
  EXPECT_TRUE(std::filesystem::is_empty(mounted));
}

/// A loop device over a file, where the machine gives us one.
struct BlockStores : StoreWorld {
  std::string device;
  void attach(unsigned sector = 512) {
    const std::string image = folder / "disk.img";
    std::ofstream(image).close();
    std::filesystem::resize_file(image, 32 * kMiB);
    const std::string command = "losetup --show -f -b " + std::to_string(sector) + " " + image + " 2>/dev/null";
    FILE* out = popen(command.c_str(), "r");
    char line[64] = {};
    if (fgets(line, sizeof line, out) != nullptr) device = std::string(line, strcspn(line, "\n"));
    pclose(out);
  }
  void TearDown() override {
    if (!device.empty() && std::system(("losetup -d " + device).c_str()) != 0) ADD_FAILURE() << device;
  }
};

TEST_F(BlockStores, TwoStoresOfOneDeviceDoNotTouchOneAnother) {
  attach();
  if (device.empty()) GTEST_SKIP() << "no loop device";
  auto opened = BlockDevice::open(device, 512);
  ASSERT_TRUE(opened) << opened.error().message;
  EXPECT_EQ((*opened)->info().size, 32 * kMiB);
  auto front = BlockStore::open(ring(), *opened, {0, 16 * kMiB}),
       back = BlockStore::open(ring(), *opened, {16 * kMiB, 16 * kMiB});
  ASSERT_TRUE(front && back);
  const Memory4K data(kMiB, 4);
  const auto write = [&](Store& store, std::uint64_t at) {
    return await([&](IoCallback done) { store.write(at, data.span(), Durability::durable, std::move(done)); });
  };
  EXPECT_FALSE(write(**front, 15 * kMiB));
  EXPECT_EQ(write(**front, 16 * kMiB), Errc::out_of_range);
  Memory4K memory(kMiB, 1);
  const auto read = [&](Store& store, std::uint64_t at) {
    EXPECT_FALSE(await([&](IoCallback done) { store.read(at, memory.span(), std::move(done)); }));
    return memory.copy();
  };
  EXPECT_EQ(read(**back, 0), std::vector<std::byte>(kMiB));
  EXPECT_FALSE(write(**back, 0));
  EXPECT_EQ(read(**front, 15 * kMiB), data.copy());
  for (const bool give_back : {false, true}) {
    EXPECT_FALSE(write(**back, 0));
    const Extent hole{512, 700 << 10};
    EXPECT_FALSE(await([&](IoCallback done) {
      give_back ? (*back)->discard(hole, Durability::durable, std::move(done))
                : (*back)->write_zeroes(hole, Durability::durable, std::move(done));
    }));
    auto expected = data.copy();
    std::fill_n(expected.begin() + 512, hole.length, std::byte{0});
    EXPECT_TRUE(read(**back, 0) == expected);
  }
  EXPECT_EQ(read(**front, 15 * kMiB), data.copy());
}

/// Debian 12's kernel among them: there a ring would keep it open, and so to itself.
TEST_F(BlockStores, ADeviceIsFreeAsSoonAsItsStoresAreClosed) {
  attach();
  if (device.empty()) GTEST_SKIP() << "no loop device";
  for (const bool late : {rings_let_go_late(), true}) {
    const auto made = IoUring::create(reactor, {.lets_go_late = late});
    ASSERT_TRUE(made) << made.error().message;
    for (std::uint8_t round = 1; round <= 3; ++round) {
      auto opened = BlockDevice::open(device, 512);
      ASSERT_TRUE(opened) << opened.error().message;
      auto store = BlockStore::open(**made, std::move(*opened), {0, 16 * kMiB});
      ASSERT_TRUE(store);
      const Memory4K data(kMiB, round);
      Memory4K memory(kMiB, 0);
      EXPECT_FALSE(
          await([&](IoCallback done) { (*store)->write(kMiB, data.span(), Durability::durable, std::move(done)); }));
      EXPECT_FALSE(await([&](IoCallback done) { (*store)->flush(std::move(done)); }));
      EXPECT_FALSE(await([&](IoCallback done) { (*store)->read(kMiB, memory.span(), std::move(done)); }));
      EXPECT_EQ(memory.copy(), data.copy());
    }
  }
}

TEST_F(BlockStores, ADeviceInUseIsRefused) {
  attach();
  if (device.empty()) GTEST_SKIP() << "no loop device";
  const auto first = BlockDevice::open(device, 512);
  ASSERT_TRUE(first);
  const auto second = BlockDevice::open(device, 512);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Errc::refused);
  EXPECT_NE(second.error().message.find("is in use"), std::string::npos);
}

TEST_F(BlockStores, ADeviceWithLargerBlocksThanTheVolumesIsRefused) {
  attach(4096);
  if (device.empty()) GTEST_SKIP() << "no loop device";
  const auto opened = BlockDevice::open(device, 512);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Errc::misaligned);
  EXPECT_NE(opened.error().message.find("blocks of 4096"), std::string::npos);
  EXPECT_TRUE(BlockDevice::open(device, 4096));
}

TEST_F(BlockStores, APartBeyondTheDeviceDoesNotFit) {
  attach();
  if (device.empty()) GTEST_SKIP() << "no loop device";
  const auto opened = BlockDevice::open(device, 512);
  ASSERT_TRUE(opened);
  const auto store = BlockStore::open(ring(), *opened, {16 * kMiB, 17 * kMiB});
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().code, Errc::no_space);
}

TEST(BlockDevices, WhatIsNoBlockDeviceIsNamed) {
  EXPECT_NE(BlockDevice::open("/dev/null", 512).error().message.find("not a block device"), std::string::npos);
  EXPECT_NE(BlockDevice::open("/dev/no-such", 512).error().message.find("does not exist"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::engine
