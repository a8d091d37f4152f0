#pragma once
// The ring of one reactor: what all its stores ask for in a turn goes to the kernel in one system call at the turn's
// end. Stores use the Request interface; everybody else only makes the ring and hands it to them. May be made anywhere;
// from its first submission on it belongs to the thread that runs the reactor.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "engine/base/result.hpp"
#include "engine/runtime/buffer_pool.hpp"
#include "engine/runtime/reactor.hpp"

namespace lockstep::engine {

/// A ring of this kernel lets go of a registered file a second after it was told to (Linux before 6.4).
[[nodiscard]] bool rings_let_go_late();

struct IoUringOptions {
  unsigned depth = 4096;       ///< operations in flight in the kernel; more wait their turn in the ring object
  unsigned file_depth = 256;   ///< of those, for one file: some that hang leave room for the others
  BufferPool* pool = nullptr;  ///< registered as fixed buffers when memory may be pinned; may be null
  bool lets_go_late = rings_let_go_late();
};

class IoUring {
 public:
  /// One operation, from submit() to `done`; embedded in the store's own object.
  struct Request {
    enum class Kind : std::uint8_t { read, write, fdatasync, fallocate };
    Kind kind{};
    int file = -1;                                 ///< what register_file() gave
    std::uint64_t offset = 0;                      ///< bytes
    std::byte* data = nullptr;                     ///< read and write
    std::uint64_t length = 0;                      ///< bytes
    int rw_flags = 0;                              ///< RWF_DSYNC; or the mode of fallocate
    void (*done)(Request&, int result) = nullptr;  ///< bytes or a negative errno
    void* owner = nullptr;                         ///< for the store
    Request* next = nullptr;                       ///< the ring's while in flight
  };
  static constexpr unsigned kMaxFiles = 1024;

  /// An Error names what the kernel refused and what to do.
  [[nodiscard]] static Result<std::unique_ptr<IoUring>> create(Reactor& reactor, IoUringOptions options = {});
  ~IoUring();  ///< nothing in flight

  [[nodiscard]] Reactor& reactor() const;
  /// `done` runs on the reactor, never from inside this call.
  void submit(Request& request);
  /// Makes a descriptor known to the ring; it must stay open until unregister_file().
  /// `claims`: as long as it is open it keeps others out (a device opened with O_EXCL). It is closed when it is closed
  /// here then, also where the kernel lets go of what a ring knows a second late.
  [[nodiscard]] Result<int> register_file(int descriptor, bool claims = false);
  void unregister_file(int file);
  /// At the process's end, beside a disk that hangs: a ring that waits for what it was given keeps all its files for as
  /// long, and with them their locks (flock). Lets go of the locks of those that nothing was given for, or nothing that
  /// does not end within a moment. The last thing that the reactor does.
  void unlock_idle_files();
  [[nodiscard]] std::size_t in_flight() const;
  /// A stretch of zeros to write from.
  [[nodiscard]] std::span<const std::byte> zeros() const;
  /// True when the pool's buffers are registered: reads and writes in them cost no page lookups.
  [[nodiscard]] bool has_fixed_buffers() const;

 private:
  struct Impl;
  explicit IoUring(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::engine
