// The link's further paths are added and removed while it is in use.
#include <fmt/format.h>

#include "mgmt/control/link_paths.hpp"
#include "mgmt/control/pair_service.hpp"

namespace lockstep::mgmt {
namespace {

void tell(NodeCore& core, std::string message) {
  core.events.append({.kind = "pair.changed", .side = {}, .volume = {}, .message = std::move(message)});
}

}  // namespace

Outcome<void> PairService::add_link_path(const LinkPathWish& wish) {
  const auto changed =
      core_.change("A path of the link added", [&](Configuration& c) { return mgmt::add_link_path(c, wish); });
  if (!changed) return std::unexpected(changed.error());
  tell(core_, fmt::format("The link has a further path, between {} and {}{}.", wish.addresses[0], wish.addresses[1],
                          wish.last_resort ? ", for when no other is left" : ""));
  return {};
}

Outcome<void> PairService::remove_link_path(const std::string& address) {
  LinkPathWish removed;
  const auto changed = core_.change("A path of the link removed", [&](Configuration& c) -> Outcome<void> {
    auto done = mgmt::remove_link_path(c, address);
    if (!done) return std::unexpected(done.error());
    removed = std::move(*done);
    return {};
  });
  if (!changed) return std::unexpected(changed.error());
  tell(core_,
       fmt::format("The link's path between {} and {} was removed.", removed.addresses[0], removed.addresses[1]));
  return {};
}

}  // namespace lockstep::mgmt
