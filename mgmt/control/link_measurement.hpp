#pragma once
// How fast a path of the link was found to be, and what stands out: pure.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <boost/describe/class.hpp>

#include "mgmt/control/network_interface.hpp"
#include "mgmt/control/node_report.hpp"
#include "mgmt/control/refusal.hpp"

namespace lockstep::mgmt {

struct SizeMeasured {
  std::int64_t bytes = 0;        ///< of a request
  std::int64_t round_trips = 0;  ///< that were measured, one after the other
  double least_us = 0;           ///< microseconds, of round trips one after the other
  double median_us = 0;
  double p99_us = 0;
  std::int64_t bytes_a_second = 0;  ///< of some at once
  bool operator==(const SizeMeasured&) const = default;
};
BOOST_DESCRIBE_STRUCT(SizeMeasured, (), (bytes, round_trips, least_us, median_us, p99_us, bytes_a_second))

struct LinkMeasured {
  std::vector<SizeMeasured> sizes;
  bool copied = false;  ///< over RDMA: a processor copied what was sent, for want of memory that the network card knows
  bool operator==(const LinkMeasured&) const = default;
};

/// What lockstepd answers to link.test. Refusal data_plane_away: it makes no sense.
[[nodiscard]] Outcome<LinkMeasured> link_measured_from(std::string_view json);

/// Whole sentences, each with what to do; none where nothing stands out. `here`: without a name where it is not known.
[[nodiscard]] std::vector<std::string> findings_of(const std::vector<SizeMeasured>& sizes, const LinkPathStatus& path,
                                                   const NetworkInterface& here);
/// Of the same path over RDMA. `fabric`: what lockstepd has found of the machine's RDMA.
[[nodiscard]] std::vector<std::string> findings_over_rdma(const LinkMeasured& measured, const NetworkInterface& here,
                                                          const std::vector<FabricFinding>& fabric);

}  // namespace lockstep::mgmt
