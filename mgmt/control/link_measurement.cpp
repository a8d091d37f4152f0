#include "mgmt/control/link_measurement.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace lockstep::mgmt {
namespace {

constexpr double kSlowRoundTripUs = 1000;
constexpr double kUnsteady = 10;          // times the median
constexpr double kManySentAgain = 0.001;  // of the packets
constexpr double kLittleOfTheSpeed = 0.6;
constexpr std::uint64_t kJumbo = 9000;
constexpr std::uint64_t kFastMegabits = 10'000;

std::string in_milliseconds(double us) { return fmt::format("{:.2f} ms", us / 1000); }

void judge_time(const SizeMeasured& small, std::vector<std::string>& findings) {
  if (small.median_us > kSlowRoundTripUs)
    findings.push_back(fmt::format(
        "A round trip takes {}, and every write waits for one. Up to 1 ms is usual between servers of one site: "
        "look for a slow switch, a detour, or processors that are busy or asleep.",
        in_milliseconds(small.median_us)));
  if (small.p99_us > kSlowRoundTripUs && small.p99_us > kUnsteady * small.median_us)
    findings.push_back(
        fmt::format("One round trip in a hundred takes {} and more, where half of them take {}: something "
                    "else fills this network for moments, or the processors of a node are busy.",
                    in_milliseconds(small.p99_us), in_milliseconds(small.median_us)));
}

void judge_losses(const LinkPathStatus& path, std::vector<std::string>& findings) {
  const auto again = static_cast<double>(path.segments_sent_again);
  if (again < 10 || again < kManySentAgain * static_cast<double>(path.segments_out)) return;
  findings.push_back(
      fmt::format("{} of {} packets that this connection sent had to be sent again: look for a bad cable, "
                  "errors on a port, or a switch that drops packets.",
                  path.segments_sent_again, path.segments_out));
}

void judge_packets(const LinkPathStatus& path, const NetworkInterface& here, std::vector<std::string>& findings) {
  const auto path_mtu = static_cast<std::uint64_t>(path.path_mtu);
  if (here.mtu >= kJumbo && path_mtu > 0 && path_mtu < kJumbo)
    findings.push_back(
        fmt::format("{} here takes packets of {} bytes, but only {} get through to the partner: set one MTU on "
                    "both nodes and the switches between them.",
                    here.name, here.mtu, path_mtu));
  if (here.megabits >= kFastMegabits && here.mtu > 0 && here.mtu < kJumbo)
    findings.push_back(
        fmt::format("{} here has an MTU of {} at {} Gb/s. With 9000 on both nodes and the switches between "
                    "them the processors have less to do.",
                    here.name, here.mtu, here.megabits / 1000));
}

void judge_speed(const SizeMeasured& large, const NetworkInterface& here, std::vector<std::string>& findings) {
  const double megabits = static_cast<double>(large.bytes_a_second) * 8 / 1e6;
  if (here.megabits == 0 || megabits >= kLittleOfTheSpeed * static_cast<double>(here.megabits)) return;
  findings.push_back(
      fmt::format("{:.0f} Mb/s get through of the {} Mb/s that {} here has: the partner's end or a switch is "
                  "slower, other traffic takes the rest, or a processor is the limit.",
                  megabits, here.megabits, here.name));
}

SizeMeasured size_from(const nlohmann::json& one) {
  return {one.at("bytes").get<std::int64_t>(), one.at("round_trips").get<std::int64_t>(),
          one.at("least_us").get<double>(),    one.at("median_us").get<double>(),
          one.at("p99_us").get<double>(),      one.at("bytes_a_second").get<std::int64_t>()};
}

}  // namespace

Outcome<LinkMeasured> link_measured_from(std::string_view text) {
  LinkMeasured measured;
  try {
    const auto said = nlohmann::json::parse(text);
    for (const auto& one : said.at("sizes")) measured.sizes.push_back(size_from(one));
    measured.copied = said.value("copied", false);  // a lockstepd of before does not tell
  } catch (const nlohmann::json::exception&) {
    return refuse(RefusalKind::data_plane_away,
                  "lockstepd answered what makes no sense; it may be of another version. Restart it after an upgrade.");
  }
  return measured;
}

std::vector<std::string> findings_of(const std::vector<SizeMeasured>& sizes, const LinkPathStatus& path,
                                     const NetworkInterface& here) {
  std::vector<std::string> findings;
  if (sizes.empty()) return findings;
  const auto [small, large] = std::ranges::minmax(sizes, {}, &SizeMeasured::bytes);
  judge_time(small, findings);
  judge_losses(path, findings);
  judge_packets(path, here, findings);
  judge_speed(large, here, findings);
  return findings;
}

std::vector<std::string> findings_over_rdma(const LinkMeasured& measured, const NetworkInterface& here,
                                            const std::vector<FabricFinding>& fabric) {
  std::vector<std::string> findings;
  if (measured.copied)
    findings.push_back(
        "This node had no memory left that the network card knows, so that a processor copied what was sent, and "
        "that was measured, too: measure again when less is under way.");
  if (!measured.sizes.empty()) {
    const auto [small, large] = std::ranges::minmax(measured.sizes, {}, &SizeMeasured::bytes);
    judge_time(small, findings);
    judge_speed(large, here, findings);
  }
  for (const FabricFinding& finding : fabric) findings.push_back(finding.message + " " + finding.advice);
  return findings;
}

}  // namespace lockstep::mgmt
