// What the kernel gives for an operation that it has not begun, and of a device that is gone.
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "engine/stores/block_store.hpp"
#include "engine/stores/file_store.hpp"
#include "tests/unit/engine/reactor_fixture.hpp"
#include "tests/unit/engine/ring_look.hpp"

namespace lockstep::engine {
namespace {

using Kind = IoUring::Request::Kind;
using SteadyClock = std::chrono::steady_clock;

constexpr std::uint64_t kMiB = 1 << 20;

/// The first `times` operations of that kind have come to `result`, as far as a ring sees.
class FalseResult {
 public:
  FalseResult(Kind kind, int result, unsigned times = 1) : kind_(kind), result_(result), left_(times) {}
  /// How often one came back.
  [[nodiscard]] unsigned seen() const { return seen_; }

 private:
  unsigned look_at(std::span<io_uring_cqe*> there) {
    for (io_uring_cqe* entry : there) {
      if (kind_of(entry) != kind_) continue;
      ++seen_;
      if (left_ == 0) continue;
      --left_;
      entry->res = result_;
    }
    return static_cast<unsigned>(there.size());
  }
  Kind kind_;
  int result_;
  unsigned left_, seen_ = 0;
  RingLook look_{[this](std::span<io_uring_cqe*> there) { return look_at(there); }};
};

struct KernelResults : StoreWorld {
  std::unique_ptr<FileStore> store = make();
  Memory4K memory{64 << 10, 3};

  std::unique_ptr<FileStore> make() {
    EXPECT_TRUE(FileStore::create(folder / "data", 4 * kMiB, Allocation::thin));
    auto opened = FileStore::open(ring(), folder / "data", 4 * kMiB);
    EXPECT_TRUE(opened) << opened.error().message;
    return opened ? std::move(*opened) : nullptr;
  }
  std::error_code read() {
    return await([&](IoCallback done) { store->read(0, memory.span(), std::move(done)); });
  }
  std::error_code write() {
    return await([&](IoCallback done) { store->write(0, memory.span(), Durability::durable, std::move(done)); });
  }
  std::error_code zero() {
    return await([&](IoCallback done) { store->write_zeroes({0, kMiB}, Durability::cached, std::move(done)); });
  }
  std::error_code discard() {
    return await([&](IoCallback done) { store->discard({0, kMiB}, Durability::cached, std::move(done)); });
  }
  std::error_code reserve() {
    return await([&](IoCallback done) { store->reserve({0, kMiB}, std::move(done)); });
  }
  std::error_code flush() {
    return await([&](IoCallback done) { store->flush(std::move(done)); });
  }
};

/// It had no thread for it: io-wq ends all that waits for one.
TEST_F(KernelResults, WhatTheKernelCancelledIsAskedForAgainAfterAWhile) {
  const std::pair<Kind, std::function<std::error_code()>> operations[] = {
      {Kind::read, [this] { return read(); }},         {Kind::write, [this] { return write(); }},
      {Kind::fallocate, [this] { return zero(); }},    {Kind::fallocate, [this] { return discard(); }},
      {Kind::fallocate, [this] { return reserve(); }}, {Kind::fdatasync, [this] { return flush(); }}};
  for (const auto& [kind, run] : operations) {
    const FalseResult cancelled(kind, -ECANCELED, 3);
    const auto began = SteadyClock::now();
    EXPECT_EQ(run(), std::error_code{}) << static_cast<int>(kind);
    EXPECT_EQ(cancelled.seen(), 4U) << static_cast<int>(kind);
    EXPECT_GE(SteadyClock::now() - began, std::chrono::milliseconds(20)) << "it spins";
  }
  EXPECT_EQ(write(), std::error_code{});
  EXPECT_EQ(flush(), std::error_code{}) << "the store counts as failed";
}

TEST_F(KernelResults, WhoeverWantsASyncMeanwhileSharesTheNext) {
  const FalseResult cancelled(Kind::fdatasync, -ECANCELED);
  unsigned ended = 0;
  const auto done = [&](std::error_code error) {
    EXPECT_EQ(error, std::error_code{});
    if (++ended == 2) reactor.stop();
  };
  in_reactor([&] {
    store->flush(done);
    reactor.call_after(std::chrono::milliseconds(1), [&] { store->flush(done); });
  });
  EXPECT_EQ(ended, 2U);
  EXPECT_EQ(cancelled.seen(), 3U);
}

TEST_F(KernelResults, AReadForWhichThereWasNoMemoryIsAskedForAgain) {
  const FalseResult short_of_memory(Kind::read, -ENOMEM);
  EXPECT_EQ(read(), std::error_code{});
  EXPECT_EQ(short_of_memory.seen(), 2U);
}

/// Linux may have lost what it was to make durable, and tells that once.
TEST_F(KernelResults, ASyncForWhichThereWasNoMemoryHasFailed) {
  const FalseResult short_of_memory(Kind::fdatasync, -ENOMEM);
  EXPECT_EQ(flush(), Errc::io_error);
  EXPECT_EQ(flush(), Errc::io_error);
  EXPECT_EQ(short_of_memory.seen(), 1U);
}

/// A loop device over a file, where the machine gives us one: 32 MiB.
struct GoneDevice : StoreWorld {
  const std::string image = folder / "disk.img";
  std::string device;

  GoneDevice() {
    std::ofstream(image).close();
    std::filesystem::resize_file(image, 32 * kMiB);
    FILE* out = ::popen(("losetup --show -f " + image + " 2>/dev/null").c_str(), "r");
    char line[64] = {};
    if (std::fgets(line, sizeof line, out) != nullptr) device = std::string(line, std::strcspn(line, "\n"));
    ::pclose(out);
  }
  ~GoneDevice() override {
    if (!device.empty() && std::system(("losetup -d " + device).c_str()) != 0) ADD_FAILURE() << device;
  }
  /// As the kernel does with one that was pulled, to nothing.
  void shrink(std::uint64_t size) const {
    std::filesystem::resize_file(image, size);
    ASSERT_EQ(std::system(("losetup -c " + device).c_str()), 0);
  }
};

TEST_F(GoneDevice, IsNotTakenForAFullOne) {
  if (device.empty()) GTEST_SKIP() << "no loop device";
  const Memory4K data(64 << 10, 3);
  auto opened = BlockDevice::open(device, 512);
  ASSERT_TRUE(opened) << opened.error().message;
  const auto store = BlockStore::open(ring(), *opened, {16 * kMiB, 16 * kMiB});
  ASSERT_TRUE(store);
  const auto write = [&] {
    return await(
        [&](IoCallback done) { (*store)->write(8 * kMiB, data.span(), Durability::durable, std::move(done)); });
  };
  EXPECT_EQ(write(), std::error_code{});
  {
    const FalseResult full(Kind::write, -ENOSPC);
    EXPECT_EQ(write(), Errc::no_space) << "as of a thin one whose pool is full";
  }
  for (const std::uint64_t left : {20 * kMiB, std::uint64_t{0}}) {
    shrink(left);
    EXPECT_EQ(write(), Errc::io_error) << left;
  }
}

}  // namespace
}  // namespace lockstep::engine
