#pragma once
// What happened, twice: as an order-sensitive hash (always) and as readable lines (when asked for). Only values that
// follow from the seed may go in: no pointers, no wall clock.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

namespace lockstep::simulation {

using Nanos = std::uint64_t;  ///< simulated time since the world began

/// A quick hash of bytes, for payloads.
[[nodiscard]] std::uint64_t hash_bytes(std::span<const std::byte> bytes);

class Trace {
 public:
  struct Field {
    const char* name;
    std::uint64_t value;
  };

  explicit Trace(std::FILE* out = nullptr) : out_(out) {}

  [[nodiscard]] bool printing() const { return out_ != nullptr; }
  [[nodiscard]] std::uint64_t hash() const { return hash_; }
  [[nodiscard]] std::uint64_t events() const { return events_; }
  void set_time(Nanos now) { now_ = now; }

  /// `node` is 'a', 'b' or '-'; `what` a dotted name, such as "store.write".
  void add(char node, std::string_view what, std::initializer_list<Field> fields = {});
  /// A line for the reader only; not hashed.
  void note(char node, const std::string& text);

 private:
  void mix(std::uint64_t value);
  std::FILE* out_;
  Nanos now_ = 0;
  std::uint64_t hash_ = 0x6c6f636b73746570u;
  std::uint64_t events_ = 0;
};

}  // namespace lockstep::simulation
