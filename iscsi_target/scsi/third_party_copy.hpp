#pragma once
// What this copy manager can do, said twice: in VPD page 8Fh (SPC-4 7.8.17) and by RECEIVE COPY OPERATING PARAMETERS.
#include "iscsi_target/scsi/reply.hpp"

namespace lockstep::iscsi_target {

/// The third-party copy descriptors of VPD page 8Fh, without the page's header.
void third_party_copy_descriptors(Reply& reply);

}  // namespace lockstep::iscsi_target
