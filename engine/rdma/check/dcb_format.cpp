#include "engine/rdma/check/dcb_format.hpp"

#include <cstring>

#include <linux/dcbnl.h>
#include <linux/rtnetlink.h>

namespace lockstep::rdma {
namespace {

using Bytes = std::span<const std::byte>;

constexpr std::size_t kHeaders = sizeof(nlmsghdr) + sizeof(dcbmsg);
constexpr unsigned kTypeMask = 0x3fff;  // above are marks of nesting and of byte order

constexpr std::size_t aligned(std::size_t bytes) { return (bytes + 3) / 4 * 4; }

template <class T>
T read(Bytes bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

/// What the first attribute of that type holds; nothing where there is none, or the bytes make no sense before it.
Bytes attribute_in(Bytes bytes, unsigned type) {
  while (bytes.size() >= sizeof(rtattr)) {
    const auto header = read<rtattr>(bytes);
    if (header.rta_len < sizeof header || header.rta_len > bytes.size()) return {};
    if ((header.rta_type & kTypeMask) == type) return bytes.subspan(sizeof header, header.rta_len - sizeof header);
    bytes = bytes.subspan(std::min(aligned(header.rta_len), bytes.size()));
  }
  return {};
}

}  // namespace

std::vector<std::byte> dcb_question(const std::string& interface, std::uint32_t number) {
  const std::size_t name = interface.size() + 1;
  std::vector<std::byte> question(kHeaders + aligned(sizeof(rtattr) + name));
  const nlmsghdr header{.nlmsg_len = static_cast<std::uint32_t>(question.size()),
                        .nlmsg_type = RTM_GETDCB,
                        .nlmsg_flags = NLM_F_REQUEST,
                        .nlmsg_seq = number,
                        .nlmsg_pid = 0};
  const dcbmsg command{.dcb_family = 0, .cmd = DCB_CMD_IEEE_GET, .dcb_pad = 0};
  const rtattr attribute{.rta_len = static_cast<std::uint16_t>(sizeof attribute + name), .rta_type = DCB_ATTR_IFNAME};
  std::memcpy(question.data(), &header, sizeof header);
  std::memcpy(question.data() + sizeof header, &command, sizeof command);
  std::memcpy(question.data() + kHeaders, &attribute, sizeof attribute);
  std::memcpy(question.data() + kHeaders + sizeof attribute, interface.data(), interface.size());
  return question;
}

std::optional<PriorityFlowControl> flow_control_in(Bytes answer, std::uint32_t number) {
  if (answer.size() < kHeaders) return {};
  const auto header = read<nlmsghdr>(answer);
  const auto command = read<dcbmsg>(answer.subspan(sizeof header));
  if (header.nlmsg_type != RTM_GETDCB || header.nlmsg_seq != number || command.cmd != DCB_CMD_IEEE_GET) return {};
  if (header.nlmsg_len < kHeaders || header.nlmsg_len > answer.size()) return {};
  const Bytes bridging = attribute_in(answer.subspan(kHeaders, header.nlmsg_len - kHeaders), DCB_ATTR_IEEE);
  const Bytes told = attribute_in(bridging, DCB_ATTR_IEEE_PFC);
  if (told.size() < offsetof(ieee_pfc, mbc)) return {};
  return PriorityFlowControl{std::to_integer<std::uint8_t>(told[offsetof(ieee_pfc, pfc_cap)]),
                             std::to_integer<std::uint8_t>(told[offsetof(ieee_pfc, pfc_en)])};
}

}  // namespace lockstep::rdma
