#pragma once
// The mode pages of a logical unit as byte images: what they are, what of them may be changed, what they would be after
// a reset. Pure; mode.cpp moves them.
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "iscsi_target/scsi/logical_unit.hpp"

namespace lockstep::iscsi_target {

enum class PageControl : std::uint8_t { current = 0, changeable = 1, defaults = 2, saved = 3 };  // SPC-4 table 168

/// Page code, page length and parameters of a page in page_0 format.
struct PageImage {
  std::array<std::uint8_t, 20> bytes{};
  std::uint8_t size = 0;
  [[nodiscard]] std::span<const std::uint8_t> span() const { return std::span(bytes).first(size); }
};

/// Read-write error recovery, caching, control, informational exceptions; ascending.
inline constexpr std::array<std::uint8_t, 4> kModePages{0x01, 0x08, 0x0A, 0x1C};
constexpr std::uint8_t kAllModePages = 0x3F;
constexpr std::uint8_t kAllSubpages = 0xFF;

/// Nothing when there is no such page. Pages have no subpages other than 00h.
[[nodiscard]] std::optional<PageImage> mode_page(std::uint8_t code, PageControl control, ModeState state,
                                                 bool write_cache);

/// What the parameters of a control page would set.
[[nodiscard]] ModeState mode_state_of_control_page(std::span<const std::uint8_t> page);

}  // namespace lockstep::iscsi_target
