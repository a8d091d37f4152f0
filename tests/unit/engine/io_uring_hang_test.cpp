// Operations that stand still in the kernel, as on a disk that hangs: they hold up no other.
#include <array>
#include <cerrno>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/userfaultfd.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "engine/stores/descriptor.hpp"
#include "tests/unit/engine/reactor_fixture.hpp"

namespace lockstep::engine {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kPage = 4096;
constexpr std::size_t kHung = 600;  // more than one file has places for, and many more than the machine has cores
constexpr auto kSoon = 10s;

/// Who touches one of these pages stands still until they are let go.
class HungMemory {
 public:
  explicit HungMemory(std::size_t pages) : size_(pages * kPage) {
    void* memory = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return;
    memory_ = static_cast<std::byte*>(memory);
    faults_ = Descriptor(static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC)));
    uffdio_api api{.api = UFFD_API, .features = 0, .ioctls = 0};
    uffdio_register range{
        .range = {reinterpret_cast<std::uintptr_t>(memory), size_}, .mode = UFFDIO_REGISTER_MODE_MISSING, .ioctls = 0};
    hangs_ = faults_.valid() && ::ioctl(faults_.get(), UFFDIO_API, &api) == 0 &&
             ::ioctl(faults_.get(), UFFDIO_REGISTER, &range) == 0;
  }
  ~HungMemory() {
    let_go();
    if (memory_ != nullptr) ::munmap(memory_, size_);
  }
  HungMemory(const HungMemory&) = delete;
  HungMemory& operator=(const HungMemory&) = delete;

  [[nodiscard]] bool hangs() const { return hangs_; }
  [[nodiscard]] std::byte* page(std::size_t n) const { return memory_ + n * kPage; }
  void let_go() { faults_ = Descriptor(); }

 private:
  std::size_t size_;
  std::byte* memory_ = nullptr;
  Descriptor faults_;
  bool hangs_ = false;
};

struct OneRing : StoreWorld {
  struct Read {
    IoUring::Request request;
    int result = -EINPROGRESS;
    OneRing* world = nullptr;
  };

  // In memory: reading them is always a thread's of the kernel.
  Descriptor file{::memfd_create("read", MFD_CLOEXEC)}, other_file{::memfd_create("other", MFD_CLOEXEC)};
  int known = -1, other_known = -1;
  std::size_t unanswered = 0;

  void SetUp() override {
    known = make_known(file);
    other_known = make_known(other_file);
  }
  int make_known(const Descriptor& one) {
    EXPECT_EQ(::ftruncate(one.get(), kPage), 0);
    const auto registered = ring().register_file(one.get());
    EXPECT_TRUE(registered) << registered.error().message;
    return registered.value_or(-1);
  }
  void begin(Read& read, int of, std::byte* page) {
    read.world = this;
    read.request = {.kind = IoUring::Request::Kind::read, .file = of, .data = page, .length = kPage};
    read.request.done = [](IoUring::Request& request, int result) {
      auto& one = *static_cast<Read*>(request.owner);
      one.result = result;
      --one.world->unanswered;
      one.world->reactor.stop();
    };
    read.request.owner = &read;
    ++unanswered;
    ring().submit(read.request);
  }
};

TEST_F(OneRing, WhoWaitsForAPlaceOfTheFileGoesBeforeWhoComesLater) {
  auto made = IoUring::create(reactor, {.depth = 8, .file_depth = 1});
  ASSERT_TRUE(made);
  IoUring& narrow = **made;
  const int here = *narrow.register_file(file.get());
  const Memory4K memory(kPage, 1);
  std::vector<int> order;
  struct One {
    IoUring::Request request;
    int number = 0;
    std::function<void(int)> ended;
  };
  std::vector<One> all(4);
  const auto begin = [&](int number) {
    One& one = all[static_cast<std::size_t>(number)];
    one.number = number;
    one.request = {.kind = IoUring::Request::Kind::read, .file = here, .data = memory.span().data(), .length = kPage};
    one.request.owner = &one;
    one.request.done = [](IoUring::Request& request, int) {
      auto& it = *static_cast<One*>(request.owner);
      it.ended(it.number);
    };
    narrow.submit(one.request);
  };
  for (One& one : all) {
    one.ended = [&](int number) {
      order.push_back(number);
      if (number == 0) begin(3);
      if (order.size() == all.size()) reactor.stop();
    };
  }
  in_reactor([&] {
    for (int number = 0; number < 3; ++number) begin(number);
  });
  while (order.size() < all.size()) reactor.run();
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3}));
  narrow.unregister_file(here);
}

TEST_F(OneRing, WhatStandsStillInTheKernelHoldsUpNothingElse) {
  HungMemory memory(kHung);
  if (!memory.hangs()) GTEST_SKIP() << "userfaultfd is not to be had here";
  const Memory4K at_hand(kPage, 1);
  std::vector<Read> hung(kHung);
  Read other;
  const TimerId limit = reactor.call_after(kSoon, [this] { reactor.stop(); });
  in_reactor([&] {
    for (std::size_t i = 0; i < kHung; ++i) begin(hung[i], known, memory.page(i));
    begin(other, other_known, at_hand.span().data());
  });
  EXPECT_EQ(other.result, static_cast<int>(kPage));
  EXPECT_GE(unanswered, kHung) << "those stand still";
  reactor.cancel(limit);
  memory.let_go();
  while (unanswered > 0) reactor.run();
  for (const Read& read : hung) EXPECT_EQ(read.result, static_cast<int>(kPage));
}

/// As another process would try.
bool is_locked(const Descriptor& file) {
  const Descriptor again(::open(("/proc/self/fd/" + std::to_string(file.get())).c_str(), O_RDWR | O_CLOEXEC));
  return ::flock(again.get(), LOCK_EX | LOCK_NB) != 0;
}

/// The ring keeps both files for as long as one of them is read, whatever is closed.
TEST_F(OneRing, AtTheEndTheLocksOfFilesThatNothingWasGivenForAreLetGo) {
  HungMemory memory(1);
  if (!memory.hangs()) GTEST_SKIP() << "userfaultfd is not to be had here";
  for (const Descriptor* each : {&file, &other_file}) ASSERT_EQ(::flock(each->get(), LOCK_EX | LOCK_NB), 0);
  const Memory4K at_hand(kPage, 1);
  Read hung, other;
  in_reactor([&] {
    begin(hung, known, memory.page(0));
    begin(other, other_known, at_hand.span().data());
  });
  EXPECT_EQ(other.result, static_cast<int>(kPage));
  ASSERT_TRUE(is_locked(file) && is_locked(other_file));
  ring().unlock_idle_files();
  EXPECT_FALSE(is_locked(other_file)) << "whoever follows takes it";
  EXPECT_TRUE(is_locked(file)) << "what it was given may reach it yet";
  memory.let_go();
  while (unanswered > 0) reactor.run();
}

}  // namespace
}  // namespace lockstep::engine
