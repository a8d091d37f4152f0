#include "engine/stores/memory_store.hpp"

#include <cstring>
#include <utility>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

namespace lockstep::engine {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kGiveBackFrom = 64 << 10;  // bytes: below, clearing memory is cheaper than giving it back

}  // namespace

struct MemoryStore::Impl final : TurnHook {
  struct Ended {
    IoCallback done;
    std::error_code result;
  };

  Impl(Reactor& r, StoreInfo i, std::byte* m) : reactor(r), info(std::move(i)), memory(m) {}
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
  void zero(Extent extent) const;

  Reactor& reactor;
  StoreInfo info;
  std::byte* memory;
  std::vector<Ended> ended, running;
};

void MemoryStore::Impl::zero(Extent extent) const {
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
  if (!error && !from.empty()) std::memcpy(impl_->memory + offset, from.data(), from.size());
  impl_->end(std::move(done), error);
}

void MemoryStore::write_zeroes(Extent extent, Durability, IoCallback done) {
  const auto error = impl_->check(extent);
  if (!error) impl_->zero(extent);
  impl_->end(std::move(done), error);
}

void MemoryStore::discard(Extent extent, Durability durability, IoCallback done) {
  write_zeroes(extent, durability, std::move(done));
}

void MemoryStore::flush(IoCallback done) { impl_->end(std::move(done), {}); }

}  // namespace lockstep::engine
