// Work on a disk that hangs holds up nobody for longer than the patience.
#include "mgmt/control/file_thread.hpp"

#include <chrono>
#include <semaphore>
#include <stdexcept>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace lockstep::mgmt {
namespace {

using namespace std::chrono_literals;

/// Held up until answer(); shared with work that outlives the test.
struct Disk {
  std::binary_semaphore answers{0};
  std::binary_semaphore asked{0};
  int done = 0;
};

int write_to(Disk& disk) {
  disk.asked.release();
  disk.answers.acquire();
  return ++disk.done;
}

TEST(FileThread, GivesWhatTheWorkGives) {
  FileThread thread;
  EXPECT_EQ(thread.ask([] { return 7; }), 7);
  EXPECT_THROW((void)thread.ask([]() -> int { throw std::runtime_error("as it was"); }), std::runtime_error);
  EXPECT_EQ(thread.ask([] { return 8; }), 8);
}

TEST(FileThread, AfterADiskHungNobodyWaitsUntilItHasAnswered) {
  const auto disk = std::make_shared<Disk>();
  FileThread thread(20ms);
  EXPECT_EQ(thread.ask([disk] { return write_to(*disk); }), std::nullopt);
  disk->asked.acquire();
  bool begun = false;
  EXPECT_EQ(thread.ask([&begun] { return begun = true; }), std::nullopt);
  EXPECT_FALSE(begun);
  disk->answers.release();
  while (!thread.ask([] { return true; })) std::this_thread::yield();
  EXPECT_EQ(disk->done, 1);
  EXPECT_FALSE(begun) << "what was given up before it began is not done later";
}

TEST(FileThread, WhatWaitsBehindADiskThatHangsIsNeverBegun) {
  const auto disk = std::make_shared<Disk>();
  FileThread thread(100ms);
  std::jthread first([&] { (void)thread.ask([disk] { return write_to(*disk); }); });
  disk->asked.acquire();
  bool begun = false;
  EXPECT_EQ(thread.ask([&begun] { return begun = true; }), std::nullopt);
  first.join();
  disk->answers.release();
  while (!thread.ask([] { return true; })) std::this_thread::yield();
  EXPECT_FALSE(begun);
}

TEST(FileThread, EndsBesideADiskThatHangs) {
  const auto disk = std::make_shared<Disk>();
  {
    FileThread thread(20ms);
    EXPECT_EQ(thread.ask([disk] { return write_to(*disk); }), std::nullopt);
  }
  disk->answers.release();
  while (disk.use_count() > 1) std::this_thread::yield();
  EXPECT_EQ(disk->done, 1);
}

/// As of a process that is told to end, whose sockets the next one needs.
TEST(FileThread, ADiskThatHangsHoldsNoneOfTheProcessesDescriptors) {
  const int open_before = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ASSERT_GT(open_before, STDERR_FILENO);
  FileThread thread;
  EXPECT_EQ(thread.ask([open_before] { return ::fcntl(open_before, F_GETFD); }), -1);
  EXPECT_EQ(thread.ask([] {
    const int own = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    return own >= 0 && ::close(own) == 0;
  }),
            true);
  EXPECT_NE(::fcntl(open_before, F_GETFD), -1) << "it is the process's still";
  ::close(open_before);
}

}  // namespace
}  // namespace lockstep::mgmt
