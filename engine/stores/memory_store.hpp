#pragma once
// A store in anonymous memory: for benchmarks and for volumes that may be lost with the process.
#include <memory>
#include <string>

#include "engine/runtime/reactor.hpp"
#include "engine/seams/store.hpp"

namespace lockstep::engine {

/// Operations take effect in the call, but large extents are zeroed over several turns; callbacks run together at the
/// end of the reactor's turn.
class MemoryStore final : public Store {
 public:
  /// Address space only; pages come with the first write. Errc::no_space when there is not enough of it.
  [[nodiscard]] static Result<std::unique_ptr<MemoryStore>> create(Reactor& reactor, std::uint64_t size,
                                                                   std::uint32_t block_size = 512,
                                                                   std::string name = "memory");
  ~MemoryStore() override;

  [[nodiscard]] const StoreInfo& info() const override;
  void read(std::uint64_t offset, std::span<std::byte> into, IoCallback done) override;
  void write(std::uint64_t offset, std::span<const std::byte> from, Durability durability, IoCallback done) override;
  void write_zeroes(Extent extent, Durability durability, IoCallback done) override;
  void discard(Extent extent, Durability durability, IoCallback done) override;
  void flush(IoCallback done) override;
  void next_run(std::uint64_t offset, RunCallback done) override;

 private:
  struct Impl;
  explicit MemoryStore(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::engine
