#include "engine/rdma/check/fabric_check.hpp"

#include <algorithm>
#include <set>

namespace lockstep::rdma {
namespace {

/// A packet of RoCE beside its data: headers of IPv6 (in the room for a GRH), UDP, BTH, the longest extended ones, CRC.
constexpr std::uint64_t kRoceOverhead = 40 + 8 + 12 + 4 + 28 + 4;
constexpr std::uint64_t kLargestPacket = 4096;

std::string name_of(const ServedAddress& served) {
  return (served.of_link ? "the link's " : "the portal ") + served.address;
}

std::string speed_of(std::uint64_t megabits) {
  const std::uint64_t tenths = megabits / 100;
  return std::to_string(tenths / 10) + (tenths % 10 != 0 ? "." + std::to_string(tenths % 10) : "") + " Gb/s";
}

/// What a packet of RoCE carries over an interface: a power of two.
std::uint64_t packet_over(std::uint64_t mtu) {
  std::uint64_t packet = kLargestPacket;
  while (packet > 256 && packet + kRoceOverhead > mtu) packet /= 2;
  return packet;
}

/// Soft-RoCE says 2.5 Gb/s whatever is below it.
std::uint64_t speed_over(const PortView& port, const InterfaceView* interface) {
  if (port.link == LinkKind::infiniband) return port.megabits;
  return interface != nullptr ? interface->megabits : 0;
}

/// Everything about one address and the port below it.
class Place {
 public:
  Place(const ServedAddress& served, const PortView& port, const InterfaceView* interface,
        std::vector<Finding>& findings)
      : served_(served), port_(port), interface_(interface), findings_(findings) {}

  void judge(bool asked) {
    if (port_.link == LinkKind::iwarp) {
      if (asked) judge_iwarp();
      return;
    }
    if (!port_.active()) return judge_port();
    if (port_.link == LinkKind::roce) judge_roce();
    if (port_.link == LinkKind::infiniband && port_.lanes == 1) judge_lanes();
  }

 private:
  void judge_iwarp() {
    findings_.push_back({Severity::advice, "iwarp",
                         name_of(port_) + " below " + name_of(served_) +
                             " is an iWARP device, which lockstepd does not use: all goes over TCP.",
                         "If the device knows RoCE, too, set its driver to that."});
  }

  void judge_port() {
    const bool trained = port_.link == LinkKind::infiniband && (port_.state == "INIT" || port_.state == "ARMED");
    std::string how = port_.state + (port_.physical_state.empty() ? "" : ", " + port_.physical_state);
    findings_.push_back(
        {Severity::warning, "port_down",
         name_of(port_) + " below " + name_of(served_) + " on " + served_.interface + " is not active: it is " + how +
             ".",
         trained ? "The cable is good, but no subnet manager has set the port up: run one (opensm) on a node, or the "
                   "switch's."
                 : "Check the cable and what is at its other end, and that the interface is up (ip link set " +
                       served_.interface + " up)."});
  }

  void judge_roce() {
    const auto wanted = gid_of(served_.address);
    const auto ours = [&](const GidView& gid) {
      return wanted && gid.gid == *wanted && gid.interface == served_.interface;
    };
    if (wanted && std::ranges::none_of(port_.gids, ours))
      findings_.push_back({Severity::warning, "no_gid",
                           name_of(port_) + " has no GID for " + name_of(served_) + " of " + served_.interface +
                               ": nobody reaches it over RDMA.",
                           "Take the address from the interface and give it again. The files below "
                           "/sys/class/infiniband/" +
                               port_.device + "/ports/" + std::to_string(port_.number) + "/gids are what it has."});
    else if (std::ranges::none_of(port_.gids, [&](const GidView& gid) { return ours(gid) && gid.v2; }))
      findings_.push_back(
          {Severity::advice, "roce_v1",
           name_of(port_) + " has " + name_of(served_) +
               " for RoCE v1 alone: such packets pass no router, and devices with v2 take none.",
           "Turn RoCE v2 on, which is a setting of its driver or of its firmware; or have a device that "
           "knows v1 at the other end, too, in the same network."});
    else if (interface_ != nullptr && !port_.is_software)
      judge_flow_control(interface_->flow_control);
    if (interface_ != nullptr && interface_->mtu > 0) judge_mtu(interface_->mtu);
  }

  /// RoCE v2, by an interface that tells. The link is mostly a cable, and needs none of this there: of it something is
  /// said when packets got lost, or where the flow control that is on wants more.
  void judge_flow_control(const FlowControl& told) {
    if (!told.pfc || told.pfc->most == 0) return;
    const auto& ecn = interface_->ecn;
    if (const unsigned without = told.pfc->enabled & ~(ecn ? ecn->enabled() : 0xffU); without != 0) {
      const std::string priorities = priorities_text(without);
      findings_.push_back({Severity::advice, "no_ecn",
                           served_.interface + " with " + name_of(served_) + " has flow control (PFC) for " +
                               priorities + ", but does not go slower there when a switch marks a jam (ECN).",
                           "Through switches turn ECN on for " + priorities +
                               ", so that a jam is over before ports are stopped: the files of that number in "
                               "/sys/class/net/" +
                               served_.interface +
                               "/ecn, in roce_np/enable and in roce_rp/enable, take a 1; and on "
                               "the switch. On a cable between two machines it is not needed."});
    }
    const bool slows = (ecn && ecn->enabled() != 0) || has_marked(port_).value_or(false);
    if (served_.of_link || told.pfc->enabled != 0 || told.pause.value_or(false) || slows) return;
    findings_.push_back({Severity::advice, "no_flow_control",
                         served_.interface + " with " + name_of(served_) +
                             " has neither flow control (PFC) for any priority nor pause frames: a port or a switch "
                             "that can't keep up drops RDMA's packets, and each stops its connection for a moment.",
                         "Through switches turn PFC on for RDMA's priority, on this node, the hosts and the switch, or "
                         "ECN (docs/operator/rdma-hardware.md); on a cable pause frames do (ethtool -A " +
                             served_.interface + " rx on tx on). While no packets get lost nothing has to be done."});
  }

  void judge_mtu(std::uint64_t mtu) {
    const std::uint64_t packet = packet_over(mtu);
    if (packet == kLargestPacket) return;
    findings_.push_back({Severity::advice, "small_mtu",
                         served_.interface + " with " + name_of(served_) + " has an MTU of " + std::to_string(mtu) +
                             ": " + port_.device + " cuts what goes over RDMA into packets of " +
                             std::to_string(packet) + " bytes.",
                         "Set 4200 or more (9000 is usual) on this interface, at the other end and on the switches "
                         "between: packets have 4096 bytes then."});
  }

  void judge_lanes() {
    findings_.push_back({Severity::advice, "one_lane",
                         name_of(port_) + " below " + name_of(served_) +
                             " uses one lane of its cable: " + speed_of(port_.megabits) + ".",
                         "Look for a bad cable or plug; else the port at its other end has no more."});
  }

  const ServedAddress& served_;
  const PortView& port_;
  const InterfaceView* interface_;
  std::vector<Finding>& findings_;
};

/// Nothing where no address is on a device: then none of it is asked for.
void judge_memory(const FabricUse& use, std::size_t devices, std::vector<Finding>& findings) {
  const Pinning& pinning = use.pinning;
  const std::uint64_t each = pinning.each_device + (use.has_partner ? pinning.each_device_of_link : 0);
  const std::uint64_t needed = pinning.before + devices * each;
  if (devices == 0 || !pinning.limit || needed <= *pinning.limit) return;
  findings.push_back(
      {use.wanted() ? Severity::warning : Severity::advice, "memory_not_pinned",
       "For RDMA " + std::to_string(needed >> 20) + " MiB of memory have to be pinned, but lockstepd may pin " +
           std::to_string(*pinning.limit >> 20) + " MiB: connections over RDMA fail.",
       "Set LimitMEMLOCK=infinity in its unit (ulimit -l unlimited) and restart lockstepd; or lower buffer_mib "
       "or link_buffer_mib in lockstepd.toml."});
}

void judge_unused(const FabricView& seen, const FabricUse& use, std::vector<Finding>& findings) {
  if (!use.asked) return;
  if (seen.ports.empty()) {
    findings.push_back({Severity::warning, "no_device",
                        "lockstepd.toml asks for RDMA (rdma = \"on\"), but this machine has no RDMA device.",
                        "Look with `rdma link` whether the card's driver is loaded, and restart lockstepd when it is; "
                        "or leave it at \"auto\"."});
    return;
  }
  if (use.why_none.empty()) return;
  findings.push_back(
      {Severity::warning, "not_used",
       "This machine has RDMA (" + name_of(seen.ports.front()) +
           "), but lockstepd does not use it. What it found when it started: " + use.why_none,
       "Devices and the module rdma_ucm have to be there before lockstepd starts, and the packages rdma-core and "
       "ibverbs-providers be installed. Restart lockstepd then; hosts go on over the partner."});
}

/// Of the link's addresses: RDMA is taken before TCP, whatever is faster.
void judge_speeds(const FabricView& seen, const FabricUse& use, std::vector<Finding>& findings) {
  const ServedAddress* fastest = nullptr;
  std::uint64_t most = 0;
  for (const ServedAddress& served : use.addresses) {
    const InterfaceView* const interface = seen.interface(served.interface);
    if (!served.of_link || interface == nullptr || seen.port_of(served.interface) != nullptr) continue;
    if (interface->megabits > most) most = interface->megabits, fastest = &served;
  }
  for (const ServedAddress& served : use.addresses) {
    const PortView* const port = served.of_link ? seen.port_of(served.interface) : nullptr;
    if (port == nullptr || !port->active() || fastest == nullptr || !use.counts(served)) continue;
    const std::uint64_t speed = speed_over(*port, seen.interface(served.interface));
    if (speed == 0 || speed >= most) continue;
    findings.push_back(
        {Severity::advice, "slower_than_tcp",
         name_of(served) + " is on RDMA with " + speed_of(speed) + ", and " + name_of(*fastest) + " on " +
             fastest->interface + " without RDMA with " + speed_of(most) + ".",
         "RDMA is taken first all the same. Put the link's first path on the faster network, if its card "
         "knows RDMA, or take the slower path away."});
    findings.back().subject = served.address;
  }
}

void begin_as_sentence(std::vector<Finding>& findings) {
  for (Finding& finding : findings)
    if (finding.message.starts_with("the ")) finding.message.front() = 'T';
}

}  // namespace

std::string name_of(const PortView& port) { return port.device + "/" + std::to_string(port.number); }

std::optional<Finding> link_without_rdma(bool asked, const std::string& why_not) {
  if (!asked || why_not.empty()) return {};
  return Finding{Severity::advice, "link_over_tcp", "The link goes over TCP: " + why_not,
                 "RDMA carries it where both nodes have a device on the same network "
                 "(lockstep link tells of each path). With rdma = \"auto\" this is not told."};
}

std::vector<Finding> FabricCheck::look(const FabricView& seen, const FabricUse& use, engine::TimePoint now) {
  std::vector<Finding> findings;
  std::set<std::string> devices;
  std::set<PortName> used;
  for (const PortView& port : seen.ports) compare(port, now);
  std::size_t named = 0;
  const auto name_new = [&](const std::string& subject) {
    for (; named < findings.size(); ++named) findings[named].subject = subject;
  };
  for (const ServedAddress& served : use.addresses) {
    const PortView* const port = seen.port_of(served.interface);
    if (served.interface.empty() || port == nullptr) continue;
    devices.insert(port->device);
    if (!use.counts(served)) continue;
    Place(served, *port, seen.interface(served.interface), findings).judge(use.asked);
    name_new(name_of(*port) + " " + served.address);
    if (used.emplace(port->device, port->number).second)
      judge_growth(*port, seen.interface(served.interface), now, findings);
    name_new(name_of(*port));
  }
  for (const ServedAddress& served : use.addresses) {
    if (!use.asked || seen.ports.empty() || served.interface.empty() || seen.port_of(served.interface)) continue;
    findings.push_back(
        {devices.empty() ? Severity::warning : Severity::advice, "address_elsewhere",
         name_of(served) + " is on " + served.interface + ", and no RDMA device is: it is reached over TCP.",
         "Give this node an address on the interface of an RDMA device (`rdma link` lists them), and use "
         "that."});
    findings.back().subject = served.address;
  }
  judge_unused(seen, use, findings);
  if (use.why_none.empty()) judge_memory(use, devices.size(), findings);
  judge_speeds(seen, use, findings);
  begin_as_sentence(findings);
  std::ranges::stable_sort(findings, std::ranges::greater(), &Finding::severity);
  return findings;
}

}  // namespace lockstep::rdma
