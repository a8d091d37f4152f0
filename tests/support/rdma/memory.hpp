#pragma once
// What a device may read or write, watched from its post to its completion.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/seams/random.hpp"

namespace lockstep::test::fabric {

/// Chance, in the forms that the fake needs.
class Dice {
 public:
  explicit Dice(engine::Random& random) : random_(random) {}
  /// Uniform in [0, bound); 0 when bound is 0.
  std::uint64_t below(std::uint64_t bound) { return bound == 0 ? 0 : random_.next() % bound; }
  bool one_in(std::uint64_t n) { return below(n) == 0; }
  std::uint64_t word() { return random_.next(); }

 private:
  engine::Random& random_;
};

/// They have a byte in common.
[[nodiscard]] bool overlap(std::span<const std::byte> one, std::span<const std::byte> other);

/// Noise, anywhere in it: something changes.
void scribble(std::span<std::byte> memory, Dice& dice);

/// What a send or a write reads: the same bytes from its post on until it is over.
class Source {
 public:
  Source() = default;
  /// Copied where `is_inline`: the memory is the poster's again at once.
  Source(std::span<const std::span<const std::byte>> pieces, bool is_inline);

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] bool was_changed() const { return hash() != hash_; }
  [[nodiscard]] bool lies_in(std::span<const std::byte> memory) const;
  /// Appends `bytes` of it from `from` on, as they are now.
  void read(std::size_t from, std::size_t bytes, std::vector<std::byte>& into) const;

 private:
  [[nodiscard]] std::uint64_t hash() const;

  std::vector<std::span<const std::byte>> pieces_;
  std::vector<std::byte> copy_;
  std::size_t size_ = 0;
  std::uint64_t hash_ = 0;
};

/// Where a receive or a read puts what comes. Nobody but the device writes there until it is over, and what lies there
/// means nothing until then.
class Target {
 public:
  Target() = default;
  Target(std::span<std::byte> first, std::span<std::byte> second, std::uint64_t poison);

  [[nodiscard]] std::size_t size() const { return first_.size() + second_.size(); }
  [[nodiscard]] bool lies_in(std::span<const std::byte> memory) const;
  /// By another than this.
  [[nodiscard]] bool was_changed() const { return hash() != hash_; }
  void write(std::size_t at, std::span<const std::byte> bytes);
  /// Noise, anywhere in it: something changes.
  void spoil(Dice& dice);

 private:
  [[nodiscard]] std::uint64_t hash() const;
  void put(std::size_t at, std::span<const std::byte> bytes);

  std::span<std::byte> first_, second_;
  std::uint64_t hash_ = 0;
};

}  // namespace lockstep::test::fabric
