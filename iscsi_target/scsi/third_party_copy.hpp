#pragma once
// What this copy manager can do, said twice: in VPD page 8Fh (SPC-4 7.8.17) and by RECEIVE COPY OPERATING PARAMETERS.
#include "iscsi_target/scsi/logical_unit.hpp"
#include "iscsi_target/scsi/reply.hpp"

namespace lockstep::iscsi_target {

/// The third-party copy descriptors of the unit's VPD page 8Fh, without the page's header.
void third_party_copy_descriptors(Reply& reply, const LogicalUnit& unit);

}  // namespace lockstep::iscsi_target
