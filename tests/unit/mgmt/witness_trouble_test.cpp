// A pair in use gets another witness, and something dies at some step: no two nodes ever ask two witnesses.
#include "tests/unit/mgmt/witnessed_pair.hpp"

namespace lockstep::mgmt::witnessed {
namespace {

/// What may come before a turn, and go some turns later.
struct Trouble {
  const char* name;
  std::function<void()> comes;
  std::function<void()> goes = [] {};
};

class TroubledChange : public WitnessJobsTest {
 protected:
  std::vector<Trouble> troubles() {
    return {{"management killed", [this] { restart(); }},
            {"b dies", [this] { plane_.nodes[1].runs = false; }, [this] { plane_.come_back(); }},
            {"a's lockstepd dies", [this] { plane_.nodes[0].runs = false; }, [this] { plane_.come_back(); }},
            {"b's management is away", [this] { plane_.b_answers = false; }, [this] { plane_.b_answers = true; }},
            {"b is gone as a whole", [this] { plane_.nodes[1].runs = plane_.b_answers = false; },
             [this] {
               plane_.b_answers = true;
               plane_.come_back();
             }},
            {"b is told late", [this] { plane_.nodes[1].is_told = false; }, [this] { plane_.nodes[1].is_told = true; }},
            {"the new one dies for good", [this] { plane_.dead.insert(kNew); }},
            {"the old one dies for good", [this] { plane_.dead.insert(kOld); }}};
  }
  /// The pair of the beginning, without the cost of a new database.
  void renew() {
    plane_ = {};
    plane_.core = core_.get();
    ASSERT_TRUE(core_->revisions.change(
        "As before",
        [](Configuration& c) -> Outcome<void> {
          c.pair->arbiter.endpoints = {kOld};
          return {};
        },
        nullptr));
    plane_.turn();
  }
  void take_late_turns(const Uuid& id, int times) {
    for (int i = 0; i < times; ++i) {
      if (!job(id).finished()) age(id);
      turns(2);
    }
  }
  Job play(const Trouble& first, const Trouble& second, int at, bool cancelled) {
    renew();
    const auto begun = change();
    EXPECT_TRUE(begun) << begun.error().detail;
    if (!begun) return {};
    turns(at);
    first.comes();
    turn();
    second.comes();
    turn();
    if (cancelled) (void)cancel_job(*core_, begun->id);
    take_late_turns(begun->id, 2);
    first.goes();
    take_late_turns(begun->id, 2);
    second.goes();
    take_late_turns(begun->id, 5);
    return job(begun->id);
  }
};

/// Every two troubles, before each turn: no two witnesses are ever asked (Lockstepds::judge), and in the end both nodes
/// ask the one that the job names.
TEST_F(TroubledChange, LetsNoTwoNodesAskTwoWitnessesAndEnds) {
  const auto all = troubles();
  unsigned done = 0, failed = 0;
  for (std::size_t first = 0; first < all.size(); ++first)
    for (std::size_t second = first; second < all.size(); ++second)
      for (int at = 0; at < 3; ++at) {
        const bool cancelled = (first + second + static_cast<std::size_t>(at)) % 4 == 0;
        SCOPED_TRACE(std::string(all[first].name) + ", " + all[second].name + ", before turn " + std::to_string(at) +
                     (cancelled ? ", cancelled" : ""));
        const Job ended = play(all[first], all[second], at, cancelled);
        EXPECT_TRUE(ended.finished()) << ended.step << ": " << ended.message;
        EXPECT_FALSE(arbiter().changing);
        const std::string named = ended.state == JobState::done ? kNew : kOld;
        EXPECT_EQ(arbiter().endpoints.front(), named) << ended.message;
        EXPECT_EQ(plane_.nodes[0].asks, named);
        EXPECT_EQ(plane_.nodes[1].asks, named);
        if (HasFailure()) return;
        ++(ended.state == JobState::done ? done : failed);
      }
  EXPECT_GT(done, 10u);
  EXPECT_GT(failed, 10u);
}

}  // namespace
}  // namespace lockstep::mgmt::witnessed
