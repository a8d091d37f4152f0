#include "ui-api/rest/router.hpp"

#include <optional>

namespace lockstep::ui_api {
namespace {

std::optional<std::vector<std::string>> fit(const std::vector<std::string>& pattern,
                                            const std::vector<std::string>& path) {
  if (pattern.size() != path.size()) return std::nullopt;
  std::vector<std::string> parameters;
  for (std::size_t i = 0; i < path.size(); ++i) {
    if (pattern[i].starts_with('{'))
      parameters.push_back(path[i]);
    else if (pattern[i] != path[i])
      return std::nullopt;
  }
  return parameters;
}

}  // namespace

void Router::add(Route route) {
  Request parsed;
  (void)parse_target(route.pattern, parsed);
  entries_.push_back({parsed.segments, std::move(route)});
}

Router::Match Router::match(const Request& request) const {
  Match match;
  for (const auto& entry : entries_) {
    auto parameters = fit(entry.segments, request.segments);
    if (!parameters) continue;
    match.allow += (match.allow.empty() ? "" : ", ") + entry.route.method;
    if (entry.route.method == "GET") match.allow += ", HEAD";
    if (entry.route.method != request.method || match.route) continue;
    match.route = &entry.route;
    match.parameters = std::move(*parameters);
  }
  return match;
}

}  // namespace lockstep::ui_api
