#include <algorithm>

// glibc's <netinet/tcp.h> has an older struct tcp_info, and the two do not go together.
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "engine/net/tcp.hpp"

namespace lockstep::engine {

std::optional<TcpFigures> tcp_figures(int descriptor) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (::getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return {};
  return TcpFigures{.round_trip = std::chrono::microseconds(info.tcpi_rtt),
                    .bytes_out = info.tcpi_bytes_acked,
                    .bytes_in = info.tcpi_bytes_received,
                    .segments_out = info.tcpi_segs_out,
                    .segments_sent_again = info.tcpi_total_retrans,
                    .path_mtu = info.tcpi_pmtu};
}

}  // namespace lockstep::engine
