#include "engine/stores/memory_store.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

namespace lockstep::engine {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kGiveBackFrom = 64 << 10;    // bytes: below, clearing memory is cheaper than giving it back
constexpr std::uint64_t kGiveBackAtOnce = 64 << 20;  // bytes: milliseconds of the reactor's turn

}  // namespace

struct MemoryStore::Impl final : TurnHook {
  struct Ended {
    IoCallback done;
    std::error_code result;
  };

  /// An extent that is being zeroed, a stretch a turn.
  struct Zeroing {
    ReactorTask task;
    Impl* impl = nullptr;
    Extent left;
    IoCallback done;
  };

  Impl(Reactor& r, StoreInfo i, std::byte* m)
      : reactor(r), info(std::move(i)), memory(m), kept((info.size / kPage + 64) / 64) {}
  ~Impl() override { munmap(memory, info.size); }

  [[nodiscard]] std::error_code check(Extent extent) const {
    if (!extent.fits(info.size)) return Errc::out_of_range;
    if (extent.offset % info.block_size != 0 || extent.length % info.block_size != 0) return Errc::misaligned;
    return {};
  }
  void end(IoCallback done, std::error_code result) {
    if (ended.empty()) reactor.at_end_of_turn(*this);
    ended.push_back({std::move(done), result});
  }
  void end_of_turn() override {
    std::swap(ended, running);
    for (Ended& e : running) std::exchange(e.done, nullptr)(e.result);
    running.clear();
  }
  void zero(Extent extent);
  void zero_next(std::unique_ptr<Zeroing> zeroing);
  void note(std::uint64_t first_page, std::uint64_t end_page, bool is_kept);
  [[nodiscard]] StoreRun run_at(std::uint64_t offset) const;

  Reactor& reactor;
  StoreInfo info;
  std::byte* memory;
  std::vector<std::uint64_t> kept;  // a bit for each page that may hold something
  std::vector<Ended> ended, running;
};

void MemoryStore::Impl::note(std::uint64_t first_page, std::uint64_t end_page, bool is_kept) {
  for (std::uint64_t page = first_page; page < end_page;) {
    const std::uint64_t in_word = std::min(64 - page % 64, end_page - page);
    const std::uint64_t bits = (in_word == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << in_word) - 1) << (page % 64);
    is_kept ? kept[page / 64] |= bits : kept[page / 64] &= ~bits;
    page += in_word;
  }
}

StoreRun MemoryStore::Impl::run_at(std::uint64_t offset) const {
  const std::uint64_t pages = (info.size + kPage - 1) / kPage;
  std::uint64_t page = offset / kPage;
  const bool is_kept = kept[page / 64] >> (page % 64) & 1;
  const std::uint64_t same = is_kept ? ~std::uint64_t{0} : 0;
  while (page < pages) {
    const std::uint64_t other = (kept[page / 64] ^ same) >> (page % 64);
    if (other != 0) {
      page += static_cast<unsigned>(std::countr_zero(other));
      break;
    }
    page = (page / 64 + 1) * 64;
  }
  return {std::min(page * kPage, info.size) - offset, !is_kept};
}

void MemoryStore::Impl::zero_next(std::unique_ptr<Zeroing> zeroing) {
  Extent& left = zeroing->left;
  const std::uint64_t stretch = std::min(left.length, kGiveBackAtOnce - left.offset % kPage);
  zero({left.offset, stretch});
  left = {left.offset + stretch, left.length - stretch};
  if (left.empty()) return end(std::move(zeroing->done), {});
  Zeroing& rest = *zeroing.release();
  rest.impl = this;
  rest.task.owner = &rest;
  rest.task.run = [](ReactorTask& task) {
    std::unique_ptr<Zeroing> self(static_cast<Zeroing*>(task.owner));
    Impl& impl = *self->impl;
    impl.zero_next(std::move(self));
  };
  reactor.post(rest.task);
}

void MemoryStore::Impl::zero(Extent extent) {
  const std::uint64_t first_whole = (extent.offset + kPage - 1) / kPage;
  const std::uint64_t end_whole = extent.end() == info.size ? (extent.end() + kPage - 1) / kPage : extent.end() / kPage;
  note(first_whole, std::max(first_whole, end_whole), false);
  if (extent.length < kGiveBackFrom) return void(std::memset(memory + extent.offset, 0, extent.length));
  const std::uint64_t begin = (extent.offset + kPage - 1) / kPage * kPage, end = extent.end() / kPage * kPage;
  std::memset(memory + extent.offset, 0, begin - extent.offset);
  std::memset(memory + end, 0, extent.end() - end);
  madvise(memory + begin, end - begin, MADV_DONTNEED);  // private and anonymous: comes back as zeros
}

MemoryStore::MemoryStore(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
MemoryStore::~MemoryStore() = default;

Result<std::unique_ptr<MemoryStore>> MemoryStore::create(Reactor& reactor, std::uint64_t size, std::uint32_t block_size,
                                                         std::string name) {
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    return fail(Errc::no_space, "There is no memory for a store of " + std::to_string(size) + " bytes.");
  }
  StoreInfo info;
  info.size = size;
  info.block_size = block_size;
  info.discard_granularity = kPage;
  info.reads_zero_when_new = true;
  info.knows_holes = true;
  info.name = std::move(name);
  auto impl = std::make_unique<Impl>(reactor, std::move(info), static_cast<std::byte*>(memory));
  return std::unique_ptr<MemoryStore>(new MemoryStore(std::move(impl)));
}

const StoreInfo& MemoryStore::info() const { return impl_->info; }

void MemoryStore::read(std::uint64_t offset, std::span<std::byte> into, IoCallback done) {
  const auto error = impl_->check({offset, into.size()});
  if (!error && !into.empty()) std::memcpy(into.data(), impl_->memory + offset, into.size());
  impl_->end(std::move(done), error);
}

void MemoryStore::write(std::uint64_t offset, std::span<const std::byte> from, Durability, IoCallback done) {
  const auto error = impl_->check({offset, from.size()});
  if (!error && !from.empty()) {
    impl_->note(offset / kPage, (offset + from.size() + kPage - 1) / kPage, true);
    std::memcpy(impl_->memory + offset, from.data(), from.size());
  }
  impl_->end(std::move(done), error);
}

void MemoryStore::write_zeroes(Extent extent, Durability, IoCallback done) {
  const auto error = impl_->check(extent);
  if (error || extent.empty()) return impl_->end(std::move(done), error);
  auto zeroing = std::make_unique<Impl::Zeroing>();
  zeroing->left = extent;
  zeroing->done = std::move(done);
  impl_->zero_next(std::move(zeroing));
}

void MemoryStore::discard(Extent extent, Durability durability, IoCallback done) {
  write_zeroes(extent, durability, std::move(done));
}

void MemoryStore::next_run(std::uint64_t offset, RunCallback done) {
  const auto error = impl_->check({offset, impl_->info.block_size});
  const IoResult<StoreRun> answer = error ? IoResult<StoreRun>(std::unexpected(error)) : impl_->run_at(offset);
  impl_->end([answer, done = std::move(done)](std::error_code) mutable { done(answer); }, {});
}

void MemoryStore::flush(IoCallback done) { impl_->end(std::move(done), {}); }

}  // namespace lockstep::engine
