#pragma once
// The word to systemd that a daemon is ready, by which units after it and `systemctl start` go on.

namespace lockstep::mgmt {

/// Sends READY=1 to the socket that NOTIFY_SOCKET names (sd_notify(3)). Does nothing where the variable is not set: the
/// daemon was not started by a unit of Type=notify.
void tell_ready();

}  // namespace lockstep::mgmt
