#pragma once
// The defects that can be planted in the mirror, by name.
#include <string_view>
#include <utility>
#include <vector>

#include "replication/core/defects.hpp"

namespace lockstep::simulation {

inline constexpr std::pair<std::string_view, bool replication::Defects::*> kDefects[] = {
    {"ack_before_partner", &replication::Defects::ack_before_partner},
    {"forget_dirty_bit", &replication::Defects::forget_dirty_bit},
    {"clear_dirty_early", &replication::Defects::clear_dirty_early},
    {"serve_stale_replica", &replication::Defects::serve_stale_replica},
    {"resync_wrong_way", &replication::Defects::resync_wrong_way},
    {"ignore_lease", &replication::Defects::ignore_lease},
    {"skip_lease_wait", &replication::Defects::skip_lease_wait},
    {"ignore_uncommitted", &replication::Defects::ignore_uncommitted},
    {"skip_witness", &replication::Defects::skip_witness},
    {"reenter_after_restart", &replication::Defects::reenter_after_restart},
    {"drop_union", &replication::Defects::drop_union},
    {"forget_forward_results", &replication::Defects::forget_forward_results},
    {"keep_held_when_fenced", &replication::Defects::keep_held_when_fenced},
    {"ack_state_before_partner", &replication::Defects::ack_state_before_partner},
    {"serve_before_equal", &replication::Defects::serve_before_equal},
    {"write_without_room", &replication::Defects::write_without_room},
    {"keep_freed_space", &replication::Defects::keep_freed_space},
};
static_assert(sizeof(replication::Defects) == std::size(kDefects) * sizeof(bool), "a defect has no name here");

/// False when there is no such defect.
[[nodiscard]] inline bool plant(replication::Defects& defects, std::string_view name) {
  for (const auto& [known, field] : kDefects) {
    if (known != name) continue;
    defects.*field = true;
    return true;
  }
  return false;
}

}  // namespace lockstep::simulation
