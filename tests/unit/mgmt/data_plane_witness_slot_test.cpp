// A node asks one witness, and takes another one only after it has let go of that.
#include <gtest/gtest.h>

#include "mgmt/data_plane/witness_slot.hpp"

namespace lockstep::data_plane {
namespace {

struct ASlot : testing::Test {
  engine::Reactor reactor;
  WitnessSlot slot{reactor};

  engine::Result<bool> use(const std::string& addresses, const replication::WitnessAccess& access = {}) {
    return slot.use({}, engine::NodeSide::a, {}, addresses, access);
  }
};
const std::string kOld = "http://127.0.0.1:1", kNew = "http://127.0.0.1:2";

TEST_F(ASlot, TakesAnotherWitnessOnlyAfterItAskedNone) {
  ASSERT_EQ(use(kOld).value_or(false), true);
  EXPECT_EQ(use(kOld).value_or(true), false) << "nothing differs";
  const auto refused = use(kNew);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find(kOld), std::string::npos) << refused.error().message;
  EXPECT_EQ(use(kOld).value_or(true), false) << "it asks the one that it asked";
  EXPECT_EQ(use("").value_or(false), true);
  EXPECT_FALSE(slot.configured());
  EXPECT_EQ(use(kNew).value_or(false), true);
  EXPECT_TRUE(slot.configured());
}

TEST_F(ASlot, WithoutAWitnessAnswersEachRequestWithAnError) {
  ASSERT_TRUE(use(kOld));
  std::error_code under_way, later;
  slot.read({}, [&](auto view) { under_way = view ? std::error_code{} : view.error(); });
  ASSERT_TRUE(use(""));
  slot.read({}, [&](auto view) { later = view ? std::error_code{} : view.error(); });
  reactor.post([this] { reactor.post([this] { reactor.stop(); }); });
  reactor.run();
  EXPECT_TRUE(under_way) << "what was on its way to the old one ends without an answer";
  EXPECT_TRUE(later);
}

}  // namespace
}  // namespace lockstep::data_plane
