#include "ui-api/cli/table.hpp"

#include <gtest/gtest.h>

namespace lockstep::cli {
namespace {

TEST(Table, ColumnsAlignAndFiguresStandAtTheRight) {
  Table table{"NAME", ">SIZE", "STATE"};
  table.add({"vm1", "10 GiB", "ok"});
  table.add({"database", "1.5 TiB", "degraded"});
  EXPECT_EQ(table.text(),
            "NAME         SIZE  STATE\n"
            "vm1        10 GiB  ok\n"
            "database  1.5 TiB  degraded\n");
}

TEST(Table, WidthsCountCharactersNotBytes) {
  Table table{"NAME", "X"};
  table.add({"größe", "1"});
  table.add({"plain", "2"});
  EXPECT_EQ(table.text(), "NAME   X\ngröße  1\nplain  2\n");
}

TEST(Table, LinesHaveNoSpacesAtTheirEnd) {
  Table table{"NAME", "NOTE"};
  table.add({"vm1", ""});
  EXPECT_EQ(table.text(), "NAME  NOTE\nvm1\n");
}

TEST(Table, ControlCharactersFromTheServerDoNotReachTheTerminal) {
  Table table{"NAME"};
  table.add({"a\033[2Jb\nc\x7F"});
  EXPECT_EQ(table.text(), "NAME\na?[2Jb?c?\n");
}

TEST(Facts, ValuesAlign) {
  Facts facts;
  facts.add("Name", "vm1");
  facts.add("Target", "iqn.x");
  EXPECT_EQ(facts.text(), "Name    vm1\nTarget  iqn.x\n");
}

}  // namespace
}  // namespace lockstep::cli
