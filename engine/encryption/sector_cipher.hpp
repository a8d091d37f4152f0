#pragma once
// AES-256-XTS over whole sectors (IEEE 1619): the sector's number is the tweak, so that equal sectors look different
// and each may be read and written by itself. Nothing is added to them: what is changed on the disk is read as noise.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "engine/encryption/keys.hpp"

namespace lockstep::engine {

class SectorCipher {
 public:
  /// `sector` in bytes, at least 16.
  SectorCipher(const VolumeKey& key, std::size_t sector);
  ~SectorCipher();
  SectorCipher(SectorCipher&&) noexcept;
  SectorCipher& operator=(SectorCipher&&) noexcept;

  /// `offset` (bytes) and the lengths are multiples of the sector; `into` is as long as `from`.
  void encrypt(std::uint64_t offset, std::span<const std::byte> from, std::span<std::byte> into);
  /// In place. A sector of zeros stays one: it is a hole, for no sector encrypts to zeros but with a chance of one in
  /// two to the power of its bits.
  void decrypt(std::uint64_t offset, std::span<std::byte> bytes);

 private:
  struct Contexts;
  std::unique_ptr<Contexts> contexts_;
  std::size_t sector_;
};

}  // namespace lockstep::engine
