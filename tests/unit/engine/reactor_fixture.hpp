#pragma once
// A reactor on the test's thread, a ring on it, a folder on a real disk.
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "engine/runtime/reactor.hpp"
#include "engine/stores/io_uring.hpp"

namespace lockstep::engine {

/// Aligned memory with a pattern in it.
class Memory4K {
 public:
  explicit Memory4K(std::size_t size, unsigned seed = 0)
      : bytes_(static_cast<std::byte*>(::operator new (size, std::align_val_t{4096}))), size_(size) {
    for (std::size_t i = 0; i < size; ++i) {
      bytes_[i] = seed == 0 ? std::byte{0} : static_cast<std::byte>((i * 2654435761u >> 7) + i / 4096 * 31 + seed);
    }
  }
  ~Memory4K() { ::operator delete (bytes_, std::align_val_t{4096}); }
  Memory4K(const Memory4K&) = delete;
  Memory4K& operator=(const Memory4K&) = delete;
  [[nodiscard]] std::span<std::byte> span() const { return {bytes_, size_}; }
  [[nodiscard]] std::vector<std::byte> copy() const { return {bytes_, bytes_ + size_}; }

 private:
  std::byte* bytes_;
  std::size_t size_;
};

/// A folder of this test's own, removed at its end. /var/tmp is on a disk where /tmp may be memory.
class TestFolder {
 public:
  TestFolder() {
    std::string name = "/var/tmp/lockstep-test-XXXXXX";
    path_ = mkdtemp(name.data());
  }
  ~TestFolder() { std::filesystem::remove_all(path_); }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
  [[nodiscard]] std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

struct StoreWorld : testing::Test {
  TestFolder folder;
  Reactor reactor;
  std::unique_ptr<IoUring> ring_;

  IoUring& ring(IoUringOptions options = {}) {
    if (!ring_) {
      auto made = IoUring::create(reactor, options);
      EXPECT_TRUE(made) << made.error().message;
      ring_ = std::move(*made);
    }
    return *ring_;
  }
  /// Runs `work` on the reactor, and the reactor until somebody stops it.
  void in_reactor(std::function<void()> work) {
    reactor.post([w = std::move(work)] { w(); });
    reactor.run();
  }
  /// Starts one operation and waits for its end.
  std::error_code await(const std::function<void(IoCallback)>& start) {
    std::error_code result = Errc::timed_out;
    in_reactor([&] {
      start([&](std::error_code error) {
        result = error;
        reactor.stop();
      });
    });
    return result;
  }
};

}  // namespace lockstep::engine
