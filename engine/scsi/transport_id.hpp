#pragma once
// iSCSI TransportIDs (SPC-4 7.6.4.6): an initiator port by name and ISID, or an initiator by name alone.
#include <cstddef>
#include <optional>
#include <span>

#include "engine/base/byte_order.hpp"
#include "engine/scsi/lu_state.hpp"

namespace lockstep::scsi {

constexpr std::size_t kMaxTransportId = 4 + 244;  ///< bytes: the longest name, ",i,0x", twelve digits, NUL, in fours

struct TransportId {
  NexusKey nexus;        ///< without the target port
  std::size_t size = 0;  ///< bytes it took
};

/// The TransportID at the front of `bytes`; nothing when it is cut off, malformed or not of iSCSI. Names are compared
/// in lower case (RFC 3722), and so they come.
[[nodiscard]] std::optional<TransportId> read_transport_id(std::span<const std::byte> bytes);
void write_transport_id(engine::ByteWriter& out, const NexusKey& nexus);
[[nodiscard]] std::size_t transport_id_size(const NexusKey& nexus);

}  // namespace lockstep::scsi
