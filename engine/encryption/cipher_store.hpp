#pragma once
// A store whose blocks are kept encrypted in another one. What is zeroed, discarded or was never written is zeros there
// and here, so that holes stay holes; everything else looks random there.
//
// A key that could not be saved may be kept all the same. What was written under either key could then be noise to the
// next who opens the store, so it fails for good: every operation gives Errc::io_error until it is opened again, with
// the key that is kept.
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/encryption/sector_cipher.hpp"
#include "engine/metadata/aligned_block.hpp"
#include "engine/runtime/buffer_pool.hpp"
#include "engine/seams/store.hpp"

namespace lockstep::engine {

class CipherStore final : public Store {
 public:
  /// Makes `key` the one that is kept, durably, in place of the one before; calls back later, never at once.
  using SaveKey = Callback<const VolumeKey&, IoCallback>;

  /// `inner` and `buffers` (the reactor's) outlive the store; `save` may be empty: the key is kept nowhere.
  CipherStore(Store& inner, BufferPool& buffers, const VolumeKey& key, SaveKey save);
  ~CipherStore() override;  ///< nothing in flight; does not touch `inner`

  [[nodiscard]] const StoreInfo& info() const override { return inner_.info(); }
  [[nodiscard]] bool encrypts() const override { return true; }
  void read(std::uint64_t offset, std::span<std::byte> into, IoCallback done) override;
  void write(std::uint64_t offset, std::span<const std::byte> from, Durability durability, IoCallback done) override;
  void write_zeroes(Extent extent, Durability durability, IoCallback done) override;
  void discard(Extent extent, Durability durability, IoCallback done) override;
  void flush(IoCallback done) override;
  [[nodiscard]] bool refuses_writes() const override { return inner_.refuses_writes(); }
  void take_writes_again() override { inner_.take_writes_again(); }
  void reserve(Extent extent, IoCallback done) override;
  void next_run(std::uint64_t offset, RunCallback done) override;
  void renew_key(IoCallback done) override;

 private:
  struct Operation;
  Operation& take(std::uint64_t offset, IoCallback done);
  void release(Operation& op);
  void refuse(IoCallback done);
  [[nodiscard]] bool try_write(Operation& op);
  void write_piece(Operation& op, std::span<std::byte> bounce);
  void on_written(Operation& op, std::error_code error);

  Store& inner_;
  BufferPool& buffers_;
  SectorCipher cipher_;
  SaveKey save_;
  layout::Blocks last_resort_;  ///< when the pool has nothing and no write of ours is going to give something back
  bool failed_ = false;         ///< which key is kept is not known
  std::size_t writing_ = 0;
  Operation* first_waiting_ = nullptr;  ///< writes for which there was no buffer
  Operation* last_waiting_ = nullptr;
  std::vector<std::unique_ptr<Operation>> operations_;  ///< all ever made, used again
  Operation* free_ = nullptr;
};

}  // namespace lockstep::engine
