#include "iscsi_target/scsi/mode_pages.hpp"

namespace lockstep::iscsi_target {
namespace {

constexpr std::uint8_t kDescriptorSense = 0x04;  // control page, byte 2
constexpr std::uint8_t kGlobalLogSave = 0x02;    // control page, byte 2: GLTSD
constexpr std::uint8_t kReorders = 0x10;         // control page, byte 3: unrestricted reordering
constexpr std::uint8_t kWriteProtect = 0x08;     // control page, byte 4: SWP
constexpr std::uint8_t kTaskAborted = 0x40;      // control page, byte 5: TAS, as sessions do it
constexpr std::uint8_t kWriteCache = 0x04;       // caching page, byte 2: WCE
constexpr std::uint8_t kNoExceptions = 0x08;     // informational exceptions, byte 2: DEXCPT

PageImage page(std::uint8_t code, std::uint8_t parameters) {
  PageImage image;
  image.size = static_cast<std::uint8_t>(parameters + 2);
  image.bytes[0] = code;
  image.bytes[1] = parameters;
  return image;
}

PageImage control_page(PageControl control, ModeState state) {
  PageImage image = page(0x0A, 0x0A);
  if (control == PageControl::changeable) {
    image.bytes[2] = kDescriptorSense;
    image.bytes[4] = kWriteProtect;
    return image;
  }
  if (control == PageControl::defaults) state = {};
  image.bytes[2] = static_cast<std::uint8_t>(kGlobalLogSave | (state.descriptor_sense ? kDescriptorSense : 0));
  image.bytes[3] = kReorders;
  image.bytes[4] = state.software_write_protect ? kWriteProtect : 0;
  image.bytes[5] = kTaskAborted;
  return image;
}

}  // namespace

std::optional<PageImage> mode_page(std::uint8_t code, PageControl control, ModeState state, bool write_cache) {
  const bool values = control != PageControl::changeable;
  switch (code) {
    case 0x01:
      return page(0x01, 0x0A);
    case 0x08: {
      PageImage image = page(0x08, 0x12);
      if (values && write_cache) image.bytes[2] = kWriteCache;
      return image;
    }
    case 0x0A:
      return control_page(control, state);
    case 0x1C: {
      PageImage image = page(0x1C, 0x0A);
      if (values) image.bytes[2] = kNoExceptions;
      return image;
    }
    default:
      return std::nullopt;
  }
}

ModeState mode_state_of_control_page(std::span<const std::uint8_t> bytes) {
  return {.descriptor_sense = (bytes[2] & kDescriptorSense) != 0,
          .software_write_protect = (bytes[4] & kWriteProtect) != 0};
}

}  // namespace lockstep::iscsi_target
