#include "iscsi_target/scsi/mode_pages.hpp"

#include "engine/base/byte_order.hpp"
#include "iscsi_target/scsi/space_threshold.hpp"

namespace lockstep::iscsi_target {
namespace {

constexpr std::uint8_t kProvisioningErrors = 0x80;  // read-write error recovery, byte 7: LBPERE
constexpr std::uint8_t kDescriptorSense = 0x04;     // control page, byte 2
constexpr std::uint8_t kGlobalLogSave = 0x02;       // control page, byte 2: GLTSD
constexpr std::uint8_t kReorders = 0x10;            // control page, byte 3: unrestricted reordering
constexpr std::uint8_t kWriteProtect = 0x08;        // control page, byte 4: SWP
constexpr std::uint8_t kTaskAborted = 0x40;         // control page, byte 5: TAS, as sessions do it
constexpr std::uint8_t kWriteCache = 0x04;          // caching page, byte 2: WCE
constexpr std::uint8_t kNoExceptions = 0x08;        // informational exceptions, byte 2: DEXCPT
constexpr std::uint8_t kEnabled = 0x80;             // threshold descriptor, byte 0: ENABLED
constexpr std::uint8_t kAvailable = 0x01;           // threshold descriptor, byte 1: available LBA mapping resources

PageImage page(std::uint8_t code, std::uint8_t parameters) {
  PageImage image;
  image.size = static_cast<std::uint8_t>(parameters + 2);
  image.header = 2;
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

/// SBC-3 6.4.6. One threshold, decreasing (THRESHOLD ARMING 000b), soft (THRESHOLD TYPE 000b); it is told to every
/// nexus (SITUA zero). Initiators may put it off and on; how high it is follows from the volume.
PageImage provisioning_page(PageControl control, ModeState state, const PageFacts& facts) {
  PageImage image;
  image.size = kThresholdDescriptor + 8;
  image.header = 4;
  image.bytes[0] = 0x1C | kSubpageFormat;
  image.bytes[1] = 0x02;
  image.bytes[3] = static_cast<std::uint8_t>(image.size - image.header);
  std::uint8_t* descriptor = &image.bytes[kThresholdDescriptor];
  if (control == PageControl::changeable) {
    descriptor[0] = kEnabled;
    return image;
  }
  if (control == PageControl::defaults) state = {};
  descriptor[0] = state.threshold_off ? 0 : kEnabled;
  descriptor[1] = kAvailable;
  engine::store_be<std::uint32_t>(descriptor + 4, threshold_count(facts.size));
  return image;
}

}  // namespace

PageFacts page_facts(const LogicalUnit& unit) {
  return {.size = unit.blocks() << unit.block_shift(), .write_cache = unit.write_cache(), .thin = unit.info().thin};
}

std::optional<PageImage> mode_page(PageId id, PageControl control, ModeState state, const PageFacts& facts) {
  const bool values = control != PageControl::changeable;
  switch (id.code << 8 | id.subpage) {
    case 0x0100: {
      PageImage image = page(0x01, 0x0A);
      if (values && facts.thin) image.bytes[7] = kProvisioningErrors;
      return image;
    }
    case 0x0800: {
      PageImage image = page(0x08, 0x12);
      if (values && facts.write_cache) image.bytes[2] = kWriteCache;
      return image;
    }
    case 0x0A00:
      return control_page(control, state);
    case 0x1C00: {
      PageImage image = page(0x1C, 0x0A);
      if (values) image.bytes[2] = kNoExceptions;
      return image;
    }
    case 0x1C02:
      if (!facts.thin) return std::nullopt;
      return provisioning_page(control, state, facts);
    default:
      return std::nullopt;
  }
}

ModeState beside(PageId id) {
  const bool control = id.code == 0x0A, provisioning = id.code == 0x1C && id.subpage == 0x02;
  return {.descriptor_sense = !control, .software_write_protect = !control, .threshold_off = !provisioning};
}

ModeState with_page(PageId id, std::span<const std::uint8_t> page, ModeState state) {
  if (id.code == 0x0A) {
    state.descriptor_sense = page[2] & kDescriptorSense;
    state.software_write_protect = page[4] & kWriteProtect;
  } else if (id.code == 0x1C && id.subpage == 0x02) {
    state.threshold_off = !(page[kThresholdDescriptor] & kEnabled);
  }
  return state;
}

}  // namespace lockstep::iscsi_target
