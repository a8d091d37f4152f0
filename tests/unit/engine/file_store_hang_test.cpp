// A disk that hangs while its file system is asked what it keeps: that holds up the questions to its own store, and
// nothing of the others.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <fstream>
#include <mutex>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "engine/stores/file_store.hpp"
#include "tests/unit/engine/reactor_fixture.hpp"

namespace {

/// Holds up every look for holes in one file until it is let go.
class HungFile {
 public:
  explicit HungFile(const std::string& path) {
    ::stat(path.c_str(), &file_);
    hung = this;
  }
  ~HungFile() {
    let_go();
    hung = nullptr;
  }
  HungFile(const HungFile&) = delete;
  HungFile& operator=(const HungFile&) = delete;

  void let_go() {
    const std::lock_guard lock(mutex_);
    hangs_ = false;
    changed_.notify_all();
  }
  [[nodiscard]] bool is_asked() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(10), [this] { return asked_; });
  }
  static void before_look(int descriptor) {
    if (HungFile* one = hung; one != nullptr) one->look(descriptor);
  }

 private:
  void look(int descriptor) {
    struct stat asked {};
    if (::fstat(descriptor, &asked) != 0 || asked.st_ino != file_.st_ino || asked.st_dev != file_.st_dev) return;
    std::unique_lock lock(mutex_);
    asked_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return !hangs_; });
  }

  static std::atomic<HungFile*> hung;
  struct stat file_ {};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool hangs_ = true;
  bool asked_ = false;
};
std::atomic<HungFile*> HungFile::hung = nullptr;

}  // namespace

// In the place of the C library's.
extern "C" off_t lseek(int file, off_t offset, int whence) noexcept {
  if (whence == SEEK_DATA) HungFile::before_look(file);
  return ::syscall(SYS_lseek, file, offset, whence);
}

namespace lockstep::engine {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kMiB = 1 << 20;
constexpr std::uint64_t kSize = 64 * kMiB;
constexpr auto kSoon = 10s;

struct StoresOnTwoDisks : StoreWorld {
  std::unique_ptr<FileStore> first = make("first"), second = make("second");
  std::size_t unanswered = 0;

  std::unique_ptr<FileStore> make(const std::string& name) {
    EXPECT_TRUE(FileStore::create(folder / name, kSize, Allocation::thin));
    auto opened = FileStore::open(ring(), folder / name, kSize);
    EXPECT_TRUE(opened) << opened.error().message;
    return opened ? std::move(*opened) : nullptr;
  }
  /// What was asked ends, or some time is over.
  std::error_code soon(const std::function<void(IoCallback)>& ask) {
    auto result = std::make_shared<std::error_code>(Errc::timed_out);
    const TimerId limit = reactor.call_after(kSoon, [this] { reactor.stop(); });
    ++unanswered;
    in_reactor([&] {
      ask([this, result](std::error_code error) {
        *result = error;
        --unanswered;
        reactor.stop();
      });
    });
    reactor.cancel(limit);
    return *result;
  }
  static void look(Store& store, IoCallback done) {
    store.next_run(0, [done = std::move(done)](const IoResult<StoreRun>& run) mutable {
      done(run ? std::error_code{} : run.error());
    });
  }
  void begin_look(Store& store) {
    ++unanswered;
    reactor.post([this, &store] {
      look(store, [this](std::error_code error) {
        EXPECT_FALSE(error);
        --unanswered;
        reactor.stop();
      });
    });
  }
  void await_all() {
    while (unanswered > 0) reactor.run();
  }
};

TEST_F(StoresOnTwoDisks, ALookThatHangsOnOneHoldsUpNothingOnTheOther) {
  HungFile hung(folder / "first");
  begin_look(*first);
  EXPECT_FALSE(soon([&](IoCallback done) { look(*second, std::move(done)); }));
  EXPECT_FALSE(soon([&](IoCallback done) { second->reserve({0, 8 * kMiB}, std::move(done)); })) << "room is counted";
  EXPECT_TRUE(hung.is_asked());
  EXPECT_EQ(unanswered, 1u);
  hung.let_go();
  await_all();
}

TEST_F(StoresOnTwoDisks, AStoreIsClosedWhileALookHangsOnAnother) {
  ASSERT_FALSE(soon([&](IoCallback done) { look(*second, std::move(done)); }));
  HungFile hung(folder / "first");
  begin_look(*first);
  reactor.post([this] {
    second.reset();
    reactor.stop();
  });
  reactor.run();
  EXPECT_TRUE(hung.is_asked());
  EXPECT_EQ(unanswered, 1u);
  hung.let_go();
  await_all();
}

TEST_F(StoresOnTwoDisks, AStoreMayBeClosedByTheAnswer) {
  EXPECT_FALSE(soon([&](IoCallback done) {
    look(*first, [this, done = std::move(done)](std::error_code error) mutable {
      first.reset();
      done(error);
    });
  }));
}

/// Threads of this program that ask file systems.
std::size_t helpers() {
  std::size_t count = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::ifstream(task.path() / "comm") >> name;
    count += name == "helper" ? 1 : 0;
  }
  return count;
}

/// The kernel shows a thread a little longer than it is there.
bool are_left(std::size_t count) {
  const auto limit = std::chrono::steady_clock::now() + kSoon;
  while (helpers() != count) {
    if (std::chrono::steady_clock::now() > limit) return false;
    ::usleep(1000);
  }
  return true;
}

TEST_F(StoresOnTwoDisks, AStoreHasAThreadOfItsOwnFromItsFirstQuestionUntilItIsClosed) {
  ASSERT_TRUE(are_left(0));
  for (int i = 0; i < 2; ++i) ASSERT_FALSE(soon([&](IoCallback done) { look(*first, std::move(done)); }));
  EXPECT_EQ(helpers(), 1u);
  ASSERT_FALSE(soon([&](IoCallback done) { look(*second, std::move(done)); }));
  EXPECT_EQ(helpers(), 2u);
  first.reset();
  second.reset();
  EXPECT_TRUE(are_left(0));
}

}  // namespace
}  // namespace lockstep::engine
