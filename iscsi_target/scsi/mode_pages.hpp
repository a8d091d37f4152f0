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

/// Subpage 00h: the page is in page_0 format, all others are in sub_page format (SPC-4 7.5.7).
struct PageId {
  std::uint8_t code = 0;
  std::uint8_t subpage = 0;
};

/// Header and parameters of a page.
struct PageImage {
  std::array<std::uint8_t, 24> bytes{};
  std::uint8_t size = 0;
  std::uint8_t header = 0;  ///< bytes of it that say which page it is, and how long
  [[nodiscard]] std::span<const std::uint8_t> span() const { return std::span(bytes).first(size); }
};

/// What the pages say about a unit besides its mode.
struct PageFacts {
  std::uint64_t size = 0;  ///< bytes
  bool write_cache = false;
  bool thin = false;
};
[[nodiscard]] PageFacts page_facts(const LogicalUnit& unit);

/// Read-write error recovery, caching, control, informational exceptions, logical block provisioning; ascending.
inline constexpr std::array<PageId, 5> kModePages{{{0x01}, {0x08}, {0x0A}, {0x1C}, {0x1C, 0x02}}};
constexpr std::uint8_t kAllModePages = 0x3F;
constexpr std::uint8_t kAllSubpages = 0xFF;
constexpr std::uint8_t kSubpageFormat = 0x40;  ///< SPF, of a page's byte 0

/// Nothing when the unit has no such page.
[[nodiscard]] std::optional<PageImage> mode_page(PageId id, PageControl control, ModeState state,
                                                 const PageFacts& facts);

/// What of the mode a page says nothing of.
[[nodiscard]] ModeState beside(PageId id);

/// What a page with these bytes, as long as it must be, would set.
[[nodiscard]] ModeState with_page(PageId id, std::span<const std::uint8_t> page, ModeState state);

}  // namespace lockstep::iscsi_target
