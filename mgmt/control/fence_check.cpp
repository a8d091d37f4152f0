#include "mgmt/control/fence_check.hpp"

#include <chrono>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace lockstep::mgmt {

using nlohmann::json;

namespace {

constexpr std::chrono::seconds kFencePatience{40};  // lockstepd itself waits for 30

/// Whether the device says that the partner is off.
Outcome<bool> look_at_partner(DataPlane& data_plane) {
  const auto answer = data_plane.call("fence.try", "{}", kFencePatience);
  if (!answer) return std::unexpected(answer.error());
  const json found = json::parse(*answer, nullptr, false);
  if (!found.is_object() || !found.contains("answers") || !found["answers"].is_boolean())
    return refuse(RefusalKind::internal, "lockstepd's answer about the fence can't be read.");
  if (found["answers"].get<bool>()) return found.contains("off") && found["off"] == true;
  const std::string problem = found.value("problem", "");
  return refuse(RefusalKind::invalid,
                fmt::format("The fence of this node was tried and could not power its partner off: {}", problem),
                {{"/arbiter/kind", problem}});
}

}  // namespace

Outcome<void> try_fence(DataPlane& data_plane, const Arbiter& arbiter) {
  return arbiter.fence ? try_fence(data_plane) : Outcome<void>{};
}

Outcome<void> try_fence(DataPlane& data_plane) {
  const auto off = look_at_partner(data_plane);
  return off ? Outcome<void>{} : std::unexpected(off.error());
}

Outcome<void> try_fence_of_running(DataPlane& data_plane) {
  const auto off = look_at_partner(data_plane);
  if (!off) return std::unexpected(off.error());
  if (!*off) return {};
  const std::string problem =
      "It says that the partner is off, while it answers: it names another machine, or its options are wrong.";
  return refuse(RefusalKind::invalid, fmt::format("The fence of this node was tried. {}", problem),
                {{"/arbiter/kind", problem}});
}

}  // namespace lockstep::mgmt
