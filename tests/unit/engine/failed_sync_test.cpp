// Syncs that fail: what they lost is durable for nobody, whoever else comes and whatever Linux says the next time. It
// tells a write-back error once for each open file.
#include <algorithm>
#include <cerrno>
#include <functional>

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "engine/stores/file_store.hpp"
#include "tests/unit/engine/reactor_fixture.hpp"
#include "tests/unit/engine/ring_look.hpp"

namespace {

bool fsync_fails = false;

}  // namespace

// In the place of the C library's.
extern "C" int fsync(int file) {
  if (!fsync_fails) return static_cast<int>(::syscall(SYS_fsync, file));
  errno = EIO;
  return -1;
}

namespace lockstep::engine {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

/// The first sync that comes from the kernel has failed. Until show(), a ring sees nothing of what the kernel has done;
/// then it sees what syncs came to before anything else.
class FailedSync {
 public:
  /// As soon as there are so many.
  void show(unsigned completions) { shown_from_ = completions; }
  [[nodiscard]] int syncs() const { return syncs_; }

 private:
  static bool is_sync(const io_uring_cqe* entry) { return kind_of(entry) == IoUring::Request::Kind::fdatasync; }
  unsigned look_at(std::span<io_uring_cqe*> there) {
    if (there.size() < shown_from_) return 0;
    shown_from_ = 0;
    std::stable_partition(there.begin(), there.end(), is_sync);
    for (io_uring_cqe* entry : there) {
      if (is_sync(entry) && ++syncs_ == 1) entry->res = -EIO;
    }
    return static_cast<unsigned>(there.size());
  }

  unsigned shown_from_ = ~0u;
  int syncs_ = 0;
  RingLook look_{[this](std::span<io_uring_cqe*> there) { return look_at(there); }};
};

struct SharedSyncs : StoreWorld {
  std::unique_ptr<FileStore> store = make();
  FailedSync failed;
  std::error_code first = Errc::timed_out, second = Errc::timed_out;
  int unanswered = 2;

  std::unique_ptr<FileStore> make() {
    EXPECT_TRUE(FileStore::create(folder / "data", kMiB, Allocation::thin));
    auto opened = FileStore::open(ring(), folder / "data", kMiB);
    EXPECT_TRUE(opened) << opened.error().message;
    return opened ? std::move(*opened) : nullptr;
  }
  IoCallback ends(std::error_code& result) {
    return [this, &result](std::error_code error) {
      result = error;
      if (--unanswered == 0) reactor.stop();
    };
  }
  /// `work` comes while the sync of a flush is with the kernel.
  void during_the_sync(std::function<void()> work) {
    in_reactor([&] {
      store->flush(ends(first));
      reactor.post([w = std::move(work)] { w(); });
    });
  }
};

TEST_F(SharedSyncs, WhoWaitsForTheNextSyncFailsWithTheOneThatFails) {
  during_the_sync([&] {
    store->flush(ends(second));
    failed.show(1);
  });
  EXPECT_EQ(first, Errc::io_error);
  EXPECT_EQ(second, Errc::io_error);
  EXPECT_EQ(failed.syncs(), 1);
}

TEST_F(SharedSyncs, WhatIsZeroedMeanwhileIsNotDurableByALaterSync) {
  during_the_sync([&] {
    store->discard({0, 64 << 10}, Durability::durable, ends(second));
    failed.show(2);
  });
  EXPECT_EQ(first, Errc::io_error);
  EXPECT_EQ(second, Errc::io_error);
  EXPECT_EQ(failed.syncs(), 1);
}

/// A device that drops what it has cached drops it, too, and its own sync would not say so.
TEST_F(SharedSyncs, WhatIsWrittenDurablyMeanwhileIsNotDurable) {
  const Memory4K data(4096, 3);
  during_the_sync([&] {
    store->write(0, data.span(), Durability::durable, ends(second));
    failed.show(2);
  });
  EXPECT_EQ(first, Errc::io_error);
  EXPECT_EQ(second, Errc::io_error);
}

TEST_F(SharedSyncs, AfterOneThatFailedNothingIsWrittenUntilThatIsTakenAgain) {
  const Memory4K data(4096, 3);
  const auto flush = [&] { return await([&](IoCallback done) { store->flush(std::move(done)); }); };
  const auto write = [&] {
    return await([&](IoCallback done) { store->write(0, data.span(), Durability::durable, std::move(done)); });
  };
  failed.show(1);
  EXPECT_EQ(flush(), Errc::io_error);
  failed.show(0);
  EXPECT_TRUE(store->refuses_writes());
  EXPECT_EQ(write(), Errc::io_error);
  EXPECT_EQ(flush(), Errc::io_error);
  store->take_writes_again();
  EXPECT_FALSE(store->refuses_writes());
  EXPECT_EQ(write(), std::error_code{});
  EXPECT_EQ(flush(), std::error_code{});
}

/// The process died between giving the file its length and making it durable: a length that is found is not durable
/// yet.
TEST(ExtendedFiles, AFileThatHasItsLengthIsExtendedOnlyWhenThatIsDurable) {
  const TestFolder folder;
  const std::string path = folder / "data";
  ASSERT_TRUE(FileStore::create(path, kMiB, Allocation::thin));
  for (const auto allocation : {Allocation::thin, Allocation::allocated}) {
    fsync_fails = true;
    const auto extended = FileStore::extend(path, kMiB, allocation);
    fsync_fails = false;
    ASSERT_FALSE(extended);
    EXPECT_EQ(extended.error().code, Errc::io_error);
    EXPECT_TRUE(FileStore::extend(path, kMiB, allocation));
    EXPECT_EQ(std::filesystem::file_size(path), kMiB);
  }
}

}  // namespace
}  // namespace lockstep::engine
