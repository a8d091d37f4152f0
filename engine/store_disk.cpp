#include "engine/store_disk.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <optional>
#include <utility>

namespace lockstep::engine {

struct StoreDisk::Operation {
  StoreDisk* disk = nullptr;
  DiskRequest* request = nullptr;
  RangeLock::Node lock;
  Buffer bounce;
  std::uint64_t done = 0;  // bytes of the extent
  Operation* next_free = nullptr;
};

namespace {

bool takes_lock(DiskOpcode opcode) {
  return (opcode < DiskOpcode::change_state && opcode != DiskOpcode::flush) || opcode == DiskOpcode::renew_key;
}
bool on_state(DiskOpcode opcode) { return opcode >= DiskOpcode::change_state && opcode <= DiskOpcode::check_access; }

LockMode lock_mode(DiskOpcode opcode) {
  return opcode == DiskOpcode::read || opcode == DiskOpcode::verify ? LockMode::shared : LockMode::exclusive;
}

/// Bytes of `data` that the opcode needs; the submitter's promise, not the initiator's.
std::uint64_t data_needed(const DiskRequest& request, std::uint32_t block_size) {
  switch (request.opcode) {
    case DiskOpcode::read:
    case DiskOpcode::write:
    case DiskOpcode::verify:
      return request.extent.length;
    case DiskOpcode::compare_and_write:
      return 2 * request.extent.length;
    case DiskOpcode::write_same:
      return block_size;
    case DiskOpcode::find_run:
      return kRunSize;
    case DiskOpcode::write_zeroes:
    case DiskOpcode::unmap:
    case DiskOpcode::flush:
    case DiskOpcode::change_state:
    case DiskOpcode::read_state:
    case DiskOpcode::check_access:
    case DiskOpcode::renew_key:
      break;
  }
  return 0;
}

std::error_code check(const DiskRequest& request, const DiskInfo& info) {
  if (!request.extent.fits(info.size)) return Errc::out_of_range;
  if (request.extent.offset % info.block_size != 0 || request.extent.length % info.block_size != 0) {
    return Errc::misaligned;
  }
  if (request.opcode == DiskOpcode::renew_key && !info.encrypted) return Errc::refused;
  return {};
}

/// The first byte that differs, or nothing.
std::optional<std::size_t> first_difference(std::span<const std::byte> a, std::span<const std::byte> b) {
  assert(a.size() == b.size());
  if (std::memcmp(a.data(), b.data(), a.size()) == 0) return std::nullopt;
  return static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

}  // namespace

StoreDisk::StoreDisk(Store& store, BufferPool& buffers, DiskInfo info)
    : store_(store), buffers_(buffers), info_(std::move(info)) {
  assert(store_.info().size >= info_.size && info_.block_size % store_.info().block_size == 0);
  assert(info_.encrypted == store_.encrypts());
}

StoreDisk::~StoreDisk() { assert(in_flight_ == 0); }

StoreDisk::Operation* StoreDisk::take_operation() {
  if (free_ == nullptr) {
    if (operations_.size() == kMaxOperations) return nullptr;
    operations_.push_back(std::make_unique<Operation>());
    operations_.back()->disk = this;
    free_ = operations_.back().get();
  }
  Operation* op = free_;
  free_ = op->next_free;
  op->next_free = nullptr;
  op->done = 0;
  ++in_flight_;
  return op;
}

void StoreDisk::submit(DiskRequest& request) {
  assert(request.data.size() >= data_needed(request, info_.block_size));
  const auto refuse = [&](std::error_code why) {
    request.status = why;
    request.done(request);
  };
  if (failed_) return refuse(Errc::not_serving);
  if (change_) [[unlikely]]
    return hold(request);
  if (const auto error = unit_state_.check(request)) [[unlikely]]
    return refuse(error);
  if (on_state(request.opcode)) {
    if (request.opcode == DiskOpcode::change_state) return change_state(request);
    return refuse(request.opcode == DiskOpcode::read_state ? unit_state_.read(request) : std::error_code{});
  }
  if (const auto error = check(request, info_)) return refuse(error);
  if (request.opcode != DiskOpcode::flush && request.extent.empty()) return refuse({});
  Operation* op = take_operation();
  if (op == nullptr) return refuse(Errc::resource_exhausted);
  op->request = &request;
  if (takes_lock(request.opcode)) {
    op->lock.owner = op;
    op->lock.granted = [](RangeLock::Node& node) {
      auto& granted = *static_cast<Operation*>(node.owner);
      granted.disk->start(granted);
    };
    if (!locks_.acquire(op->lock, request.extent, lock_mode(request.opcode))) return;
  }
  start(*op);
}

Durability StoreDisk::durability(const DiskRequest& request) const {
  return request.fua || !info_.write_cache ? Durability::durable : Durability::cached;
}

void StoreDisk::start(Operation& op) {
  DiskRequest& r = *op.request;
  const auto over = [&op](std::error_code error) { op.disk->end(op, error); };
  switch (r.opcode) {
    case DiskOpcode::read:
      return store_.read(r.extent.offset, r.data.first(r.extent.length), over);
    case DiskOpcode::write:
      return store_.write(r.extent.offset, r.data.first(r.extent.length), durability(r), over);
    case DiskOpcode::write_zeroes:
      if (!r.may_unmap || !info_.thin) return store_.write_zeroes(r.extent, durability(r), over);
      [[fallthrough]];
    case DiskOpcode::unmap:
      return store_.discard(r.extent, durability(r), over);
    case DiskOpcode::write_same:
      return write_same(op);
    case DiskOpcode::compare_and_write:
      return compare_and_write(op);
    case DiskOpcode::verify:
      if (take_bounce(op, std::min<std::uint64_t>(kBounce, r.extent.length))) verify_piece(op);
      return;
    case DiskOpcode::flush:
      return flush(op);
    case DiskOpcode::find_run:
      return find_run(op);
    case DiskOpcode::renew_key:
      return store_.renew_key(over);
    case DiskOpcode::change_state:
    case DiskOpcode::read_state:
    case DiskOpcode::check_access:
      break;
  }
  assert(!"no operation on blocks");
}

void StoreDisk::end(Operation& op, std::error_code result) {
  DiskRequest& request = *op.request;
  if (takes_lock(request.opcode)) locks_.release(op.lock);
  op.bounce.reset();
  op.next_free = free_;
  free_ = &op;
  --in_flight_;
  request.status = result;
  request.done(request);
  if (change_ && in_flight_ == 0) [[unlikely]]
    install_change();
}

void StoreDisk::hold(DiskRequest& request) {
  request.next = nullptr;
  (first_held_ ? last_held_->next : first_held_) = &request;
  last_held_ = &request;
}

void StoreDisk::change_state(DiskRequest& request) {
  auto outcome = unit_state_.step(request);
  if (outcome && outcome->changed) {
    change_ = Change{&request, std::move(*outcome)};
    if (in_flight_ == 0) install_change();
    return;
  }
  request.status = outcome ? scsi::LuStateHolder::answer(request, outcome->answer) : outcome.error().code;
  request.done(request);
}

void StoreDisk::install_change() {
  Change change = std::move(*change_);
  change_.reset();
  change.request->status = scsi::LuStateHolder::answer(*change.request, change.outcome.answer);
  unit_state_.install(std::move(change.outcome));
  DiskRequest* held = std::exchange(first_held_, nullptr);
  change.request->done(*change.request);
  while (held) {
    DiskRequest& request = *std::exchange(held, held->next);
    submit(request);
  }
}

bool StoreDisk::take_bounce(Operation& op, std::size_t bytes) {
  op.bounce = buffers_.allocate(bytes);
  if (op.bounce) return true;
  end(op, Errc::resource_exhausted);
  return false;
}

void StoreDisk::write_same(Operation& op) {
  const DiskRequest& r = *op.request;
  if (!take_bounce(op, std::min<std::uint64_t>(kBounce, r.extent.length))) return;
  const auto bounce = op.bounce.span();
  for (std::size_t at = 0; at < bounce.size(); at += info_.block_size) {
    std::memcpy(bounce.data() + at, r.data.data(), info_.block_size);
  }
  write_same_piece(op);
}

void StoreDisk::write_same_piece(Operation& op) {
  const DiskRequest& r = *op.request;
  const std::uint64_t left = r.extent.length - op.done;
  if (left == 0) return end(op, {});
  const auto piece = op.bounce.span().first(std::min<std::uint64_t>(left, op.bounce.size()));
  const std::uint64_t at = r.extent.offset + op.done;
  op.done += piece.size();
  store_.write(at, piece, durability(r), [&op](std::error_code error) {
    if (error) return op.disk->end(op, error);
    op.disk->write_same_piece(op);
  });
}

void StoreDisk::compare_and_write(Operation& op) {
  DiskRequest& r = *op.request;
  if (!take_bounce(op, r.extent.length)) return;
  store_.read(r.extent.offset, op.bounce.span(), [&op](std::error_code error) {
    StoreDisk& disk = *op.disk;
    DiskRequest& request = *op.request;
    const std::uint64_t length = request.extent.length;
    if (error) return disk.end(op, error);
    if (const auto at = first_difference(op.bounce.span(), request.data.first(length))) {
      request.miscompare_offset = *at;
      return disk.end(op, Errc::miscompare);
    }
    disk.store_.write(request.extent.offset, request.data.subspan(length, length), disk.durability(request),
                      [&op](std::error_code written) { op.disk->end(op, written); });
  });
}

void StoreDisk::verify_piece(Operation& op) {
  const DiskRequest& r = *op.request;
  const std::uint64_t left = r.extent.length - op.done;
  if (left == 0) return end(op, {});
  const auto piece = op.bounce.span().first(std::min<std::uint64_t>(left, op.bounce.size()));
  store_.read(r.extent.offset + op.done, piece, [&op, size = piece.size()](std::error_code error) {
    DiskRequest& request = *op.request;
    if (error) return op.disk->end(op, error);
    if (const auto at = first_difference(op.bounce.span().first(size), request.data.subspan(op.done, size))) {
      request.miscompare_offset = op.done + *at;
      return op.disk->end(op, Errc::miscompare);
    }
    op.done += size;
    op.disk->verify_piece(op);
  });
}

/// Thick volumes have no holes, whatever their store can tell of blocks that were never written.
void StoreDisk::find_run(Operation& op) {
  if (!info_.thin || !store_.info().knows_holes) return answer_run(op, StoreRun{op.request->extent.length, false});
  store_.next_run(op.request->extent.offset,
                  [&op](const IoResult<StoreRun>& found) { op.disk->answer_run(op, found); });
}

void StoreDisk::answer_run(Operation& op, const IoResult<StoreRun>& found) {
  if (!found) return end(op, found.error());
  DiskRequest& request = *op.request;
  const RunBytes run = encode(Run{std::min(found->length, request.extent.length), found->hole});
  std::ranges::copy(run, request.data.begin());
  request.transferred = run.size();
  end(op, {});
}

void StoreDisk::flush(Operation& op) {
  store_.flush([&op](std::error_code error) {
    op.disk->failed_ |= bool(error);
    op.disk->end(op, error);
  });
}

}  // namespace lockstep::engine
