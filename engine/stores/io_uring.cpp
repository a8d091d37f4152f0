#include "engine/stores/io_uring.hpp"

#include <array>
#include <atomic>
#include <cassert>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include <liburing.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

namespace lockstep::engine {
namespace {

constexpr std::size_t kZeros = std::size_t{1} << 20;
constexpr unsigned kLeastDepth = 512;    // where there is no memory for a longer ring
constexpr unsigned kMostThreads = 1024;  // of the kernel, that wait for disks
constexpr std::size_t kEndsInATurn = 1024;
constexpr auto kLastMoment = std::chrono::milliseconds(200);  // for what is under way as a process ends
constexpr std::size_t kLargestFixed = std::size_t{1} << 30;   // the kernel's bound on one registered buffer

std::string reason(int negative_errno) { return std::error_code(-negative_errno, std::generic_category()).message(); }

/// The newest way of running that this kernel knows: completions are gathered where we ask for them, not by
/// interrupting.
int setup(io_uring& ring, unsigned depth) {
  constexpr std::array<unsigned, 3> kWays = {
      IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_R_DISABLED,
      IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_R_DISABLED, IORING_SETUP_R_DISABLED};
  int result = -EINVAL;
  for (const unsigned flags : kWays) {
    io_uring_params params{};
    params.flags = flags | IORING_SETUP_CLAMP;
    result = io_uring_queue_init_params(depth, &ring, &params);
    if (result != -EINVAL) break;
  }
  return result;
}

}  // namespace

bool rings_let_go_late() {
  utsname system{};
  int major = 0, minor = 0;
  if (::uname(&system) != 0 || std::sscanf(system.release, "%d.%d", &major, &minor) != 2) return true;
  return major < 6 || (major == 6 && minor < 4);
}

struct IoUring::Impl final : TurnHook, TurnPoller {
  struct Queue {
    Request* first = nullptr;
    Request* last = nullptr;
    void push(Request& request) {
      request.next = nullptr;
      (last != nullptr ? last->next : first) = &request;
      last = &request;
    }
    Request* pop() {
      Request* const request = first;
      if (request != nullptr && (first = request->next) == nullptr) last = nullptr;
      return request;
    }
  };
  /// What of a file is with the kernel, and what waits for less of it to be there.
  struct File {
    unsigned in_kernel = 0;
    Queue waiting;
    int descriptor = -1;
    bool is_plain = false;  ///< the kernel's ring does not know it
  };

  Impl(Reactor& r, IoUringOptions o) : reactor(r), options(o) {}
  ~Impl() override;

  [[nodiscard]] Result<void> open();
  void register_pool();
  void push(Request& request);
  void end_of_turn() override;
  bool poll() override;
  bool prepare_to_sleep() override;
  void woke_up() override;
  void prepare(Request& request);
  void left_kernel(const Request& request);
  bool reap();

  Reactor& reactor;
  IoUringOptions options;
  io_uring ring{};
  bool ring_open = false;
  bool enabled = false;
  std::span<std::byte> arena;  // empty: not registered
  std::byte* zeros = nullptr;
  std::vector<int> free_files;
  std::vector<File> files{kMaxFiles};
  Queue granted;              // waited for their file and have the place of one that ended
  Queue pending;              // asked for, not yet with the kernel
  std::size_t asked_for = 0;  // those, and what waits for its file
  std::size_t in_kernel = 0;
};

Result<void> IoUring::Impl::open() {
  int result = setup(ring, options.depth);
  // Older kernels want the ring in one piece.
  while (result == -ENOMEM && options.depth > kLeastDepth) result = setup(ring, options.depth /= 2);
  if (result == -ENOMEM) {
    return fail(Errc::resource_exhausted, "The kernel has no memory for io_uring's ring. Free some and start again.");
  }
  if (result < 0) {
    return fail(Errc::io_error, "io_uring is not available (" + reason(result) +
                                    "). Lockstep needs Linux 5.19 or later and kernel.io_uring_disabled=0.");
  }
  ring_open = true;
  if (result = io_uring_register_files_sparse(&ring, kMaxFiles); result < 0) {
    return fail(Errc::io_error, "io_uring refused its table of files (" + reason(result) + ").");
  }
  for (int i = kMaxFiles - 1; i >= 0; --i) free_files.push_back(i);
  if (result = io_uring_register_eventfd(&ring, reactor.wake_descriptor()); result < 0) {
    return fail(Errc::io_error, "io_uring refused its event descriptor (" + reason(result) + ").");
  }
  // What can't be begun without waiting is a thread's of the kernel, of which it has a few for each core: those that a
  // disk holds would be missing to all the others.
  std::array<unsigned, 2> threads{std::min(options.depth, kMostThreads), 0};
  if (result = io_uring_register_iowq_max_workers(&ring, threads.data()); result < 0) {
    return fail(Errc::io_error, "io_uring refused a bound for its threads (" + reason(result) + ").");
  }
  io_uring_cq_eventfd_toggle(&ring, false);
  void* memory = mmap(nullptr, kZeros, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return fail(Errc::resource_exhausted, "There is no memory for io_uring's buffers.");
  zeros = static_cast<std::byte*>(memory);
  if (options.pool != nullptr) register_pool();
  reactor.add_poller(*this);
  return {};
}

void IoUring::Impl::register_pool() {
  const auto whole = options.pool->arena();
  std::vector<iovec> parts;
  for (std::size_t at = 0; at < whole.size(); at += kLargestFixed) {
    parts.push_back({whole.data() + at, std::min(kLargestFixed, whole.size() - at)});
  }
  if (io_uring_register_buffers(&ring, parts.data(), static_cast<unsigned>(parts.size())) == 0) arena = whole;
}

IoUring::Impl::~Impl() {
  assert(in_kernel == 0 && asked_for == 0);
  reactor.remove_poller(*this);
  if (ring_open) io_uring_queue_exit(&ring);
  if (zeros != nullptr) munmap(zeros, kZeros);
}

void IoUring::Impl::push(Request& request) {
  pending.push(request);
  ++asked_for;
  if (in_kernel < options.depth) reactor.at_end_of_turn(*this);
}

void IoUring::Impl::prepare(Request& request) {
  io_uring_sqe* sqe = io_uring_get_sqe(&ring);
  assert(sqe != nullptr);  // the submission queue is as long as `depth`, and emptied each time
  const auto bytes = static_cast<unsigned>(std::min<std::uint64_t>(request.length, kLargestFixed));
  const bool fixed = !arena.empty() && request.data >= arena.data() && request.data < arena.data() + arena.size();
  const int buffer =
      fixed ? static_cast<int>(static_cast<std::size_t>(request.data - arena.data()) / kLargestFixed) : 0;
  switch (request.kind) {
    case Request::Kind::read:
      if (fixed) {
        io_uring_prep_read_fixed(sqe, request.file, request.data, bytes, request.offset, buffer);
      } else {
        io_uring_prep_read(sqe, request.file, request.data, bytes, request.offset);
      }
      break;
    case Request::Kind::write:
      if (fixed) {
        io_uring_prep_write_fixed(sqe, request.file, request.data, bytes, request.offset, buffer);
      } else {
        io_uring_prep_write(sqe, request.file, request.data, bytes, request.offset);
      }
      sqe->rw_flags = request.rw_flags;
      break;
    case Request::Kind::fdatasync:
      io_uring_prep_fsync(sqe, request.file, IORING_FSYNC_DATASYNC);
      break;
    case Request::Kind::fallocate:
      io_uring_prep_fallocate(sqe, request.file, request.rw_flags, static_cast<off_t>(request.offset),
                              static_cast<off_t>(request.length));
      break;
  }
  const File& file = files[static_cast<std::size_t>(request.file)];
  if (file.is_plain) {
    sqe->fd = file.descriptor;
  } else {
    sqe->flags |= IOSQE_FIXED_FILE;
  }
  io_uring_sqe_set_data(sqe, &request);
}

void IoUring::Impl::end_of_turn() {
  if (!enabled) {
    enabled = true;
    // Not through liburing: 2.3 declares io_uring_enable_rings() and does not export it.
    [[maybe_unused]] const long result =
        syscall(__NR_io_uring_register, ring.ring_fd, IORING_REGISTER_ENABLE_RINGS, nullptr, 0);
    assert(result == 0);
  }
  while ((granted.first != nullptr || pending.first != nullptr) && in_kernel < options.depth) {
    const bool is_granted = granted.first != nullptr;
    Request& request = is_granted ? *granted.pop() : *pending.pop();
    File& file = files[static_cast<std::size_t>(request.file)];
    // A sync is one at a time, and others wait for it.
    if (!is_granted && file.in_kernel >= options.file_depth && request.kind != Request::Kind::fdatasync) {
      file.waiting.push(request);
      continue;
    }
    file.in_kernel -= is_granted ? 1 : 0;  // its place was kept for it
    --asked_for;
    ++in_kernel;
    ++file.in_kernel;
    prepare(request);
  }
  while (io_uring_sq_ready(&ring) > 0) {
    const int result = io_uring_submit_and_get_events(&ring);
    if (result == -EINTR) continue;
    if (result == -EAGAIN || result == -EBUSY) return reactor.at_end_of_turn(*this);  // the kernel is short of memory
    assert(result >= 0);
  }
  reap();
}

void IoUring::Impl::left_kernel(const Request& request) {
  File& file = files[static_cast<std::size_t>(request.file)];
  // Who waits has the place before anybody who comes meanwhile.
  Request* const next = file.in_kernel <= options.file_depth ? file.waiting.pop() : nullptr;
  next != nullptr ? granted.push(*next) : void(--file.in_kernel);
}

bool IoUring::Impl::reap() {
  struct Ended {
    Request* request;
    int result;
  };
  std::array<io_uring_cqe*, 64> entries;
  std::array<Ended, 64> ended;
  bool any = false;
  for (std::size_t seen = 0; seen < kEndsInATurn;) {  // bounded, so that the rest of the turn gets its time
    const unsigned count = io_uring_peek_batch_cqe(&ring, entries.data(), static_cast<unsigned>(entries.size()));
    if (count == 0) break;
    for (unsigned i = 0; i < count; ++i) {
      ended[i] = {static_cast<Request*>(io_uring_cqe_get_data(entries[i])), entries[i]->res};
    }
    io_uring_cq_advance(&ring, count);
    in_kernel -= count;
    seen += count;
    any = true;
    for (unsigned i = 0; i < count; ++i) left_kernel(*ended[i].request);
    for (unsigned i = 0; i < count; ++i) ended[i].request->done(*ended[i].request, ended[i].result);
  }
  const bool asks = pending.first != nullptr || granted.first != nullptr;
  if (asks && in_kernel < options.depth) reactor.at_end_of_turn(*this);
  return any;
}

bool IoUring::Impl::poll() { return in_kernel > 0 && reap(); }

bool IoUring::Impl::prepare_to_sleep() {
  if (in_kernel == 0) return true;
  io_uring_cq_eventfd_toggle(&ring, true);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const unsigned flags = __atomic_load_n(ring.sq.kflags, __ATOMIC_RELAXED);
  return io_uring_cq_ready(&ring) == 0 && (flags & IORING_SQ_TASKRUN) == 0;
}

void IoUring::Impl::woke_up() { io_uring_cq_eventfd_toggle(&ring, false); }

IoUring::IoUring(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
IoUring::~IoUring() = default;

Result<std::unique_ptr<IoUring>> IoUring::create(Reactor& reactor, IoUringOptions options) {
  auto impl = std::make_unique<Impl>(reactor, options);
  if (auto opened = impl->open(); !opened) return std::unexpected(opened.error());
  return std::unique_ptr<IoUring>(new IoUring(std::move(impl)));
}

Reactor& IoUring::reactor() const { return impl_->reactor; }
void IoUring::submit(Request& request) { impl_->push(request); }
std::size_t IoUring::in_flight() const { return impl_->in_kernel + impl_->asked_for; }
std::span<const std::byte> IoUring::zeros() const { return {impl_->zeros, kZeros}; }
bool IoUring::has_fixed_buffers() const { return !impl_->arena.empty(); }

Result<int> IoUring::register_file(int descriptor, bool claims) {
  if (impl_->free_files.empty()) {
    return fail(Errc::resource_exhausted,
                "One reactor holds at most " + std::to_string(kMaxFiles) + " open stores. Detach some volumes.");
  }
  const int file = impl_->free_files.back();
  const bool is_plain = claims && impl_->options.lets_go_late;
  const int result =
      is_plain ? 1 : io_uring_register_files_update(&impl_->ring, static_cast<unsigned>(file), &descriptor, 1);
  if (result != 1) return fail(Errc::io_error, "io_uring refused the file (" + reason(result) + ").");
  impl_->free_files.pop_back();
  impl_->files[static_cast<std::size_t>(file)].descriptor = descriptor;
  impl_->files[static_cast<std::size_t>(file)].is_plain = is_plain;
  return file;
}

void IoUring::unregister_file(int file) {
  impl_->files[static_cast<std::size_t>(file)].descriptor = -1;
  if (std::exchange(impl_->files[static_cast<std::size_t>(file)].is_plain, false))
    return impl_->free_files.push_back(file);
  int none = -1;
  // Refused when the reactor's thread is gone already: the ring's end lets go of the file then.
  if (io_uring_register_files_update(&impl_->ring, static_cast<unsigned>(file), &none, 1) == 1) {
    impl_->free_files.push_back(file);
  }
}

void IoUring::unlock_idle_files() {
  std::array<io_uring_cqe*, 64> ended;
  std::size_t in_kernel = impl_->in_kernel;
  const auto limit = std::chrono::steady_clock::now() + kLastMoment;
  while (in_kernel > 0 && std::chrono::steady_clock::now() < limit) {
    const unsigned count = io_uring_peek_batch_cqe(&impl_->ring, ended.data(), static_cast<unsigned>(ended.size()));
    for (unsigned i = 0; i < count; ++i)
      --impl_->files[static_cast<std::size_t>(static_cast<Request*>(io_uring_cqe_get_data(ended[i]))->file)].in_kernel;
    io_uring_cq_advance(&impl_->ring, count);
    in_kernel -= count;
    if (count == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  for (const Impl::File& file : impl_->files)
    if (file.descriptor >= 0 && file.in_kernel == 0) ::flock(file.descriptor, LOCK_UN);
}

}  // namespace lockstep::engine
