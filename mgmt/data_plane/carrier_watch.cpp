#include "mgmt/data_plane/carrier_watch.hpp"

#include <utility>

namespace lockstep::data_plane {

using replication::PathTransport;

namespace {

std::string seconds(engine::Duration time) {
  const auto tenths = std::chrono::duration_cast<std::chrono::milliseconds>(time).count() / 100;
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " s";
}

}  // namespace

/// What carried at the last look is taken to have done so until this one.
void CarrierWatch::count_time(std::optional<PathTransport> carries, engine::TimePoint now) {
  const auto before = std::exchange(carries_, carries);
  const engine::Duration passed = now - std::exchange(looked_, now);
  if (before) (*before == PathTransport::rdma ? carried_.by_rdma : carried_.by_tcp) += passed;
}

std::optional<std::string> CarrierWatch::look(std::optional<PathTransport> carries, const std::string& why_not_rdma,
                                              engine::TimePoint now) {
  count_time(carries, now);
  if (!carries || carries == last_) return std::nullopt;
  const auto before = last_;
  const engine::Duration lasted = now - since_;
  last_ = carries;
  since_ = now;
  if (before) {
    ++(carries == PathTransport::rdma ? carried_.to_rdma : carried_.to_tcp);
    carried_.last = {*carries, now, lasted, carries == PathTransport::tcp ? why_not_rdma : ""};
  }
  if (carries == PathTransport::rdma)
    return before ? "RDMA carries the data, after " + seconds(lasted) + " by TCP." : "RDMA carries the data.";
  // A link that was never over RDMA says nothing new by that.
  if (!before) return std::nullopt;
  return "TCP carries the data, after " + seconds(lasted) + " by RDMA. " + why_not_rdma;
}

}  // namespace lockstep::data_plane
