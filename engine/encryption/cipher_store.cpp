#include "engine/encryption/cipher_store.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace lockstep::engine {
namespace {
constexpr std::size_t kLastResortBlocks = 16;  // 64 KiB
}  // namespace

struct CipherStore::Operation {
  CipherStore* store = nullptr;
  Operation* next = nullptr;
  std::uint64_t offset = 0;
  std::span<std::byte> into;        // of a read
  std::span<const std::byte> from;  // of a write
  std::size_t written = 0;          // bytes of it, or under way
  Durability durability{};
  Buffer bounce;
  IoCallback done;
};

CipherStore::CipherStore(Store& inner, BufferPool& buffers, const VolumeKey& key, SaveKey save)
    : inner_(inner),
      buffers_(buffers),
      cipher_(key, inner.info().block_size),
      save_(std::move(save)),
      last_resort_(kLastResortBlocks) {}

CipherStore::~CipherStore() { assert(writing_ == 0 && first_waiting_ == nullptr); }

CipherStore::Operation& CipherStore::take(std::uint64_t offset, IoCallback done) {
  if (free_ == nullptr) {
    free_ = operations_.emplace_back(std::make_unique<Operation>()).get();
    free_->store = this;
  }
  Operation& op = *free_;
  free_ = std::exchange(op.next, nullptr);
  op.offset = offset;
  op.done = std::move(done);
  return op;
}

void CipherStore::release(Operation& op) {
  op.bounce.reset();
  op.next = free_;
  free_ = &op;
}

/// Reads nothing, for the sake of the callback: none runs from inside the call that took it.
void CipherStore::refuse(IoCallback done) {
  inner_.read(0, last_resort_.first(0), [done = std::move(done)](std::error_code) mutable { done(Errc::io_error); });
}

void CipherStore::read(std::uint64_t offset, std::span<std::byte> into, IoCallback done) {
  if (failed_) [[unlikely]]
    return refuse(std::move(done));
  Operation& op = take(offset, std::move(done));
  op.into = into;
  inner_.read(offset, into, [&op](std::error_code error) {
    CipherStore& self = *op.store;
    if (self.failed_) error = Errc::io_error;
    if (!error) self.cipher_.decrypt(op.offset, op.into);
    IoCallback finished = std::move(op.done);
    self.release(op);
    finished(error);
  });
}

void CipherStore::write(std::uint64_t offset, std::span<const std::byte> from, Durability durability, IoCallback done) {
  if (failed_) [[unlikely]]
    return refuse(std::move(done));
  const std::uint32_t sector = inner_.info().block_size;
  // What can't be written is refused below, before anything of it is looked at.
  const bool refused = offset % sector != 0 || from.size() % sector != 0;
  if (refused || from.empty()) return inner_.write(offset, from, durability, std::move(done));
  Operation& op = take(offset, std::move(done));
  op.from = from;
  op.written = 0;
  op.durability = durability;
  if (first_waiting_ == nullptr && try_write(op)) return;
  (first_waiting_ ? last_waiting_->next : first_waiting_) = &op;
  last_waiting_ = &op;
}

/// False: it waits for a buffer, which a write under way gives back.
bool CipherStore::try_write(Operation& op) {
  op.bounce = buffers_.allocate(op.from.size());
  if (!op.bounce && writing_ > 0) return false;
  ++writing_;
  write_piece(op, op.bounce ? op.bounce.span() : last_resort_.all());
  return true;
}

void CipherStore::write_piece(Operation& op, std::span<std::byte> bounce) {
  if (failed_) [[unlikely]]  // it waited for a buffer
    return refuse([&op](std::error_code error) { op.store->on_written(op, error); });
  const std::uint64_t at = op.offset + op.written;
  const auto plain = op.from.subspan(op.written, std::min(bounce.size(), op.from.size() - op.written));
  op.written += plain.size();
  cipher_.encrypt(at, plain, bounce.first(plain.size()));
  inner_.write(at, bounce.first(plain.size()), op.durability,
               [&op](std::error_code error) { op.store->on_written(op, error); });
}

void CipherStore::on_written(Operation& op, std::error_code error) {
  if (failed_) error = Errc::io_error;
  if (!error && op.written < op.from.size()) return write_piece(op, last_resort_.all());
  --writing_;
  IoCallback finished = std::move(op.done);
  release(op);
  while (Operation* waiting = first_waiting_) {
    if (!try_write(*waiting)) break;
    first_waiting_ = std::exchange(waiting->next, nullptr);
  }
  finished(error);
}

void CipherStore::write_zeroes(Extent extent, Durability durability, IoCallback done) {
  failed_ ? refuse(std::move(done)) : inner_.write_zeroes(extent, durability, std::move(done));
}
void CipherStore::discard(Extent extent, Durability durability, IoCallback done) {
  failed_ ? refuse(std::move(done)) : inner_.discard(extent, durability, std::move(done));
}
void CipherStore::flush(IoCallback done) { failed_ ? refuse(std::move(done)) : inner_.flush(std::move(done)); }
void CipherStore::reserve(Extent extent, IoCallback done) {
  failed_ ? refuse(std::move(done)) : inner_.reserve(extent, std::move(done));
}
void CipherStore::next_run(std::uint64_t offset, RunCallback done) {
  if (!failed_) return inner_.next_run(offset, std::move(done));
  refuse([done = std::move(done)](std::error_code error) mutable { done(std::unexpected(error)); });
}

void CipherStore::renew_key(IoCallback done) {
  if (failed_) return refuse(std::move(done));
  auto made = VolumeKey::make();
  if (!made) return refuse(std::move(done));
  auto key = std::make_unique<VolumeKey>(*made);
  const VolumeKey& kept = *key;
  auto replace = [this, key = std::move(key), done = std::move(done)](std::error_code error) mutable {
    failed_ |= error && save_;
    if (!error) cipher_ = SectorCipher(*key, inner_.info().block_size);
    done(error);
  };
  // What is nowhere kept is replaced with the next callback of the store.
  save_ ? save_(kept, std::move(replace)) : inner_.flush(std::move(replace));
}

}  // namespace lockstep::engine
