#pragma once
// A linear space of bytes that keeps what was flushed: the seam under replicas and metadata areas.
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "engine/base/extent.hpp"
#include "engine/base/result.hpp"

namespace lockstep::engine {

enum class Durability : std::uint8_t {
  cached,   ///< may be lost with the machine until the next flush() completes
  durable,  ///< on stable storage when the callback runs
};

struct StoreInfo {
  std::uint64_t size = 0;                 ///< bytes
  std::uint32_t block_size = 512;         ///< bytes; every offset, length and buffer address is a multiple of it
  std::uint64_t discard_granularity = 0;  ///< bytes; 0: discard() is write_zeroes()
  bool reads_zero_when_new = false;       ///< nothing but zeroes was there when it was created
  std::string name;                       ///< path, for messages
  bool reserves = false;                  ///< space may run out, and reserve() sets some aside
  bool knows_holes = false;               ///< next_run() tells what takes space
};

/// Bytes of one kind, from an offset on.
struct StoreRun {
  std::uint64_t length = 0;  ///< bytes, a multiple of the block size, more than none
  bool hole = false;
};
using RunCallback = Callback<IoResult<StoreRun>>;

/// Owned by one reactor; callbacks run on it and never from inside the call that took them. Buffers stay valid and
/// unchanged until the callback. Operations in flight that overlap have no order: callers hold range locks.
/// An extent outside the store gives Errc::out_of_range; it never wraps or truncates.
class Store {
 public:
  virtual ~Store() = default;
  [[nodiscard]] virtual const StoreInfo& info() const = 0;

  virtual void read(std::uint64_t offset, std::span<std::byte> into, IoCallback done) = 0;
  virtual void write(std::uint64_t offset, std::span<const std::byte> from, Durability durability, IoCallback done) = 0;
  /// The extent reads as zeros afterwards; space stays allocated where the store can do so.
  virtual void write_zeroes(Extent extent, Durability durability, IoCallback done) = 0;
  /// The extent reads as zeros afterwards; whole granules are given back, the ragged ends are zeroed.
  virtual void discard(Extent extent, Durability durability, IoCallback done) = 0;
  /// Everything whose callback ran before this call is on stable storage when `done` runs without error. After an
  /// error nothing unflushed may be relied on: the store refuses_writes().
  virtual void flush(IoCallback done) = 0;
  /// A flush failed, or one that a durable operation needs: every write and flush fails until the store is opened anew.
  /// Reads go on.
  [[nodiscard]] virtual bool refuses_writes() const { return false; }
  /// For a user of durable operations alone, each of which has told of its own failure: writes are taken again. Durable
  /// operations that are under way fail.
  virtual void take_writes_again() {}
  /// Sets space aside for `extent`, which reads as it did: a later write there does not run out of space. no_space: it
  /// would, and nothing else changed. What is set aside ends with a discard() there and with this process. Only of a
  /// store whose info().reserves says so.
  virtual void reserve(Extent extent, IoCallback done) {
    (void)extent, (void)done;
    assert(false);
  }
  /// Whether the store keeps something at `offset`, and how far that goes: until `hole` changes, at most to the store's
  /// end. A hole reads as zeros; what was written as zeros may be called either. Reads and writes go on meanwhile. Only
  /// of a store whose info().knows_holes says so.
  virtual void next_run(std::uint64_t offset, RunCallback done) {
    (void)offset, (void)done;
    assert(false);
  }

  /// What is kept can only be read with a key, which is here.
  [[nodiscard]] virtual bool encrypts() const { return false; }
  /// Puts another key in the place of the present one, durably: what was kept under it is lost. Until it is zeroed or
  /// written, it is read as anything. Nothing else is in flight. After an error either key may be the one that counts.
  /// Only of a store that encrypts().
  virtual void renew_key(IoCallback done) {
    (void)done;
    assert(false);
  }
};

}  // namespace lockstep::engine
