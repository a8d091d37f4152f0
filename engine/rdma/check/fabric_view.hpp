#pragma once
// What the system tells of the RDMA devices and network interfaces of a machine, as values.
#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/rdma/check/dcb_format.hpp"

namespace lockstep::rdma {

using Gid = std::array<std::uint8_t, 16>;

/// Of an IP address without a port, or of a GID as the kernel writes it; IPv4 as ::ffff:a.b.c.d.
[[nodiscard]] std::optional<Gid> gid_of(const std::string& text);

/// One that is in use, of a port's table.
struct GidView {
  Gid gid{};
  bool v2 = false;        ///< RoCE v2: in UDP
  std::string interface;  ///< that it is of; empty: not told, as on InfiniBand
};

enum class LinkKind : std::uint8_t { infiniband, roce, iwarp };

struct PortView {
  std::string device;
  unsigned number = 0;
  LinkKind link{};
  bool is_software = false;    ///< Soft-RoCE: the interface's packets are those of any other program
  std::string state;           ///< "ACTIVE", "DOWN", "INIT" …
  std::string physical_state;  ///< "LinkUp", "Polling" …
  std::uint64_t megabits = 0;  ///< a second, as the device says: of RoCE the interface knows better
  unsigned lanes = 0;
  std::vector<GidView> gids;
  std::map<std::string, std::uint64_t> counters;  ///< the standard's and the driver's own

  [[nodiscard]] bool active() const { return state == "ACTIVE"; }
};

/// What keeps packets from getting lost; nothing: it can't be read.
struct FlowControl {
  std::optional<PriorityFlowControl> pfc;
  std::optional<bool> pause;  ///< frames that stop all of the port's packets (IEEE 802.3x), both ways
};

/// Whether a device answers marks of a jam (ECN) by going slower. Bit n: priority n.
struct CongestionControl {
  std::uint8_t tells = 0;  ///< a sender, when its packets come marked
  std::uint8_t heeds = 0;  ///< as a sender that is told
  [[nodiscard]] unsigned enabled() const { return tells & heeds; }
};

struct InterfaceView {
  std::string name;
  std::uint64_t mtu = 0;       ///< bytes; 0: not known
  std::uint64_t megabits = 0;  ///< a second; 0: not known
  bool carrier = false;
  std::optional<Gid> port;  ///< the InfiniBand port's that it is on
  FlowControl flow_control;
  std::optional<CongestionControl> ecn;  ///< of RoCE v2; nothing: its driver does not tell
};

struct FabricView {
  std::vector<PortView> ports;
  std::vector<InterfaceView> interfaces;  ///< none where there is no RDMA device

  [[nodiscard]] const InterfaceView* interface(std::string_view name) const;
  /// The port below an interface; null: it is on no RDMA device.
  [[nodiscard]] const PortView* port_of(std::string_view interface) const;
};

using AskFlowControl = FlowControl (*)(const std::string& interface);

/// Reads `root`/sys/class/infiniband and `root`/sys/class/net, and asks for the flow control of interfaces that RoCE
/// goes over. A driver may ask its device for each counter: takes
/// milliseconds, and may sleep. What can't be read is left out.
[[nodiscard]] FabricView look_at_fabric(const std::filesystem::path& root, AskFlowControl ask);

}  // namespace lockstep::rdma
