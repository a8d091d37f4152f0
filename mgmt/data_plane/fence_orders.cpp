#include "mgmt/data_plane/fence_orders.hpp"

#include <utility>

namespace lockstep::data_plane {

void FenceOrders::power_off(unsigned shard, Done done) {
  waiting_[shard] = std::move(done);
  if (under_way_.empty()) begin();
}

void FenceOrders::begin() {
  under_way_ = std::exchange(waiting_, {});
  if (under_way_.empty()) return;
  fence_.power_off([this](const std::string& problem) { end(problem); });
}

/// Who hears of it may order again.
void FenceOrders::end(const std::string& problem) {
  auto over = std::exchange(under_way_, {});
  begin();
  for (auto& [shard, done] : over) done(problem);
}

void FenceOrders::stop(unsigned shard) {
  waiting_.erase(shard);
  if (under_way_.erase(shard) == 0 || !under_way_.empty()) return;
  fence_.stop();
  begin();
}

}  // namespace lockstep::data_plane
