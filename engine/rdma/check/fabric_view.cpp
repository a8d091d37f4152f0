#include "engine/rdma/check/fabric_view.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <fstream>
#include <system_error>

#include <arpa/inet.h>

namespace lockstep::rdma {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kArpInfiniband = "32";  // ARPHRD_INFINIBAND

/// Without the end of the line; empty where there is none.
std::string line_of(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

/// Also of "100 Gb/sec (4X EDR)": the number that it begins with. A speed that is not known reads as an error or -1.
std::uint64_t number_of(std::string_view text) {
  std::uint64_t value = 0;
  (void)std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code none;
  for (fs::directory_iterator at(folder, none), end; !none && at != end; at.increment(none))
    found.push_back(at->path());
  std::ranges::sort(found);
  return found;
}

/// "4: ACTIVE"
std::string word_of(const fs::path& file) {
  const std::string line = line_of(file);
  const auto mark = line.find(": ");
  return mark == std::string::npos ? line : line.substr(mark + 2);
}

LinkKind link_of(const fs::path& device, const fs::path& port) {
  if (word_of(device / "node_type") == "RNIC") return LinkKind::iwarp;
  return line_of(port / "link_layer") == "InfiniBand" ? LinkKind::infiniband : LinkKind::roce;
}

/// "2.5 Gb/sec (1X SDR)"
void read_rate(const std::string& text, PortView& port) {
  const auto point = text.find('.');
  const auto unit = text.find(" Gb/sec");
  port.megabits = number_of(text) * 1000;
  if (point != std::string::npos && point + 1 < unit) port.megabits += number_of(text.substr(point + 1, 1)) * 100;
  const auto bracket = text.find('(');
  if (bracket != std::string::npos)
    port.lanes = static_cast<unsigned>(number_of(std::string_view(text).substr(bracket + 1)));
}

/// Entries that are not in use read as zeros, and their type and interface as errors.
std::vector<GidView> gids_of(const fs::path& port) {
  std::vector<GidView> found;
  for (const fs::path& entry : entries_of(port / "gids")) {
    const auto gid = gid_of(line_of(entry));
    if (!gid || *gid == Gid{}) continue;
    const fs::path number = entry.filename();
    found.push_back(
        {*gid, line_of(port / "gid_attrs/types" / number) == "RoCE v2", line_of(port / "gid_attrs/ndevs" / number)});
  }
  return found;
}

void add_counters(const fs::path& folder, std::map<std::string, std::uint64_t>& counters) {
  for (const fs::path& entry : entries_of(folder)) {
    const std::string text = line_of(entry);
    const std::string name = entry.filename();
    if (text.empty() || name == "lifespan" || text.front() < '0' || text.front() > '9') continue;
    counters[name] = number_of(text);
  }
}

PortView port_view(const fs::path& device, const fs::path& folder) {
  PortView port;
  port.device = device.filename();
  port.number = static_cast<unsigned>(number_of(folder.filename().string()));
  port.link = link_of(device, folder);
  std::error_code none;
  port.is_software = fs::exists(device / "parent", none);  // which Soft-RoCE alone has
  port.state = word_of(folder / "state");
  port.physical_state = word_of(folder / "phys_state");
  read_rate(line_of(folder / "rate"), port);
  port.gids = gids_of(folder);
  add_counters(folder / "counters", port.counters);
  add_counters(folder / "hw_counters", port.counters);
  return port;
}

/// One file for each priority, "0" to "7".
std::uint8_t priorities_in(const fs::path& folder) {
  std::uint8_t enabled = 0;
  for (unsigned priority = 0; priority < 8; ++priority)
    if (line_of(folder / std::to_string(priority)) == "1") enabled |= static_cast<std::uint8_t>(1U << priority);
  return enabled;
}

/// The files of mlx5's driver, as its maker ships it; Linux's own has none.
std::optional<CongestionControl> ecn_of(const fs::path& interface) {
  const fs::path tells = interface / "ecn/roce_np/enable", heeds = interface / "ecn/roce_rp/enable";
  std::error_code none;
  if (!fs::is_directory(tells, none) || !fs::is_directory(heeds, none)) return {};
  return CongestionControl{priorities_in(tells), priorities_in(heeds)};
}

/// The address of an interface over InfiniBand is four bytes, of its queue pair, and its port's GID.
std::optional<Gid> port_in(const std::string& hardware_address) {
  constexpr std::size_t kBytes = 20;
  if (hardware_address.size() != 3 * kBytes - 1) return {};
  Gid gid{};
  for (std::size_t i = 0; i < gid.size(); ++i) {
    const char* const digits = hardware_address.data() + 3 * (i + 4);
    if (std::from_chars(digits, digits + 2, gid[i], 16).ptr != digits + 2) return {};
  }
  return gid;
}

InterfaceView interface_view(const fs::path& folder) {
  InterfaceView seen;
  seen.name = folder.filename();
  seen.mtu = number_of(line_of(folder / "mtu"));
  seen.megabits = number_of(line_of(folder / "speed"));
  seen.carrier = line_of(folder / "carrier") == "1";
  if (line_of(folder / "type") == kArpInfiniband) seen.port = port_in(line_of(folder / "address"));
  seen.ecn = ecn_of(folder);
  return seen;
}

}  // namespace

std::optional<Gid> gid_of(const std::string& text) {
  Gid gid{};
  if (::inet_pton(AF_INET6, text.c_str(), gid.data()) == 1) return gid;
  in_addr v4{};
  if (::inet_pton(AF_INET, text.c_str(), &v4) != 1) return {};
  gid[10] = gid[11] = 0xff;
  std::memcpy(&gid[12], &v4, sizeof v4);
  return gid;
}

const InterfaceView* FabricView::interface(std::string_view name) const {
  const auto found = std::ranges::find(interfaces, name, &InterfaceView::name);
  return found == interfaces.end() ? nullptr : &*found;
}

const PortView* FabricView::port_of(std::string_view name) const {
  const InterfaceView* const seen = interface(name);
  const auto found = std::ranges::find_if(ports, [&](const PortView& port) {
    return std::ranges::any_of(port.gids, [&](const GidView& gid) {
      return gid.interface == name || (seen != nullptr && seen->port && *seen->port == gid.gid);
    });
  });
  return found == ports.end() ? nullptr : &*found;
}

FabricView look_at_fabric(const fs::path& root, AskFlowControl ask) {
  FabricView seen;
  for (const fs::path& device : entries_of(root / "sys/class/infiniband"))
    for (const fs::path& port : entries_of(device / "ports")) seen.ports.push_back(port_view(device, port));
  if (seen.ports.empty()) return seen;
  for (const fs::path& folder : entries_of(root / "sys/class/net")) {
    InterfaceView& interface = seen.interfaces.emplace_back(interface_view(folder));
    const PortView* const port = seen.port_of(interface.name);
    if (port != nullptr && port->link == LinkKind::roce) interface.flow_control = ask(interface.name);
  }
  return seen;
}

}  // namespace lockstep::rdma
