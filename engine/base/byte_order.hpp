#pragma once
// Big-endian fields for structs that go to a disk or a wire, and bounds-checked readers and writers for byte strings
// whose layout is not fixed. Fields have alignment 1 and no padding: a struct made of them has its layout by counting.
#include <array>
#include <bit>
#include <cassert>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

namespace lockstep::engine {

template <std::unsigned_integral T>
[[nodiscard]] constexpr T big_endian_swap(T value) {
  if constexpr (std::endian::native == std::endian::little) return std::byteswap(value);
  return value;
}

/// Reads sizeof(T) bytes at `from`, wherever it points.
template <std::unsigned_integral T>
[[nodiscard]] inline T load_be(const void* from) {
  T raw;
  std::memcpy(&raw, from, sizeof raw);
  return big_endian_swap(raw);
}

template <std::unsigned_integral T>
inline void store_be(void* to, std::type_identity_t<T> value) {
  const T raw = big_endian_swap(value);
  std::memcpy(to, &raw, sizeof raw);
}

/// An unsigned integer kept most significant byte first. Trivial: structs of it may be copied from and to bytes.
template <std::unsigned_integral T>
class BigEndian {
 public:
  BigEndian() = default;
  BigEndian(T value) { store_be<T>(bytes_.data(), value); }  // NOLINT: a field reads and writes as its value
  operator T() const { return load_be<T>(bytes_.data()); }   // NOLINT
  [[nodiscard]] T value() const { return *this; }

 private:
  std::array<std::uint8_t, sizeof(T)> bytes_;
};

using Be16 = BigEndian<std::uint16_t>;
using Be32 = BigEndian<std::uint32_t>;
using Be64 = BigEndian<std::uint64_t>;

/// Three bytes, as in iSCSI's DataSegmentLength. Values above 2^24-1 lose their top byte: check before.
class Be24 {
 public:
  static constexpr std::uint32_t kMax = 0xFFFFFF;
  Be24() = default;
  Be24(std::uint32_t value)  // NOLINT
      : bytes_{static_cast<std::uint8_t>(value >> 16), static_cast<std::uint8_t>(value >> 8),
               static_cast<std::uint8_t>(value)} {}
  operator std::uint32_t() const {  // NOLINT
    return std::uint32_t{bytes_[0]} << 16 | std::uint32_t{bytes_[1]} << 8 | bytes_[2];
  }
  [[nodiscard]] std::uint32_t value() const { return *this; }

 private:
  std::array<std::uint8_t, 3> bytes_;
};

static_assert(sizeof(Be16) == 2 && sizeof(Be24) == 3 && sizeof(Be32) == 4 && sizeof(Be64) == 8);
static_assert(alignof(Be16) == 1 && alignof(Be24) == 1 && alignof(Be32) == 1 && alignof(Be64) == 1);
static_assert(std::is_trivial_v<Be16> && std::is_trivial_v<Be24> && std::is_trivial_v<Be32> && std::is_trivial_v<Be64>);

/// A struct of byte-order fields that may be copied from and to the outside.
template <class T>
concept WireStruct = std::is_trivially_copyable_v<T> && std::is_standard_layout_v<T> && alignof(T) == 1;

/// What stands at the beginning of `bytes`, which has as many.
template <WireStruct T>
[[nodiscard]] T layout_of(std::span<const std::byte> bytes) {
  assert(bytes.size() >= sizeof(T));
  T layout;
  std::memcpy(&layout, bytes.data(), sizeof layout);
  return layout;
}

template <WireStruct T>
[[nodiscard]] std::array<std::byte, sizeof(T)> bytes_of(const T& layout) {
  return std::bit_cast<std::array<std::byte, sizeof(T)>>(layout);
}

/// Reads forward through bytes from outside. Reading past the end gives zeros and sets failed() for good, so that a
/// whole structure may be read first and checked once. Check ok() before any value is used.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : rest_(bytes) {}

  [[nodiscard]] bool ok() const { return !failed_; }
  [[nodiscard]] bool failed() const { return failed_; }
  [[nodiscard]] std::size_t remaining() const { return rest_.size(); }
  /// Everything was read and nothing beyond it.
  [[nodiscard]] bool finished() const { return ok() && rest_.empty(); }

  std::uint8_t u8() { return number<std::uint8_t>(); }
  std::uint16_t be16() { return number<std::uint16_t>(); }
  std::uint32_t be32() { return number<std::uint32_t>(); }
  std::uint64_t be64() { return number<std::uint64_t>(); }
  /// The next `count` bytes where they lie; empty on failure.
  std::span<const std::byte> bytes(std::size_t count) {
    if (failed_ || count > rest_.size()) return failed_ = true, std::span<const std::byte>{};
    const auto taken = rest_.first(count);
    rest_ = rest_.subspan(count);
    return taken;
  }
  /// Fills `into`; zeros on failure.
  void copy(std::span<std::byte> into) {
    const auto taken = bytes(into.size());
    if (taken.size() == into.size() && !into.empty()) std::memcpy(into.data(), taken.data(), into.size());
    if (taken.size() != into.size()) std::memset(into.data(), 0, into.size());
  }
  template <WireStruct T>
  T get() {
    T out{};
    copy(std::as_writable_bytes(std::span(&out, 1)));
    return out;
  }
  void skip(std::size_t count) { (void)bytes(count); }
  /// The next `count` bytes must all be zero (reserved fields); anything else fails the reader.
  void zeros(std::size_t count) {
    for (const std::byte b : bytes(count)) failed_ |= b != std::byte{0};
  }

 private:
  template <std::unsigned_integral T>
  T number() {
    const auto taken = bytes(sizeof(T));
    return taken.empty() ? T{0} : load_be<T>(taken.data());
  }
  std::span<const std::byte> rest_;
  bool failed_ = false;
};

/// Writes forward into a buffer of fixed size. What does not fit is dropped and sets failed() for good.
class ByteWriter {
 public:
  explicit ByteWriter(std::span<std::byte> into) : into_(into) {}

  [[nodiscard]] bool ok() const { return !failed_; }
  [[nodiscard]] bool failed() const { return failed_; }
  [[nodiscard]] std::size_t size() const { return used_; }
  [[nodiscard]] std::size_t room() const { return into_.size() - used_; }
  [[nodiscard]] std::span<std::byte> written() const { return into_.first(used_); }

  void u8(std::uint8_t v) { number(v); }
  void be16(std::uint16_t v) { number(v); }
  void be32(std::uint32_t v) { number(v); }
  void be64(std::uint64_t v) { number(v); }
  void bytes(std::span<const std::byte> from) {
    if (failed_ || from.size() > room()) return void(failed_ = true);
    if (!from.empty()) std::memcpy(into_.data() + used_, from.data(), from.size());
    used_ += from.size();
  }
  template <WireStruct T>
  void put(const T& value) {
    bytes(std::as_bytes(std::span(&value, 1)));
  }
  void zeros(std::size_t count) {
    if (failed_ || count > room()) return void(failed_ = true);
    std::memset(into_.data() + used_, 0, count);
    used_ += count;
  }

 private:
  template <std::unsigned_integral T>
  void number(T value) {
    std::array<std::byte, sizeof(T)> raw;
    store_be<T>(raw.data(), value);
    bytes(raw);
  }
  std::span<std::byte> into_;
  std::size_t used_ = 0;
  bool failed_ = false;
};

}  // namespace lockstep::engine
