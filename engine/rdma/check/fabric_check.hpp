#pragma once
// What of a machine's RDMA keeps it from being used, or from being as good as it could be: pure. Counters are judged
// by how much they grow in a minute; what they were before says nothing.
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/rdma/check/fabric_view.hpp"
#include "engine/seams/clock.hpp"

namespace lockstep::rdma {

/// An address that this node listens at, or calls from, and that may be used over RDMA.
struct ServedAddress {
  std::string address;    ///< numeric, without a port
  std::string interface;  ///< that has it; empty: none, and nothing is said of it
  bool of_link = false;   ///< else a portal's
  bool operator==(const ServedAddress&) const = default;
};

/// Memory that is to be pinned: each device has it for itself.
struct Pinning {
  std::optional<std::uint64_t> limit;  ///< bytes; nothing: there is none
  std::uint64_t before = 0;            ///< by others than RDMA
  std::uint64_t each_device = 0;
  std::uint64_t each_device_of_link = 0;  ///< beside it, where there is a partner
};

struct FabricUse {
  std::vector<ServedAddress> addresses;
  bool asked = false;      ///< somebody counts on RDMA: that there is none is wrong, too
  bool hosts_use = false;  ///< something was moved over RDMA for hosts
  bool link_uses = false;  ///< … and for the link
  bool has_partner = false;
  std::string why_none;  ///< a sentence: why no device is used, whatever there is; empty: they are
  Pinning pinning;

  [[nodiscard]] bool wanted() const { return asked || hosts_use || link_uses; }
  /// Devices that nobody uses, or that other programs alone do, are no business of this node's.
  [[nodiscard]] bool counts(const ServedAddress& served) const {
    return asked || (served.of_link ? link_uses : hosts_use);
  }
};

enum class Severity : std::uint8_t {
  advice,   ///< it could be better
  warning,  ///< something does not work, or soon won't
};

struct Finding {
  Severity severity{};
  std::string id;         ///< "small_mtu"
  std::string message;    ///< a sentence, with names and figures
  std::string advice;     ///< what to do
  std::string subject{};  ///< the port or the address that it is of; empty: the whole machine
};

/// Of a port that a served address is on: how often something went wrong there, as its driver counts it.
struct PortCounter {
  std::string device;
  unsigned port = 0;
  std::string kind;  ///< "packets_lost", "no_receive", "damaged"; "marked": packets that met a jam (ECN)
  std::string name;  ///< the driver's, or the standard's
  std::uint64_t value = 0;
  bool operator==(const PortCounter&) const = default;
};

/// Of the counters that findings are made of, those that the ports have.
[[nodiscard]] std::vector<PortCounter> counters_of(const FabricView& seen, const FabricUse& use);

/// Some packet has met a jam since the driver was loaded, and came marked. Nothing: the driver does not count them.
[[nodiscard]] std::optional<bool> has_marked(const PortView& port);
/// "mlx5_0/1"
[[nodiscard]] std::string name_of(const PortView& port);
/// "priority 3", "priorities 3, 4"
[[nodiscard]] std::string priorities_text(unsigned bits);

/// That the link does not use RDMA is told where somebody counts on it. `why_not` is a sentence; empty: it does, or is
/// not connected.
[[nodiscard]] std::optional<Finding> link_without_rdma(bool asked, const std::string& why_not);

class FabricCheck {
 public:
  static constexpr engine::Duration kRemembered = std::chrono::minutes(10);
  /// Looks that follow closer on one another are too short to tell how much a minute is.
  static constexpr engine::Duration kLeastApart = std::chrono::seconds(30);

  /// Once a minute or so. Nothing is found where there is no device and nobody has asked for one.
  [[nodiscard]] std::vector<Finding> look(const FabricView& seen, const FabricUse& use, engine::TimePoint now);

 private:
  using PortName = std::pair<std::string, unsigned>;
  struct Growth {
    std::string counter;
    std::uint64_t by = 0;  ///< in a minute
    engine::TimePoint at;
  };
  struct Known {
    std::map<std::string, std::uint64_t> counters;
    engine::TimePoint at;
    std::map<std::string, Growth> grown;  ///< by the finding's id
    std::set<std::string> rising;         ///< the ids of which something grew much at the last look
  };
  void compare(const PortView& port, engine::TimePoint now);
  void judge_growth(const PortView& port, const InterfaceView* interface, engine::TimePoint now,
                    std::vector<Finding>& findings);

  std::map<PortName, Known> known_;
};

}  // namespace lockstep::rdma
