#include "ui-api/cli/problem.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace lockstep::cli {
namespace {

using nlohmann::json;

TEST(RenderProblem, TellsTitleDetailAndEachField) {
  const json problem =
      json::parse(R"({"type": "urn:lockstep:problem:invalid", "title": "The request has fields that cannot be accepted",
    "status": 422, "detail": "Correct the fields named in errors.",
    "errors": [{"pointer": "/size_bytes", "detail": "Must be a multiple of 4096."},
               {"pointer": "/chap/secret", "detail": "Too short."}, {"pointer": "?confirm", "detail": "Is missing."}]})");
  EXPECT_EQ(render_problem(problem),
            "The request has fields that cannot be accepted.\n"
            "Correct the fields named in errors.\n"
            "  size_bytes: Must be a multiple of 4096.\n"
            "  chap.secret: Too short.\n"
            "  confirm: Is missing.");
}

TEST(RenderProblem, SaysWhatToDoWhereThatIsKnown) {
  const auto advice = [](const char* kind) {
    return render_problem({{"type", std::string("urn:lockstep:problem:") + kind}, {"title", "T"}, {"detail", "D"}});
  };
  EXPECT_NE(advice("unauthorized").find("--token-file"), std::string::npos);
  EXPECT_EQ(advice("unauthorized").find("D\n"), std::string::npos) << "which tells of the header that a program sends";
  EXPECT_NE(advice("no-pair").find("lockstep pair create"), std::string::npos);
  EXPECT_EQ(advice("conflict"), "T.\nD");
  EXPECT_EQ(advice("not-current"), "T.\nD") << "the other node could not change anything either";
}

TEST(RenderProblem, DoesNotStumbleOverWhatIsNotAsItShouldBe) {
  EXPECT_EQ(render_problem(json::parse(R"({"title": 7, "errors": [1, {"pointer": null}, {}], "detail": []})")),
            "The server refused the request.\n  : \n  : ");
  EXPECT_EQ(render_problem(json::object()), "The server refused the request.");
  EXPECT_EQ(render_problem(json::parse(R"({"title": "A\u001b[31m"})")), "A?[31m.");
}

TEST(FailureOf, AnAnswerThatIsNoProblemDocumentStillGivesAReason) {
  for (const char* body : {"", "<html>Bad Gateway</html>", "[]", "null", "{}"}) {
    const Failure failure = failure_of({502, "text/html", body});
    EXPECT_EQ(failure.exit, Exit::refused);
    EXPECT_NE(failure.message.find("502"), std::string::npos) << body;
  }
}

}  // namespace
}  // namespace lockstep::cli
