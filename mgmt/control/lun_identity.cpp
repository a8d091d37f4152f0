#include "mgmt/control/lun_identity.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "engine/base/byte_order.hpp"

namespace lockstep::mgmt {
namespace {

using PageBytes = std::span<const std::uint8_t>;
constexpr std::size_t kPageHeader = 4;  // bytes; a designator's, too

/// Of a designator (SPC-4 7.8.6), those that name a unit before all others first.
struct NameKind {
  std::uint8_t type;
  std::string_view prefix;
};
constexpr std::array<NameKind, 4> kNameKinds{{{3, "naa."}, {2, "eui."}, {8, ""}, {1, "t10."}}};

/// Without the spaces and zeros that pad it.
PageBytes without_padding(PageBytes bytes) {
  const auto pads = [](std::uint8_t c) { return c == ' ' || c == 0; };
  while (!bytes.empty() && pads(bytes.back())) bytes = bytes.first(bytes.size() - 1);
  while (!bytes.empty() && pads(bytes.front())) bytes = bytes.subspan(1);
  return bytes;
}

/// As text that can be shown: in hexadecimal digits where it is anything else.
std::string name_of(PageBytes bytes, bool binary) {
  const PageBytes text = without_padding(bytes);
  if (!binary && std::ranges::all_of(text, [](std::uint8_t c) { return c >= ' ' && c < 0x7F; }))
    return {text.begin(), text.end()};
  std::string digits;
  for (const std::uint8_t byte : bytes) digits += fmt::format("{:02x}", byte);
  return digits;
}

/// What follows the header, as far as it came.
PageBytes page_body(PageBytes page, std::uint8_t code) {
  if (page.size() < kPageHeader || page[1] != code) return {};
  const std::size_t told = engine::load_be<std::uint16_t>(&page[2]);
  return page.subspan(kPageHeader, std::min(told, page.size() - kPageHeader));
}

struct Designator {
  std::uint8_t type = 0;
  bool names_unit = false;  ///< not a port, nor the whole array
  bool binary = false;
  PageBytes bytes;
};

/// Takes the next one off; nothing: there is none that is whole.
std::optional<Designator> take_designator(PageBytes& list) {
  if (list.size() < kPageHeader || list.size() - kPageHeader < list[3]) return std::nullopt;
  const Designator next{.type = static_cast<std::uint8_t>(list[1] & 0x0F),
                        .names_unit = (list[1] >> 4 & 3) == 0,
                        .binary = (list[0] & 0x0F) == 1,
                        .bytes = list.subspan(kPageHeader, list[3])};
  list = list.subspan(kPageHeader + list[3]);
  return next;
}

}  // namespace

std::string designated_name(std::span<const std::uint8_t> page) {
  for (const NameKind& kind : kNameKinds) {
    PageBytes list = page_body(page, 0x83);
    while (const auto one = take_designator(list)) {
      if (!one->names_unit || one->type != kind.type) continue;
      if (auto name = name_of(one->bytes, one->binary); !name.empty()) return std::string(kind.prefix) + name;
    }
  }
  return {};
}

std::string serial_name(std::span<const std::uint8_t> page) {
  const auto name = name_of(page_body(page, 0x80), false);
  return name.empty() ? "" : "serial " + name;
}

}  // namespace lockstep::mgmt
