#include "ui-api/cli/size.hpp"

#include <gtest/gtest.h>

namespace lockstep::cli {
namespace {

TEST(ParseSize, UnitsAreBinaryUnlessTheySayDecimal) {
  EXPECT_EQ(parse_size("512").value(), 512u);
  EXPECT_EQ(parse_size("1B").value(), 1u);
  EXPECT_EQ(parse_size("4K").value(), 4096u);
  EXPECT_EQ(parse_size("10GiB").value(), 10737418240u);
  EXPECT_EQ(parse_size("10G").value(), 10737418240u);
  EXPECT_EQ(parse_size("10GB").value(), 10000000000u);
  EXPECT_EQ(parse_size("64TiB").value(), 70368744177664u);
  EXPECT_EQ(parse_size("2P").value(), std::uint64_t{2} << 50);
}

TEST(ParseSize, SpacesAndCaseDoNotMatter) {
  EXPECT_EQ(parse_size("  10 GiB ").value(), 10737418240u);
  EXPECT_EQ(parse_size("10gib").value(), 10737418240u);
  EXPECT_EQ(parse_size("1 kb").value(), 1000u);
}

TEST(ParseSize, FractionsAreExact) {
  EXPECT_EQ(parse_size("1.5TiB").value(), 1649267441664u);
  EXPECT_EQ(parse_size("0.1KB").value(), 100u);
  EXPECT_FALSE(parse_size("0.1KiB").has_value()) << "102.4 bytes are not a whole number";
  EXPECT_FALSE(parse_size("1.5").has_value());
}

TEST(ParseSize, AnythingElseIsRefusedAndQuoted) {
  for (const char* wrong : {"", " ", "GiB", "-1", "+1", "10 XiB", "10GiBs", "1e9", "0x10", "1.GiB", ".5GiB", "1..5G",
                            "1.5.5G", "10 G i B", "ten", "1,5GiB"}) {
    const auto parsed = parse_size(wrong);
    ASSERT_FALSE(parsed.has_value()) << wrong;
    EXPECT_EQ(parsed.error().exit, Exit::usage);
    EXPECT_NE(parsed.error().message.find('"' + std::string(wrong) + '"'), std::string::npos) << parsed.error().message;
  }
}

TEST(ParseSize, WhatDoesNotFitIsRefusedInsteadOfWrapping) {
  EXPECT_EQ(parse_size("9223372036854775807").value(), 9223372036854775807u);
  for (const char* large :
       {"9223372036854775808", "8EiB", "9999999999999999999", "16E", "99999999999999999999999GiB"}) {
    EXPECT_FALSE(parse_size(large).has_value()) << large;
  }
}

TEST(FormatSize, ThreeDigitsAndTheLargestUnitThatFits) {
  EXPECT_EQ(format_size(0), "0 B");
  EXPECT_EQ(format_size(1023), "1023 B");
  EXPECT_EQ(format_size(1024), "1 KiB");
  EXPECT_EQ(format_size(1610612736), "1.5 GiB");
  EXPECT_EQ(format_size(10737418240), "10 GiB");
  EXPECT_EQ(format_size(std::uint64_t{412} << 30), "412 GiB");
  EXPECT_EQ(format_size(~std::uint64_t{0}), "16 EiB");
}

TEST(FormatSize, WhatIsPrintedForWholeUnitsCanBeTypedBack) {
  for (const char* size : {"1 B", "4 KiB", "10 GiB", "1.5 TiB", "64 TiB"})
    EXPECT_EQ(format_size(parse_size(size).value()), size);
}

TEST(ParseDuration, OneUnitAndWholeNumbers) {
  EXPECT_EQ(parse_duration("0"), 0U);
  EXPECT_EQ(parse_duration("90"), 90U);
  EXPECT_EQ(parse_duration("90s"), 90U);
  EXPECT_EQ(parse_duration("15m"), 900U);
  EXPECT_EQ(parse_duration("15min"), 900U);
  EXPECT_EQ(parse_duration("1h"), 3600U);
  EXPECT_EQ(parse_duration("30d"), 2592000U);
  for (const char* bad : {"", "h", "-1h", "1.5h", "1w", "1h30m", " 1h", "99999999999999999999d", "10000000d"})
    EXPECT_FALSE(parse_duration(bad).has_value()) << bad;
}

TEST(FormatDuration, TwoUnitsAtMost) {
  EXPECT_EQ(format_duration(59), "59 s");
  EXPECT_EQ(format_duration(61), "1 min 1 s");
  EXPECT_EQ(format_duration(3725), "1 h 2 min");
  EXPECT_EQ(format_duration(90000), "1 d 1 h");
}

}  // namespace
}  // namespace lockstep::cli
