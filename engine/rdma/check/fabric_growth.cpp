// What counters tell by growing. Their names are the standard's and each driver's own.
#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string_view>

#include "engine/rdma/check/fabric_check.hpp"

namespace lockstep::rdma {
namespace {

struct Counter {
  std::string_view name;
  std::uint64_t most;      ///< a minute: what grows more is told
  std::uint64_t full = 0;  ///< where it stops counting; 0: never
};
using Counters = std::span<const Counter>;

// Growth in a minute. A packet that is lost is one event, and up to some 250 that came behind it and have to come
// again.
constexpr std::uint64_t kFewEvents = 60;
constexpr std::uint64_t kPackets = 250 * kFewEvents;
constexpr std::uint64_t kUnexpected = 10;  ///< what never is where all is well
/// A partner that loses its power gives some for each connection until that is given up.
constexpr std::uint64_t kTimeouts = 300;

// mlx5, rxe, bnxt_re, irdma; a name means the same to all that have it.
constexpr Counter kLost[] = {
    {"packet_seq_err", kFewEvents},     {"implied_nak_seq_err", kFewEvents}, {"local_ack_timeout_err", kTimeouts},
    {"out_of_sequence", kPackets},      {"roce_adp_retrans", kFewEvents},    {"rcvd_seq_err", kFewEvents},
    {"out_of_seq_request", kFewEvents}, {"completer_retry_err", kTimeouts},  {"to_retransmits", kTimeouts},
    {"seq_err_naks_rcvd", kFewEvents},  {"oos_drop_count", kPackets},        {"RetransSegs", kPackets},
    {"tcpRetransSegs", kPackets},       {"rx_roce_discards", kFewEvents}};
constexpr Counter kWithoutReceive[] = {{"rnr_nak_retry_err", kUnexpected}, {"out_of_buffer", kUnexpected},
                                       {"rcvd_rnr_err", kUnexpected},      {"send_rnr_err", kUnexpected},
                                       {"rnr_naks_rcvd", kUnexpected},     {"rx_out_of_buffer", kUnexpected},
                                       {"RNR sent", kUnexpected},          {"RNR received", kUnexpected}};
// The standard's PortCounters have few bits.
constexpr Counter kDamaged[] = {{"symbol_error", kFewEvents, 65535},
                                {"port_rcv_errors", kFewEvents, 65535},
                                {"port_rcv_remote_physical_errors", kFewEvents, 65535},
                                {"rx_icrc_encapsulated", kFewEvents}};
/// As damage, and so rare that one look is enough.
constexpr Counter kBroken[] = {{"link_error_recovery", 3, 255},
                               {"local_link_integrity_errors", 1, 15},
                               {"excessive_buffer_overrun_errors", 1, 15}};
constexpr Counter kMarked[] = {
    {"np_ecn_marked_roce_packets", 0}, {"rp_cnp_handled", 0}, {"RxECNMrkd", 0}, {"cnpHandled", 0}};

struct Kind {
  const char* id;
  Counters counters;
  bool at_once;  ///< else when it grew at two looks in a row: a moment's trouble is over when it is told
};
constexpr std::array kKinds = {Kind{"packets_lost", kLost, false}, Kind{"no_receive", kWithoutReceive, true},
                               Kind{"damaged", kDamaged, false}, Kind{"broken", kBroken, true}};

std::optional<std::uint64_t> counter_of(const std::map<std::string, std::uint64_t>& counters, std::string_view name) {
  const auto at = counters.find(std::string(name));
  if (at == counters.end()) return {};
  return at->second;
}

/// What is known of its flow control: sentences, each with a space in front.
std::string state_of(const PortView& port, const InterfaceView* found) {
  if (found == nullptr || port.is_software) return {};
  const InterfaceView& interface = *found;
  std::string said;
  if (const auto& pfc = interface.flow_control.pfc; pfc && pfc->enabled != 0)
    said += " PFC is on for " + priorities_text(pfc->enabled) + " of " + interface.name +
            ": look whether RDMA's packets go by that, and whether the switch has it, too.";
  else if (pfc)
    said += " PFC is on for no priority of " + interface.name + ".";
  if (const auto pause = interface.flow_control.pause; pause && !*pause)
    said += " Pause frames are off there, one way at least.";
  if (interface.ecn && interface.ecn->enabled() == 0) said += " ECN is off there, too.";
  return said;
}

std::string against_loss(const PortView& port) {
  if (port.link == LinkKind::infiniband)
    return "InfiniBand loses nothing by itself: look for a bad cable or plug, and for errors on the switch's ports.";
  std::string what =
      "Have the network lose none of it: flow control for its priority (PFC) on both nodes' ports and the "
      "switch's, or a switch that marks packets before its queues are full (ECN); on a cable without a "
      "switch pause frames (ethtool -A), and look at the cable.";
  if (!has_marked(port).value_or(true)) what += " No packet has come marked (ECN) since the driver was loaded.";
  return what;
}

constexpr const char* kMend =
    "Clean or change the cable and its plugs; if it goes on, move to another port of the switch, then of the card.";

/// Nothing can be said of its growth. On Ethernet no subnet management sets counters back.
void judge_full(const PortView& port, const InterfaceView* interface, std::string_view counter, std::uint64_t full,
                std::vector<Finding>& findings) {
  findings.push_back(
      {Severity::advice, "counter_full",
       name_of(port) + " counts no more damage in " + std::string(counter) + ": it is at its end, " +
           std::to_string(full) + ".",
       port.link == LinkKind::infiniband
           ? "Look at the cable and its plugs, and set the port's counters back (perfquery -R, of the package "
             "infiniband-diags), so that it is seen whether more comes."
           : "Look at the cable and its plugs, and in what the interface itself counts (ethtool -S" +
                 (interface != nullptr ? " " + interface->name : "") +
                 ") whether more comes: this counter begins anew when the device's driver is loaded anew."});
}

}  // namespace

std::optional<bool> has_marked(const PortView& port) {
  std::optional<bool> marked;
  for (const Counter& counter : kMarked)
    if (const auto value = counter_of(port.counters, counter.name)) marked = marked.value_or(false) || *value > 0;
  return marked;
}

std::string priorities_text(unsigned bits) {
  std::string text;
  for (unsigned priority = 0; priority < 8; ++priority)
    if ((bits >> priority & 1) != 0) text += (text.empty() ? "" : ", ") + std::to_string(priority);
  return (text.size() > 1 ? "priorities " : "priority ") + text;
}

std::vector<PortCounter> counters_of(const FabricView& seen, const FabricUse& use) {
  constexpr std::array<std::pair<const char*, Counters>, 5> kTold{{{"packets_lost", kLost},
                                                                   {"no_receive", kWithoutReceive},
                                                                   {"damaged", kDamaged},
                                                                   {"damaged", kBroken},
                                                                   {"marked", kMarked}}};
  std::vector<PortCounter> told;
  std::set<const PortView*> ports;
  for (const ServedAddress& served : use.addresses) {
    const PortView* const port = served.interface.empty() ? nullptr : seen.port_of(served.interface);
    if (port == nullptr || !ports.insert(port).second) continue;
    for (const auto& [kind, counters] : kTold)
      for (const Counter& counter : counters)
        if (const auto value = counter_of(port->counters, counter.name))
          told.push_back({port->device, port->number, kind, std::string(counter.name), *value});
  }
  return told;
}

/// A counter that went back is one that began anew.
void FabricCheck::compare(const PortView& port, engine::TimePoint now) {
  const auto [at, is_new] = known_.try_emplace({port.device, port.number}, Known{port.counters, now, {}, {}});
  Known& known = at->second;
  const engine::Duration apart = now - known.at;
  if (is_new || apart < kLeastApart) return;
  const double minutes = std::chrono::duration<double, std::ratio<60>>(apart).count();
  for (const Kind& kind : kKinds) {
    if (port.link == LinkKind::iwarp && kind.counters.data() == kLost) continue;  // every TCP sends again
    Growth worst;
    for (const auto& [name, most, full] : kind.counters) {
      const auto before = counter_of(known.counters, name);
      const auto after = counter_of(port.counters, name);
      if (!before || !after || *after <= *before) continue;
      const auto by = static_cast<std::uint64_t>(std::llround(static_cast<double>(*after - *before) / minutes));
      if (by >= most && by > worst.by) worst = {std::string(name), by, now};
    }
    const bool rises = worst.by > 0;
    const bool again = known.rising.contains(kind.id);
    if (rises && (kind.at_once || again)) known.grown[kind.id] = std::move(worst);
    rises ? void(known.rising.insert(kind.id)) : void(known.rising.erase(kind.id));
  }
  known.counters = port.counters;
  known.at = now;
}

void FabricCheck::judge_growth(const PortView& port, const InterfaceView* interface, engine::TimePoint now,
                               std::vector<Finding>& findings) {
  Known& known = known_.at({port.device, port.number});
  std::erase_if(known.grown, [&](const auto& each) { return now - each.second.at > kRemembered; });
  const std::string name = name_of(port);
  const auto growth = [&](const char* id) -> std::optional<std::string> {
    const auto at = known.grown.find(id);
    if (at == known.grown.end()) return {};
    return " In a minute of the last ten " + at->second.counter + " grew by " + std::to_string(at->second.by) + ".";
  };
  if (const auto how = growth("packets_lost"))
    findings.push_back({Severity::warning, "packets_lost",
                        "Packets get lost over " + name + ", and each stops its connection for a moment." + *how,
                        against_loss(port) + state_of(port, interface)});
  if (const auto how = growth("no_receive"))
    findings.push_back(
        {Severity::advice, "no_receive", "Messages over " + name + " found no receive at one end." + *how,
         "lockstepd has a receive for each message that may come: look for another program that uses this "
         "device. If there is none, it is a defect: please report it with lockstepd's log."});
  auto how = growth("broken");
  if (!how) how = growth("damaged");
  if (how) findings.push_back({Severity::warning, "damaged", name + " receives damaged packets." + *how, kMend});
  for (const Counters counters : {Counters(kDamaged), Counters(kBroken)})
    for (const auto& [counter, most, full] : counters)
      if (full != 0 && counter_of(port.counters, counter) == full) judge_full(port, interface, counter, full, findings);
}

}  // namespace lockstep::rdma
