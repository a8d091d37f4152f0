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
  std::string state;           ///< "ACTIVE", "DOWN", "INIT" …
  std::string physical_state;  ///< "LinkUp", "Polling" …
  std::uint64_t megabits = 0;  ///< a second, as the device says: of RoCE the interface knows better
  unsigned lanes = 0;
  std::vector<GidView> gids;
  std::map<std::string, std::uint64_t> counters;  ///< the standard's and the driver's own

  [[nodiscard]] bool active() const { return state == "ACTIVE"; }
};

struct InterfaceView {
  std::string name;
  std::uint64_t mtu = 0;       ///< bytes; 0: not known
  std::uint64_t megabits = 0;  ///< a second; 0: not known
  bool carrier = false;
  std::optional<Gid> port;  ///< the InfiniBand port's that it is on
};

struct FabricView {
  std::vector<PortView> ports;
  std::vector<InterfaceView> interfaces;  ///< none where there is no RDMA device

  [[nodiscard]] const InterfaceView* interface(std::string_view name) const;
  /// The port below an interface; null: it is on no RDMA device.
  [[nodiscard]] const PortView* port_of(std::string_view interface) const;
};

/// Reads `root`/sys/class/infiniband and `root`/sys/class/net. A driver may ask its device for each counter: takes
/// milliseconds, and may sleep. What can't be read is left out.
[[nodiscard]] FabricView look_at_fabric(const std::filesystem::path& root = "/");

}  // namespace lockstep::rdma
