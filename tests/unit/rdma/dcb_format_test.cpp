// The kernel's messages about flow control by priority, byte by byte.
#include "engine/rdma/check/dcb_format.hpp"

#include <bit>

#include <gtest/gtest.h>

#include "engine/rdma/check/flow_control.hpp"

namespace lockstep::rdma {
namespace {

static_assert(std::endian::native == std::endian::little, "the bytes below are such a machine's");

constexpr std::uint32_t kNumber = 7;

std::vector<std::byte> bytes(std::initializer_list<unsigned> values) {
  std::vector<std::byte> all;
  for (const unsigned value : values) all.push_back(static_cast<std::byte>(value));
  return all;
}

/// As Linux 6.1 answers: the interface's name, and nested the traffic classes (cut short here) and the flow control.
std::vector<std::byte> answer(unsigned most, unsigned enabled) {
  auto all = bytes({0xbc, 0,  0,  0, 0x4e, 0,      0,    0,    7, 0, 0, 0, 0x39, 0x30, 0, 0,  // nlmsghdr
                    0,    21, 0,  0,                                                          // dcbmsg
                    9,    0,  1,  0, 0x65, 0x74,   0x68, 0x31, 0, 0, 0, 0,                    // DCB_ATTR_IFNAME
                    0x9c, 0,  13, 0,                                                          // DCB_ATTR_IEEE
                    0x0b, 0,  1,  0, 1,    2,      3,    4,    5, 6, 7, 0,                    // DCB_ATTR_IEEE_ETS
                    0x8c, 0,  2,  0, most, enabled});                                         // DCB_ATTR_IEEE_PFC
  all.resize(0xbc);
  return all;
}

TEST(DcbFormat, AQuestionNamesTheInterface) {
  EXPECT_EQ(dcb_question("eth1", kNumber),
            bytes({0x20, 0,  0, 0, 0x4e, 0,    1,    0,    7, 0, 0, 0, 0, 0, 0, 0,  // nlmsghdr
                   0,    21, 0, 0,                                                  // dcbmsg
                   9,    0,  1, 0, 0x65, 0x74, 0x68, 0x31, 0, 0, 0, 0}));           // DCB_ATTR_IFNAME
}

TEST(DcbFormat, AnAnswerTellsForWhichPrioritiesItIsOn) {
  EXPECT_EQ(flow_control_in(answer(8, 0x08), kNumber), (PriorityFlowControl{8, 0x08}));
  EXPECT_EQ(flow_control_in(answer(8, 0), kNumber), (PriorityFlowControl{8, 0}));
  auto marked = answer(4, 0xff);
  marked[34] = std::byte{0x0d}, marked[35] = std::byte{0x80};
  EXPECT_EQ(flow_control_in(marked, kNumber), (PriorityFlowControl{4, 0xff})) << "a nest may be marked as such";
}

TEST(DcbFormat, AnErrorAndTheAnswerToAnotherQuestionTellNothing) {
  auto error = answer(8, 8);
  error[4] = std::byte{2};  // NLMSG_ERROR, as of an interface without DCB
  EXPECT_FALSE(flow_control_in(error, kNumber));
  EXPECT_FALSE(flow_control_in(answer(8, 8), kNumber + 1));
  auto other = answer(8, 8);
  other[17] = std::byte{3};  // DCB_CMD_PGTX_GCFG
  EXPECT_FALSE(flow_control_in(other, kNumber));
}

TEST(DcbFormat, AnAnswerWithoutIt) {
  auto without = answer(8, 8);
  without[50] = std::byte{5};  // DCB_ATTR_IEEE_PEER_PFC: what the other end has
  EXPECT_FALSE(flow_control_in(without, kNumber));
}

TEST(DcbFormat, AnyBytesAreSurvived) {
  const auto whole = answer(8, 8);
  for (std::size_t length = 0; length < whole.size(); ++length) {
    const std::vector<std::byte> cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length));
    EXPECT_FALSE(flow_control_in(cut, kNumber)) << length;
    auto told_so = cut;
    if (length >= 4) told_so[0] = static_cast<std::byte>(length);
    (void)flow_control_in(told_so, kNumber);  // under the sanitizers nothing is read beside it
  }
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const unsigned value : {0U, 1U, 3U, 4U, 0x7fU, 0xffU}) {
      auto changed = whole;
      changed[at] = static_cast<std::byte>(value);
      (void)flow_control_in(changed, kNumber);
    }
  }
}

TEST(FlowControl, AnInterfaceThatHasNoneOfItTellsNothing) {
  const FlowControl of_loopback = ask_flow_control("lo");
  EXPECT_FALSE(of_loopback.pfc);
  EXPECT_FALSE(of_loopback.pause);
  EXPECT_FALSE(ask_flow_control("no-such-interface-at-all").pfc);
}

}  // namespace
}  // namespace lockstep::rdma
