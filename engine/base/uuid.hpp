#pragma once
// A UUID as 16 bytes in network order (RFC 9562), the identity of pairs, nodes, volumes and epochs.
#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::engine {

struct Uuid {
  std::array<std::uint8_t, 16> bytes{};

  auto operator<=>(const Uuid&) const = default;
  [[nodiscard]] bool is_nil() const { return *this == Uuid{}; }

  /// Lower-case, with hyphens: "0f8fad5b-d9cb-469f-a165-70867728950e".
  [[nodiscard]] std::string to_string() const;
  /// Nothing unless `text` is exactly the form that to_string() gives (either case).
  [[nodiscard]] static std::optional<Uuid> parse(std::string_view text);
};

}  // namespace lockstep::engine

template <>
struct std::hash<lockstep::engine::Uuid> {
  std::size_t operator()(const lockstep::engine::Uuid& id) const noexcept;
};
