// What counters tell by growing. Their names are the standard's and each driver's own.
#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include "engine/rdma/check/fabric_check.hpp"

namespace lockstep::rdma {
namespace {

using Names = std::span<const std::string_view>;

// mlx5, rxe, bnxt_re, irdma; a name means the same to all that have it.
constexpr std::string_view kLost[] = {
    "packet_seq_err", "implied_nak_seq_err", "local_ack_timeout_err", "out_of_sequence", "roce_adp_retrans",
    "rcvd_seq_err",   "out_of_seq_request",  "completer_retry_err",   "to_retransmits",  "seq_err_naks_rcvd",
    "oos_drop_count", "RetransSegs",         "tcpRetransSegs",        "rx_roce_discards"};
constexpr std::string_view kWithoutReceive[] = {"rnr_nak_retry_err", "out_of_buffer", "rcvd_rnr_err",
                                                "send_rnr_err",      "rnr_naks_rcvd", "rx_out_of_buffer",
                                                "RNR sent",          "RNR received"};
constexpr std::string_view kDamaged[] = {"symbol_error",
                                         "link_error_recovery",
                                         "port_rcv_errors",
                                         "port_rcv_remote_physical_errors",
                                         "local_link_integrity_errors",
                                         "excessive_buffer_overrun_errors",
                                         "rx_icrc_encapsulated"};
constexpr std::string_view kMarked[] = {"np_ecn_marked_roce_packets", "rp_cnp_handled", "RxECNMrkd", "cnpHandled"};

struct Kind {
  const char* id;
  Names counters;
  std::uint64_t most;  ///< a minute
};
constexpr std::array kKinds = {Kind{"packets_lost", kLost, FabricCheck::kOften},
                               Kind{"no_receive", kWithoutReceive, FabricCheck::kUnexpected},
                               Kind{"damaged", kDamaged, FabricCheck::kOften}};

std::optional<std::uint64_t> counter_of(const std::map<std::string, std::uint64_t>& counters, std::string_view name) {
  const auto at = counters.find(std::string(name));
  if (at == counters.end()) return {};
  return at->second;
}

/// None of the counters of marked packets is above 0, and there is one.
bool marks_nothing(const PortView& port) {
  bool counts = false;
  for (const std::string_view name : kMarked) {
    const auto value = counter_of(port.counters, name);
    if (value.value_or(0) > 0) return false;
    counts |= value.has_value();
  }
  return counts;
}

std::string against_loss(const PortView& port) {
  if (port.link == LinkKind::infiniband)
    return "InfiniBand loses nothing by itself: look for a bad cable or plug, and for errors on the switch's ports.";
  std::string what =
      "Have the network lose none of it: flow control for its priority (PFC) on both nodes' ports and the "
      "switch's, or a switch that marks packets before its queues are full (ECN); on a cable without a "
      "switch pause frames (ethtool -A), and look at the cable.";
  if (marks_nothing(port)) what += " No packet has come marked (ECN) since the driver was loaded.";
  return what;
}

}  // namespace

/// A counter that went back is one that began anew.
void FabricCheck::compare(const PortView& port, engine::TimePoint now) {
  const auto [at, is_new] = known_.try_emplace({port.device, port.number}, Known{port.counters, now, {}});
  Known& known = at->second;
  const engine::Duration apart = now - known.at;
  if (is_new || apart < kLeastApart) return;
  const double minutes = std::chrono::duration<double, std::ratio<60>>(apart).count();
  for (const Kind& kind : kKinds) {
    Growth worst;
    for (const std::string_view name : kind.counters) {
      const auto before = counter_of(known.counters, name);
      const auto after = counter_of(port.counters, name);
      if (!before || !after || *after <= *before) continue;
      const auto by = static_cast<std::uint64_t>(static_cast<double>(*after - *before) / minutes);
      if (by > worst.by) worst = {std::string(name), by, now};
    }
    if (worst.by >= kind.most) known.grown[kind.id] = std::move(worst);
  }
  known.counters = port.counters;
  known.at = now;
}

void FabricCheck::judge_growth(const PortView& port, engine::TimePoint now, std::vector<Finding>& findings) {
  Known& known = known_.at({port.device, port.number});
  std::erase_if(known.grown, [&](const auto& each) { return now - each.second.at > kRemembered; });
  const std::string name = port.device + "/" + std::to_string(port.number);
  const auto growth = [&](const char* id) -> std::optional<std::string> {
    const auto at = known.grown.find(id);
    if (at == known.grown.end()) return {};
    return " In a minute of the last ten " + at->second.counter + " grew by " + std::to_string(at->second.by) + ".";
  };
  if (const auto how = growth("packets_lost"))
    findings.push_back({Severity::warning, "packets_lost",
                        "Packets get lost over " + name + ", and each stops its connection for a moment." + *how,
                        against_loss(port)});
  if (const auto how = growth("no_receive"))
    findings.push_back(
        {Severity::warning, "no_receive", "Messages over " + name + " found no receive at one end." + *how,
         "lockstepd has a receive for each message that may come: look for another program that uses this "
         "device. If there is none, it is a defect: please report it with lockstepd's log."});
  if (const auto how = growth("damaged"))
    findings.push_back(
        {Severity::warning, "damaged", name + " receives damaged packets." + *how,
         "Clean or change the cable and its plugs; if it goes on, move to another port of the switch, then "
         "of the card."});
}

}  // namespace lockstep::rdma
