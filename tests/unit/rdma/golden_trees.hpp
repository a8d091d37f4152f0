#pragma once
// What machines with RDMA say of it below /sys: a line a file, its path and what it holds. A line without contents is a
// folder's, for those below it.
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "engine/rdma/check/fabric_view.hpp"
#include "tests/unit/mgmt/temporary_folder.hpp"

namespace lockstep::rdma::test {

/// Soft-RoCE over a virtual machine's second card; its rate is not the card's.
constexpr const char* kRxe = R"(
sys/class/infiniband/rxe0
  node_type 1: CA
  parent eth1
sys/class/infiniband/rxe0/ports/1
  state 4: ACTIVE
  phys_state 5: LinkUp
  rate 2.5 Gb/sec (1X SDR)
  link_layer Ethernet
  gids/0 fe80:0000:0000:0000:5054:00ff:fe12:3456
  gids/1 0000:0000:0000:0000:0000:ffff:0a09:0001
  gids/2 0000:0000:0000:0000:0000:0000:0000:0000
  gid_attrs/types/0 RoCE v2
  gid_attrs/types/1 RoCE v2
  gid_attrs/ndevs/0 eth1
  gid_attrs/ndevs/1 eth1
  hw_counters/ack_deferred 0
  hw_counters/completer_retry_err 3
  hw_counters/duplicate_request 0
  hw_counters/lifespan 10
  hw_counters/link_downed 0
  hw_counters/out_of_seq_request 0
  hw_counters/rcvd_pkts 512220
  hw_counters/rcvd_rnr_err 0
  hw_counters/rcvd_seq_err 0
  hw_counters/rdma_recvs 2011
  hw_counters/rdma_sends 2010
  hw_counters/retry_exceeded_err 0
  hw_counters/retry_rnr_exceeded_err 0
  hw_counters/send_err 0
  hw_counters/send_rnr_err 0
  hw_counters/sent_pkts 512240
sys/class/net/eth0
  mtu 1500
  speed 1000
  carrier 1
  type 1
  address 52:54:00:12:34:55
sys/class/net/eth1
  mtu 9000
  speed -1
  carrier 1
  type 1
  address 52:54:00:12:34:56
)";

/// A card with two ports, which are two devices; the second has no cable.
constexpr const char* kMlx5Roce = R"(
sys/class/infiniband/mlx5_0
  node_type 1: CA
sys/class/infiniband/mlx5_0/ports/1
  state 4: ACTIVE
  phys_state 5: LinkUp
  rate 25 Gb/sec (1X EDR)
  link_layer Ethernet
  gids/0 fe80:0000:0000:0000:0ac0:ebff:fe00:0010
  gids/1 fe80:0000:0000:0000:0ac0:ebff:fe00:0010
  gids/2 0000:0000:0000:0000:0000:ffff:0a09:0001
  gids/3 0000:0000:0000:0000:0000:ffff:0a09:0001
  gids/4 0000:0000:0000:0000:0000:0000:0000:0000
  gid_attrs/types/0 IB/RoCE v1
  gid_attrs/types/1 RoCE v2
  gid_attrs/types/2 IB/RoCE v1
  gid_attrs/types/3 RoCE v2
  gid_attrs/ndevs/0 ens1f0np0
  gid_attrs/ndevs/1 ens1f0np0
  gid_attrs/ndevs/2 ens1f0np0
  gid_attrs/ndevs/3 ens1f0np0
  counters/link_downed 0
  counters/port_rcv_errors 0
  counters/port_rcv_packets 81234567
  counters/port_xmit_discards 0
  counters/port_xmit_packets 81230001
  counters/symbol_error 0
  hw_counters/duplicate_request 0
  hw_counters/implied_nak_seq_err 0
  hw_counters/lifespan 10
  hw_counters/local_ack_timeout_err 4
  hw_counters/np_cnp_sent 0
  hw_counters/np_ecn_marked_roce_packets 0
  hw_counters/out_of_buffer 0
  hw_counters/out_of_sequence 12
  hw_counters/packet_seq_err 20
  hw_counters/rnr_nak_retry_err 0
  hw_counters/roce_adp_retrans 0
  hw_counters/rp_cnp_handled 0
  hw_counters/rx_icrc_encapsulated 0
sys/class/infiniband/mlx5_1
  node_type 1: CA
sys/class/infiniband/mlx5_1/ports/1
  state 1: DOWN
  phys_state 3: Disabled
  rate 40 Gb/sec (4X QDR)
  link_layer Ethernet
  gids/0 0000:0000:0000:0000:0000:ffff:0a09:0101
  gid_attrs/types/0 RoCE v2
  gid_attrs/ndevs/0 ens1f1np1
sys/class/net/ens1f0np0
  mtu 9000
  speed 25000
  carrier 1
  type 1
sys/class/net/ens1f1np1
  mtu 1500
  speed -1
  carrier 0
  type 1
sys/class/net/ens2
  mtu 9000
  speed 100000
  carrier 1
  type 1
)";

constexpr const char* kIrdmaRoce = R"(
sys/class/infiniband/irdma0
  node_type 1: CA
sys/class/infiniband/irdma0/ports/1
  state 4: ACTIVE
  phys_state 5: LinkUp
  rate 100 Gb/sec (4X EDR)
  link_layer Ethernet
  gids/0 fe80:0000:0000:0000:b696:91ff:fe00:0020
  gids/1 0000:0000:0000:0000:0000:ffff:0a09:0001
  gid_attrs/types/0 RoCE v2
  gid_attrs/types/1 RoCE v2
  gid_attrs/ndevs/0 ens3f0
  gid_attrs/ndevs/1 ens3f0
  hw_counters/RxECNMrkd 5
  hw_counters/RxUDP 90000
  hw_counters/cnpHandled 0
  hw_counters/cnpIgnored 0
  hw_counters/cnpSent 5
  hw_counters/ip4InDiscards 0
  hw_counters/iwInRdmaReads 100
  hw_counters/lifespan 10
  hw_counters/tcpRetransSegs 0
sys/class/net/ens3f0
  mtu 1500
  speed 100000
  carrier 1
  type 1
)";

/// The card of before as an iWARP one: its only GID is made of its hardware address.
constexpr const char* kIrdmaIwarp = R"(
sys/class/infiniband/irdma0
  node_type 4: RNIC
sys/class/infiniband/irdma0/ports/1
  state 4: ACTIVE
  phys_state 5: LinkUp
  rate 100 Gb/sec (4X EDR)
  link_layer Ethernet
  gids/0 b496:9100:0020:0000:0000:0000:0000:0000
  gid_attrs/types/0 IB/RoCE v1
  gid_attrs/ndevs/0 ens3f0
sys/class/net/ens3f0
  mtu 1500
  speed 100000
  carrier 1
  type 1
)";

/// IP over InfiniBand: the interface says by its address which port it is on, the port names no interface.
constexpr const char* kMlx5InfiniBand = R"(
sys/class/infiniband/mlx5_0
  node_type 1: CA
sys/class/infiniband/mlx5_0/ports/1
  state 4: ACTIVE
  phys_state 5: LinkUp
  rate 100 Gb/sec (4X EDR)
  link_layer InfiniBand
  gids/0 fe80:0000:0000:0000:b859:9f03:0012:3456
  gids/1 0000:0000:0000:0000:0000:0000:0000:0000
  gid_attrs/types/0 IB/RoCE v1
  counters/excessive_buffer_overrun_errors 0
  counters/link_downed 0
  counters/link_error_recovery 0
  counters/local_link_integrity_errors 0
  counters/port_rcv_errors 0
  counters/port_xmit_wait 1200
  counters/symbol_error 7
  counters/VL15_dropped N/A (no PMA)
  hw_counters/lifespan 10
  hw_counters/local_ack_timeout_err 0
  hw_counters/out_of_buffer 0
  hw_counters/packet_seq_err 0
  hw_counters/rnr_nak_retry_err 0
sys/class/net/ibs1
  mtu 2044
  speed 100000
  carrier 1
  type 32
  address 00:00:10:28:fe:80:00:00:00:00:00:00:b8:59:9f:03:00:12:34:56
)";

/// A tree on a disk, of which single files may be changed.
class Tree {
 public:
  explicit Tree(const char* text = "") {
    std::istringstream lines(text);
    std::filesystem::path folder;
    for (std::string line; std::getline(lines, line);) {
      if (!line.starts_with("  ")) {
        folder = line;
        continue;
      }
      const auto end = line.find(' ', 2);
      set(folder / line.substr(2, end - 2), line.substr(end + 1));
    }
  }
  void set(const std::filesystem::path& file, const std::string& contents) const {
    const auto at = folder_.path() / file;
    std::filesystem::create_directories(at.parent_path());
    std::ofstream(at) << contents << '\n';
  }
  void remove(const std::filesystem::path& file) const { std::filesystem::remove(folder_.path() / file); }
  [[nodiscard]] const std::filesystem::path& root() const { return folder_.path(); }
  /// Of interfaces that tell nothing of their flow control.
  [[nodiscard]] FabricView view(AskFlowControl ask = [](const std::string&) { return FlowControl{}; }) const {
    return look_at_fabric(root(), ask);
  }

 private:
  lockstep::test::TemporaryFolder folder_;
};

}  // namespace lockstep::rdma::test
