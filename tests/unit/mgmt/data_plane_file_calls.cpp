#include "tests/unit/mgmt/data_plane_file_calls.hpp"

#include <atomic>
#include <cstdio>
#include <memory>

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

std::atomic<const std::function<void(const char*)>*> hook = nullptr;

void before(const char* call) {
  if (const auto* seen = hook.load()) (*seen)(call);
}

}  // namespace

// In the place of the C library's.
extern "C" {

int fallocate(int file, int mode, off_t offset, off_t length) {
  before("fallocate");
  return static_cast<int>(::syscall(SYS_fallocate, file, mode, offset, length));
}
int ftruncate(int file, off_t length) noexcept {
  before("ftruncate");
  return static_cast<int>(::syscall(SYS_ftruncate, file, length));
}
int fsync(int file) {
  before("fsync");
  return static_cast<int>(::syscall(SYS_fsync, file));
}
int renameat2(int from, const char* old_path, int to, const char* new_path, unsigned flags) noexcept {
  before("renameat2");
  return static_cast<int>(::syscall(SYS_renameat2, from, old_path, to, new_path, flags));
}
int unlink(const char* path) noexcept {
  before("unlink");
  return static_cast<int>(::syscall(SYS_unlinkat, AT_FDCWD, path, 0));
}
}

namespace lockstep::test {

FileCallHook::FileCallHook(std::function<void(const char*)> seen) {
  hook = new std::function<void(const char*)>(std::move(seen));
}

FileCallHook::~FileCallHook() { delete hook.exchange(nullptr); }

}  // namespace lockstep::test
