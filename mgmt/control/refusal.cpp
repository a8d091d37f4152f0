#include "mgmt/control/refusal.hpp"

#include <array>
#include <cstddef>

namespace lockstep::mgmt {
namespace {

constexpr std::array<RefusalDescription, 15> kDescriptions{{
    {"malformed", 400, "The request cannot be read"},
    {"unauthorized", 401, "A valid token is needed"},
    {"forbidden", 403, "This token may not do that"},
    {"not-found", 404, "There is no such thing"},
    {"method-not-allowed", 405, "The path does not know this method"},
    {"conflict", 409, "It contradicts what is there"},
    {"confirmation-needed", 409, "This needs a confirmation"},
    {"no-pair", 409, "This node is not in a pair yet"},
    {"too-large", 413, "The request is too large"},
    {"unsupported-media-type", 415, "The body must be JSON"},
    {"invalid", 422, "The request has fields that cannot be accepted"},
    {"too-many", 429, "A bound was reached"},
    {"internal", 500, "Something is broken on this node"},
    {"not-current", 503, "The configuration cannot be changed now"},
    {"data-plane-away", 503, "lockstepd does not answer"},
}};

}  // namespace

const RefusalDescription& describe(RefusalKind kind) { return kDescriptions.at(static_cast<std::size_t>(kind)); }

RefusalKind refusal_kind_of(std::string_view name) {
  for (std::size_t i = 0; i < kDescriptions.size(); ++i)
    if (name == kDescriptions[i].name) return static_cast<RefusalKind>(i);
  return RefusalKind::internal;
}

}  // namespace lockstep::mgmt
