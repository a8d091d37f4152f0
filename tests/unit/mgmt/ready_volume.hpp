#pragma once
// The volume that most tests of jobs have.
#include "mgmt/control/configuration.hpp"
#include "mgmt/control/secrets.hpp"

namespace lockstep::mgmt {

[[nodiscard]] inline Volume ready_volume() {
  Volume v;
  v.id = random_uuid();
  v.name = "vm1";
  v.size = 1 << 30;
  v.first_epoch = random_uuid();
  v.lifecycle = Lifecycle::ready;
  return v;
}

}  // namespace lockstep::mgmt
