#include "mgmt/data_plane/fence_orders.hpp"

#include <utility>

namespace lockstep::data_plane {

using replication::FenceEnd;

void FenceOrders::power_off(unsigned shard, engine::TimePoint since, Done done) {
  Orders& orders = began_ && *began_ >= since ? under_way_ : waiting_;
  orders.insert_or_assign(shard, std::move(done));
  if (!began_) begin();
}

void FenceOrders::begin() {
  if (waiting_.empty()) return;
  if (!fence_.configured()) return end_all();
  under_way_ = std::exchange(waiting_, {});
  began_ = clock_.now();
  fence_.power_off(*began_, [this](const FenceEnd& how) { end(how); });
}

/// Who hears of it may order again.
void FenceOrders::end(const FenceEnd& how) {
  began_.reset();
  auto over = std::exchange(under_way_, {});
  begin();
  answer(std::move(over), how);
}

void FenceOrders::answer(Orders orders, const FenceEnd& how) {
  for (auto& [shard, done] : orders) done(how);
}

/// A command goes on for those that wait for the next one: two at one device get into one another's way.
void FenceOrders::stop(unsigned shard) {
  waiting_.erase(shard);
  under_way_.erase(shard);
  if (!began_ || !under_way_.empty() || !waiting_.empty()) return;
  began_.reset();
  fence_.stop();
}

void FenceOrders::end_all() {
  auto over = std::exchange(under_way_, {});
  over.merge(waiting_);
  waiting_.clear();
  if (std::exchange(began_, std::nullopt)) fence_.stop();
  answer(std::move(over), {"The fence is not in use any more.", clock_.now()});
}

}  // namespace lockstep::data_plane
