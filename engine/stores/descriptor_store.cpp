#include "engine/stores/descriptor_store.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/uio.h>

#include "engine/stores/file_space.hpp"

namespace lockstep::engine {
namespace {

constexpr std::size_t kBounceAlignment = 4096;
constexpr std::uint64_t kWriteRatherThanAllocate = 256 << 10;  // bytes: below, writing zeros beats an fallocate
constexpr std::uint64_t kCountFirst = 2 << 20;                 // bytes: more is reserved only if it seems to be there

struct FreeBounce {
  void operator()(std::byte* p) const { ::operator delete (p, std::align_val_t{kBounceAlignment}); }
};

/// A part of an extent to be zeroed: written when `mode` is 0, otherwise by fallocate.
struct Piece {
  Extent extent;
  int mode = 0;
};

constexpr int kPunch = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
constexpr int kZeroRange = FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE;
constexpr int kReserve = FALLOC_FL_KEEP_SIZE;

constexpr Duration kWithoutThread = std::chrono::milliseconds(10);

/// The kernel has not begun it. It had no thread for what can't be begun without waiting (-ECANCELED): all that waits
/// for one ends with that.
bool was_not_begun(int result) { return result == -EINTR || result == -EAGAIN || result == -ECANCELED; }

/// Carried out again, it does no harm. One that syncs is not: by the same error Linux tells, once, what it lost.
bool may_be_tried_again(const IoUring::Request& request, int result) {
  using Kind = IoUring::Request::Kind;
  const bool syncs = request.kind == Kind::fdatasync || (request.kind == Kind::write && request.rw_flags != 0);
  return was_not_begun(result) || (result == -ENOMEM && !syncs);
}

std::error_code store_error(int negative_errno) {
  switch (-negative_errno) {
    case ENOSPC:
    case EDQUOT:
      return Errc::no_space;
    case EINVAL:
      return Errc::misaligned;
    default:
      return Errc::io_error;
  }
}

}  // namespace

struct DescriptorStore::Operation {
  IoUring::Request request;
  ReactorTask later;
  DescriptorStore* store = nullptr;
  Operation* next = nullptr;
  IoCallback done;
  Durability durability{};
  unsigned losses = 0;  // when it began
  std::error_code result;
  std::span<std::byte> user;  // a read into misaligned memory ends there
  std::unique_ptr<std::byte, FreeBounce> bounce;
  std::uint64_t left = 0;  // bytes of the transfer
  bool zeros = false;      // the data is the ring's zeros, at every offset
  std::array<Piece, 3> pieces;
  std::size_t piece = 0, piece_count = 0;
};

/// A question to the file system about holes: asked on the store's helper thread, answered on the reactor.
struct DescriptorStore::Search {
  HelperThread::Task there;
  ReactorTask back;
  DescriptorStore* store = nullptr;
  // What the helper needs to know: the store itself is the reactor's.
  int descriptor = -1;
  std::uint64_t at = 0, end = 0;  ///< in the descriptor
  std::uint32_t block = 0;
  RunCallback done;
  IoResult<StoreRun> answer;
};

/// A question about room: asked on the store's helper thread, answered on the reactor.
struct DescriptorStore::Count {
  HelperThread::Task there;
  ReactorTask back;
  Operation* op = nullptr;
  int descriptor = -1;
  Extent extent;  ///< in the descriptor
  bool fits = false;
};

DescriptorStore::DescriptorStore(IoUring& ring, StoreInfo info, DescriptorStoreOptions options, int file)
    : ring_(ring), info_(std::move(info)), options_(options), file_(file) {
  sync_.store = this;
}

Result<std::unique_ptr<DescriptorStore>> DescriptorStore::create(IoUring& ring, StoreInfo info,
                                                                 DescriptorStoreOptions options) {
  const auto file = ring.register_file(options.descriptor, options.claims);
  if (!file) return std::unexpected(file.error());
  return std::unique_ptr<DescriptorStore>(new DescriptorStore(ring, std::move(info), options, *file));
}

DescriptorStore::~DescriptorStore() {
  assert(active_ == 0);
  ring_.unregister_file(file_);
}

DescriptorStore::Operation& DescriptorStore::start(Durability durability, IoCallback done) {
  if (free_ == nullptr) {
    free_ = operations_.emplace_back(std::make_unique<Operation>()).get();
    free_->store = this;
    free_->request.owner = free_;
    free_->request.file = file_;
  }
  Operation& op = *free_;
  free_ = op.next;
  op.done = std::move(done);
  op.durability = durability;
  op.losses = losses_;
  op.zeros = false;
  op.piece = op.piece_count = 0;
  op.request.rw_flags = 0;
  ++active_;
  return op;
}

std::error_code DescriptorStore::check(std::uint64_t offset, std::uint64_t length) const {
  if (!Extent{offset, length}.fits(info_.size)) return Errc::out_of_range;
  if (offset % info_.block_size != 0 || length % info_.block_size != 0) return Errc::misaligned;
  return {};
}

/// Callbacks never run inside the call that took them.
void DescriptorStore::end_later(Operation& op, std::error_code result) {
  op.result = result;
  op.later.owner = &op;
  op.later.run = [](ReactorTask& task) {
    Operation& self = *static_cast<Operation*>(task.owner);
    self.store->finish(self, self.result);
  };
  ring_.reactor().post(op.later);
}

/// What was on its way when a sync failed may be lost with that, whatever its own sync says.
void DescriptorStore::finish(Operation& op, std::error_code result) {
  if (!result && op.durability == Durability::durable && op.losses != losses_) result = Errc::io_error;
  IoCallback done = std::move(op.done);
  op.bounce.reset();
  op.user = {};
  op.next = free_;
  free_ = &op;
  --active_;
  done(result);
}

void DescriptorStore::read(std::uint64_t offset, std::span<std::byte> into, IoCallback done) {
  Operation& op = start(Durability::cached, std::move(done));
  if (const auto error = check(offset, into.size()); error || into.empty()) return end_later(op, error);
  op.request.kind = IoUring::Request::Kind::read;
  op.request.offset = options_.base + offset;
  op.left = into.size();
  op.request.data = into.data();
  if (reinterpret_cast<std::uintptr_t>(into.data()) % options_.memory_alignment != 0) {
    op.bounce.reset(static_cast<std::byte*>(::operator new (into.size(), std::align_val_t{kBounceAlignment})));
    op.request.data = op.bounce.get();
    op.user = into;
  }
  submit(op);
}

void DescriptorStore::write(std::uint64_t offset, std::span<const std::byte> from, Durability durability,
                            IoCallback done) {
  Operation& op = start(durability, std::move(done));
  if (failed_) return end_later(op, Errc::io_error);
  if (const auto error = check(offset, from.size())) return end_later(op, error);
  if (from.empty()) return end_later(op, {});
  op.request.kind = IoUring::Request::Kind::write;
  op.request.offset = options_.base + offset;
  op.left = from.size();
  op.request.data = const_cast<std::byte*>(from.data());
  if (durability == Durability::durable && options_.sync_each) op.request.rw_flags = RWF_DSYNC;
  if (reinterpret_cast<std::uintptr_t>(from.data()) % options_.memory_alignment != 0) {
    op.bounce.reset(static_cast<std::byte*>(::operator new (from.size(), std::align_val_t{kBounceAlignment})));
    std::memcpy(op.bounce.get(), from.data(), from.size());
    op.request.data = op.bounce.get();
  }
  submit(op);
}

void DescriptorStore::write_zeroes(Extent extent, Durability durability, IoCallback done) {
  zero(extent, extent.length < kWriteRatherThanAllocate ? 0 : kZeroRange, durability, std::move(done));
}

void DescriptorStore::discard(Extent extent, Durability durability, IoCallback done) {
  if (info_.discard_granularity == 0) return write_zeroes(extent, durability, std::move(done));
  zero(extent, kPunch, durability, std::move(done));
}

/// Whole granules by fallocate in `mode`, the ragged ends by writing; holes in files are punched as they are.
void DescriptorStore::zero(Extent extent, int mode, Durability durability, IoCallback done) {
  Operation& op = start(durability, std::move(done));
  if (failed_) return end_later(op, Errc::io_error);
  if (const auto error = check(extent.offset, extent.length)) return end_later(op, error);
  if (extent.empty()) return end_later(op, {});
  const std::uint64_t granule =
      mode == kPunch ? std::max(info_.discard_granularity, options_.granule) : options_.granule;
  const std::uint64_t begin = options_.base + extent.offset, end = begin + extent.length;
  const std::uint64_t body = std::min(end, (begin + granule - 1) / granule * granule);
  const std::uint64_t body_end = std::max(body, end / granule * granule);
  const auto add = [&](std::uint64_t from, std::uint64_t to, int how) {
    if (from < to) op.pieces[op.piece_count++] = {{from, to - from}, how};
  };
  if (mode == kPunch && info_.reserves) {
    add(begin, end, mode);  // zeros written at the ends of a hole could need space; a file system takes none for it
  } else if (mode == 0 || body == body_end) {
    add(begin, end, 0);
  } else {
    add(begin, body, 0);
    add(body, body_end, mode);
    add(body_end, end, 0);
    if (mode == kZeroRange && options_.zeroing_needs_room) {
      return zero_range_if_there_is_room(op, {begin, end - begin});
    }
  }
  next_piece(op);
}

void DescriptorStore::next_piece(Operation& op) {
  if (op.piece == op.piece_count) return op.durability == Durability::durable ? join_sync(op) : finish(op, {});
  const Piece& piece = op.pieces[op.piece];
  op.request.offset = piece.extent.offset;
  op.request.rw_flags = piece.mode;
  op.left = piece.extent.length;
  op.zeros = piece.mode == 0;
  op.request.kind = op.zeros ? IoUring::Request::Kind::write : IoUring::Request::Kind::fallocate;
  submit(op);
}

void DescriptorStore::submit(Operation& op) {
  op.request.length = op.left;
  if (op.zeros) {
    op.request.data = const_cast<std::byte*>(ring_.zeros().data());
    op.request.length = std::min<std::uint64_t>(op.left, ring_.zeros().size());
  }
  if (op.request.kind == IoUring::Request::Kind::fallocate) {
    op.request.done = [](IoUring::Request& request, int result) {
      Operation& self = *static_cast<Operation*>(request.owner);
      self.store->on_allocated(self, result);
    };
  } else {
    op.request.done = [](IoUring::Request& request, int result) {
      Operation& self = *static_cast<Operation*>(request.owner);
      self.store->on_transferred(self, result);
    };
  }
  ring_.submit(op.request);
}

/// At once; where the kernel is short of something, after a while, or this would take the reactor's time.
void DescriptorStore::submit_again(IoUring::Request& request, int result) {
  if (result == -EINTR || result == -EAGAIN) return ring_.submit(request);
  ring_.reactor().call_after(kWithoutThread, [this, &request] { ring_.submit(request); });
}

/// A device that was pulled has no size any more, and refuses writes as if it were full.
std::error_code DescriptorStore::error_of(int negative_errno) const {
  const std::error_code error = store_error(negative_errno);
  if (error != Errc::no_space || !options_.is_device) return error;
  std::uint64_t size = 0;
  const bool is_there = ::ioctl(options_.descriptor, BLKGETSIZE64, &size) == 0 && size >= options_.base + info_.size;
  return is_there ? error : make_error_code(Errc::io_error);
}

void DescriptorStore::on_transferred(Operation& op, int result) {
  if (may_be_tried_again(op.request, result)) return submit_again(op.request, result);
  if (result < 0) return finish(op, error_of(result));
  // What is left after a short transfer goes on at a whole block; none at all means that the file ends here.
  const std::uint64_t got = static_cast<std::uint64_t>(result);
  const std::uint64_t moved = got < op.left ? got / info_.block_size * info_.block_size : got;
  if (moved == 0) return finish(op, Errc::io_error);
  op.left -= moved;
  op.request.offset += moved;
  if (!op.zeros) op.request.data += moved;
  if (op.left > 0) return submit(op);
  if (op.piece_count > 0) return ++op.piece, next_piece(op);
  if (!op.user.empty()) std::memcpy(op.user.data(), op.bounce.get(), op.user.size());
  if (op.durability == Durability::durable && !options_.sync_each) return join_sync(op);
  finish(op, {});
}

/// What a file system cannot do in one way it may do in the next: punch a hole, make a range zero, write zeros.
void DescriptorStore::on_allocated(Operation& op, int result) {
  if (may_be_tried_again(op.request, result)) return submit_again(op.request, result);
  int& mode = op.pieces[op.piece].mode;
  if (result == -EOPNOTSUPP || result == -ENODEV || (result == -EINVAL && mode != 0)) {
    mode = mode == kPunch ? kZeroRange : 0;
    return next_piece(op);
  }
  if (result < 0) return finish(op, error_of(result));
  ++op.piece;
  next_piece(op);
}

/// Blocks that were never written are allocated and read as zeros; the others stay as they are. A file system that runs
/// out in the middle keeps what it had allocated until then: before much of it, it is asked whether all will fit.
void DescriptorStore::reserve(Extent extent, IoCallback done) {
  Operation& op = start(Durability::cached, std::move(done));
  if (failed_) return end_later(op, Errc::io_error);
  if (const auto error = check(extent.offset, extent.length); error || extent.empty()) return end_later(op, error);
  op.request.kind = IoUring::Request::Kind::fallocate;
  op.request.offset = options_.base + extent.offset;
  op.request.length = extent.length;
  op.request.rw_flags = kReserve;
  op.request.done = [](IoUring::Request& request, int result) {
    Operation& self = *static_cast<Operation*>(request.owner);
    self.store->on_reserved(self, result);
  };
  extent.length > kCountFirst ? reserve_if_it_fits(op) : ring_.submit(op.request);
}

/// `unasked`: the answer where nobody could be asked.
void DescriptorStore::count_room(Operation& op, Extent extent, bool unasked, void (*count)(HelperThread::Task&),
                                 void (*counted)(ReactorTask&)) {
  auto* question = new Count;
  question->op = &op;
  question->descriptor = options_.descriptor;
  question->extent = extent;
  question->fits = unasked;
  question->there.owner = question->back.owner = question;
  question->there.run = count;
  question->back.run = counted;
  if (!helper_.submit(question->there)) ring_.reactor().post(question->back);
}

void DescriptorStore::reserve_if_it_fits(Operation& op) {
  count_room(
      op, {op.request.offset, op.request.length}, true,
      [](HelperThread::Task& task) {
        auto& self = *static_cast<Count*>(task.owner);
        self.fits = has_room_for(self.descriptor, self.extent);
        self.op->store->ring_.reactor().post(self.back);
      },
      [](ReactorTask& task) {
        const std::unique_ptr<Count> over(static_cast<Count*>(task.owner));
        DescriptorStore& store = *over->op->store;
        over->fits ? store.ring_.submit(over->op->request) : store.finish(*over->op, Errc::no_space);
      });
}

/// Else zeros are written over it, which needs none.
void DescriptorStore::zero_range_if_there_is_room(Operation& op, Extent extent) {
  count_room(
      op, extent, false,
      [](HelperThread::Task& task) {
        auto& self = *static_cast<Count*>(task.owner);
        self.fits = has_room_to_zero(self.descriptor, self.extent.length);
        self.op->store->ring_.reactor().post(self.back);
      },
      [](ReactorTask& task) {
        const std::unique_ptr<Count> over(static_cast<Count*>(task.owner));
        if (!over->fits) {
          for (Piece& piece : over->op->pieces) piece.mode = 0;
        }
        over->op->store->next_piece(*over->op);
      });
}

/// A file system that can't set space aside finds out when it writes.
void DescriptorStore::on_reserved(Operation& op, int result) {
  if (may_be_tried_again(op.request, result)) return submit_again(op.request, result);
  const bool can_not = result == -EOPNOTSUPP || result == -ENODEV || result == -EINVAL;
  finish(op, result < 0 && !can_not ? error_of(result) : std::error_code{});
}

void DescriptorStore::next_run(std::uint64_t offset, RunCallback done) {
  auto* search = new Search;
  search->store = this;
  search->descriptor = options_.descriptor;
  search->at = options_.base + offset;
  search->end = options_.base + info_.size;
  search->block = info_.block_size;
  search->done = std::move(done);
  search->there.owner = search->back.owner = search;
  ++active_;
  search->back.run = [](ReactorTask& task) {
    const std::unique_ptr<Search> over(static_cast<Search*>(task.owner));
    --over->store->active_;
    over->done(over->answer);
  };
  if (const auto error = check(offset, info_.block_size)) {
    search->answer = std::unexpected(error);
    return ring_.reactor().post(search->back);
  }
  search->there.run = [](HelperThread::Task& task) {
    auto& self = *static_cast<Search*>(task.owner);
    self.answer = seek_run(self.descriptor, self.at, self.end, self.block);
    self.store->ring_.reactor().post(self.back);
  };
  search->answer = std::unexpected(make_error_code(Errc::resource_exhausted));
  if (!helper_.submit(search->there)) ring_.reactor().post(search->back);
}

void DescriptorStore::flush(IoCallback done) {
  Operation& op = start(Durability::durable, std::move(done));
  if (failed_) return end_later(op, Errc::io_error);
  join_sync(op);
}

void DescriptorStore::join_sync(Operation& op) {
  if (failed_ || op.losses != losses_) return finish(op, Errc::io_error);
  op.next = nullptr;
  (sync_.waiting != nullptr ? sync_.last_waiting->next : sync_.waiting) = &op;
  sync_.last_waiting = &op;
  if (!sync_.in_flight) ring_.reactor().at_end_of_turn(sync_);
}

void DescriptorStore::start_sync() {
  if (sync_.in_flight || sync_.waiting == nullptr) return;
  sync_.in_flight = true;
  sync_.current = std::exchange(sync_.waiting, nullptr);
  sync_.request.kind = IoUring::Request::Kind::fdatasync;
  sync_.request.file = file_;
  sync_.request.owner = this;
  sync_.request.done = [](IoUring::Request& request, int result) {
    static_cast<DescriptorStore*>(request.owner)->on_synced(result);
  };
  ring_.submit(sync_.request);
}

void DescriptorStore::on_synced(int result) {
  if (may_be_tried_again(sync_.request, result)) return submit_again(sync_.request, result);
  sync_.in_flight = false;
  failed_ |= result < 0;
  losses_ += result < 0;
  Operation* const synced = std::exchange(sync_.current, nullptr);
  // Another sync would say nothing of what this one lost: Linux tells a write-back error once.
  Operation* const lost = result < 0 ? std::exchange(sync_.waiting, nullptr) : nullptr;
  if (sync_.waiting != nullptr) start_sync();
  finish_all(synced, result < 0 ? store_error(result) : std::error_code{});
  finish_all(lost, Errc::io_error);
}

/// `op` and those that follow it. The store may go with the last.
void DescriptorStore::finish_all(Operation* op, std::error_code result) {
  while (op != nullptr) {
    Operation* const next = op->next;
    op->store->finish(*op, result);
    op = next;
  }
}

}  // namespace lockstep::engine
