#include "ui-api/cli/api.hpp"

#include <gtest/gtest.h>

namespace lockstep::cli {
namespace {

constexpr const char* kStream =
    ": hello\n\n"
    "event: event\nid: 42\ndata: {\"message\":\"one\"}\n\n"
    "event: volume\r\ndata: {\"name\":\"vm1\"}\r\n\r\n"
    "event: event\nid: 43\ndata: not json\n\n"
    "event: event\nid: 44\ndata:{\"message\":\"two\"}\n\n";

std::vector<StreamEvent> parse_in_pieces_of(std::size_t size) {
  std::vector<StreamEvent> events;
  EventParser parser;
  const std::string_view all = kStream;
  for (std::size_t at = 0; at < all.size(); at += size) {
    EXPECT_TRUE(parser.feed(all.substr(at, size), [&](const StreamEvent& e) {
      events.push_back(e);
      return true;
    }));
  }
  return events;
}

TEST(EventParser, PiecesOfAnySizeGiveTheSameEvents) {
  for (std::size_t size = 1; size < 100; ++size) {
    const auto events = parse_in_pieces_of(size);
    ASSERT_EQ(events.size(), 3u) << size;
    EXPECT_EQ(events[0].name, "event");
    EXPECT_EQ(events[0].id, "42");
    EXPECT_EQ(events[0].data["message"], "one");
    EXPECT_EQ(events[1].name, "volume");
    EXPECT_EQ(events[1].id, "") << "an id belongs to its own event";
    EXPECT_EQ(events[2].id, "44") << "what is not JSON is passed over";
  }
}

TEST(EventParser, StopsWhenToldTo) {
  EventParser parser;
  int seen = 0;
  EXPECT_FALSE(parser.feed(kStream, [&](const StreamEvent&) { return ++seen < 2; }));
  EXPECT_EQ(seen, 2);
}

TEST(EventParser, ALineWithoutEndIsNotKeptForEver) {
  EventParser parser;
  const std::string piece(300000, 'x');
  bool going = true;
  for (int i = 0; i < 10 && going; ++i) going = parser.feed(piece, [](const StreamEvent&) { return true; });
  EXPECT_FALSE(going);
}

TEST(PercentEncode, KeepsOnlyWhatIsUnreserved) {
  EXPECT_EQ(percent_encode("vm-1_a.b~"), "vm-1_a.b~");
  EXPECT_EQ(percent_encode("iqn.2026-11.x:a/b?c&d %"), "iqn.2026-11.x%3Aa%2Fb%3Fc%26d%20%25");
  EXPECT_EQ(percent_encode("ä"), "%C3%A4");
}

TEST(Fields, AMissingOrForeignFieldIsNeutral) {
  const json object = json::parse(R"({"name": 7, "size": "x", "thin": null})");
  EXPECT_EQ(text(object, "name"), "");
  EXPECT_EQ(text(object, "nothing"), "");
  EXPECT_EQ(number(object, "size"), 0u);
  EXPECT_FALSE(flag(object, "thin"));
  EXPECT_EQ(text(json(), "name"), "");
}

}  // namespace
}  // namespace lockstep::cli
