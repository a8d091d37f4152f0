// What units are called by the pages that they tell.
#include "mgmt/control/lun_identity.hpp"

#include <vector>

#include <gtest/gtest.h>

namespace lockstep::mgmt {
namespace {

using Page = std::vector<std::uint8_t>;

Page page_with(std::uint8_t code, const std::vector<Page>& parts) {
  Page out{0, code, 0, 0};
  for (const Page& part : parts) out.insert(out.end(), part.begin(), part.end());
  out[3] = static_cast<std::uint8_t>(out.size() - 4);
  return out;
}
Page text(const std::string& words) { return {words.begin(), words.end()}; }
Page designator(std::uint8_t code_set, std::uint8_t association_and_type, const Page& bytes) {
  Page out{code_set, association_and_type, 0, static_cast<std::uint8_t>(bytes.size())};
  out.insert(out.end(), bytes.begin(), bytes.end());
  return out;
}

const Page kVendorsName = designator(2, 0x01, text("IET     00010001"));
const Page kNaa = designator(1, 0x03, {0x60, 0x01, 0x40, 0x5f});
const Page kPortsNaa = designator(1, 0x13, {0x50, 1, 2, 3});

TEST(LunIdentity, IsTheBestDesignatorOfTheUnitItself) {
  EXPECT_EQ(designated_name(page_with(0x83, {kPortsNaa, kVendorsName, kNaa})), "naa.6001405f");
  EXPECT_EQ(designated_name(page_with(0x83, {kPortsNaa, kVendorsName})), "t10.IET     00010001");
  Page padded = text("iqn.x:1");
  padded.resize(12);
  EXPECT_EQ(designated_name(page_with(0x83, {designator(3, 0x08, padded)})), "iqn.x:1");
  EXPECT_EQ(designated_name(page_with(0x83, {kPortsNaa})), "");
}

TEST(LunIdentity, IsNotTakenFromWhatIsCutShortOrNoSuchPage) {
  Page cut = page_with(0x83, {kVendorsName, kNaa});
  cut.pop_back();
  EXPECT_EQ(designated_name(cut), "t10.IET     00010001");
  EXPECT_EQ(designated_name(page_with(0x00, {kNaa})), "");
  EXPECT_EQ(designated_name({}), "");
  EXPECT_EQ(serial_name({}), "");
  EXPECT_EQ(serial_name(page_with(0x80, {text("    ")})), "");
}

TEST(LunIdentity, IsTextThatCanBeShown) {
  EXPECT_EQ(serial_name(page_with(0x80, {text("  ABC 1 ")})), "serial ABC 1");
  EXPECT_EQ(serial_name(page_with(0x80, {{0xC3, 0x28}})), "serial c328");
  EXPECT_EQ(designated_name(page_with(0x83, {designator(2, 0x01, {0xFF, 'a'})})), "t10.ff61");
}

}  // namespace
}  // namespace lockstep::mgmt
