// Zeroing on XFS, which gives back what a range has before it takes as much again: on a full disk that would be a hole.
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>

#include "engine/stores/descriptor.hpp"
#include "engine/stores/file_store.hpp"
#include "tests/unit/engine/reactor_fixture.hpp"
#include "tests/unit/engine/ring_look.hpp"

namespace lockstep::engine {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

/// A thin file beside it, of which somebody wants to write what has no space yet.
class WantsMore {
 public:
  explicit WantsMore(const std::string& path) : file_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {}
  ~WantsMore() {
    over_ = true;
    thread_.join();
  }
  WantsMore(const WantsMore&) = delete;
  WantsMore& operator=(const WantsMore&) = delete;

 private:
  void ask() {
    for (off_t at = 0; !over_;) {
      if (::fallocate(file_.get(), 0, at, 64 << 10) == 0) at += 64 << 10;
    }
  }
  Descriptor file_;
  std::atomic<bool> over_ = false;
  std::thread thread_{[this] { ask(); }};
};

struct OnXfs : StoreWorld {
  static constexpr std::uint64_t kSize = 4 * kMiB;
  std::string mounted = folder / "small";
  std::unique_ptr<FileStore> store;
  Memory4K data{kSize, 8};

  void SetUp() override {
    std::filesystem::create_directory(mounted);
    const std::string image = folder / "small.img";
    std::ofstream(image).close();
    std::filesystem::resize_file(image, 320 * kMiB);
    const std::string made =
        "mkfs.xfs -q " + image + " >/dev/null 2>&1 && mount -o loop " + image + " " + mounted + " 2>/dev/null";
    if (std::system(made.c_str()) != 0) GTEST_SKIP() << "no mkfs.xfs, or may not mount";
    ASSERT_TRUE(FileStore::create(mounted + "/vm1.data", kSize, Allocation::thin));
    auto opened = FileStore::open(ring(), mounted + "/vm1.data", kSize);
    ASSERT_TRUE(opened) << opened.error().message;
    store = std::move(*opened);
    ASSERT_FALSE(await([&](IoCallback done) { store->write(0, data.span(), Durability::durable, std::move(done)); }));
  }
  void TearDown() override {
    store.reset();
    ring_.reset();  // it may hold the file a while longer
    ::umount2(mounted.c_str(), MNT_DETACH);
  }
  /// But for what `another` has: a file takes space for its own sake.
  void fill_the_rest() {
    std::ofstream(mounted + "/another").close();
    unsigned files = 0;
    for (std::uint64_t bytes = 256 * kMiB; bytes >= 4096;) {
      const std::string more = mounted + "/ballast" + std::to_string(files++);
      if (!FileStore::create(more, bytes, Allocation::allocated)) bytes /= 2;
    }
  }
  std::error_code zero(Extent extent) {
    return await([&](IoCallback done) { store->write_zeroes(extent, Durability::cached, std::move(done)); });
  }
  [[nodiscard]] bool reads_zeros(Extent extent) {
    Memory4K back(extent.length, 1);
    EXPECT_FALSE(await([&](IoCallback done) { store->read(extent.offset, back.span(), std::move(done)); }));
    return back.copy() == std::vector<std::byte>(extent.length);
  }
};

TEST_F(OnXfs, ZerosKeepTheSpaceThatIsThereThoughOthersWantIt) {
  fill_the_rest();
  const auto before = store->allocated_bytes();
  const WantsMore another(mounted + "/another");
  for (unsigned i = 0; i < 500; ++i) {
    ASSERT_EQ(zero({i % 4 * kMiB, kMiB}), std::error_code{}) << i;
    ASSERT_EQ(store->allocated_bytes(), before) << i;
  }
  EXPECT_EQ(zero({512, kSize - 1024}), std::error_code{});
  EXPECT_EQ(store->allocated_bytes(), before);
  EXPECT_TRUE(reads_zeros({0, kSize}));
}

TEST_F(OnXfs, ZerosAreNotWrittenWhereThereIsRoom) {
  unsigned written = 0, allocated = 0;
  const RingLook look([&](std::span<io_uring_cqe*> there) {
    for (const io_uring_cqe* entry : there) {
      written += kind_of(entry) == IoUring::Request::Kind::write;
      allocated += kind_of(entry) == IoUring::Request::Kind::fallocate;
    }
    return static_cast<unsigned>(there.size());
  });
  EXPECT_FALSE(zero({0, 2 * kMiB}));
  EXPECT_EQ(allocated, 1U);
  EXPECT_EQ(written, 0U);
  EXPECT_TRUE(reads_zeros({0, 2 * kMiB}));
}

}  // namespace
}  // namespace lockstep::engine
