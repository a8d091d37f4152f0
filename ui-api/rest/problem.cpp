#include "ui-api/rest/problem.hpp"

#include "mgmt/control/refusal_json.hpp"

namespace lockstep::ui_api {

Response problem(const mgmt::Refusal& refusal) {
  Response response;
  response.status = mgmt::describe(refusal.kind).status;
  response.content_type = "application/problem+json";
  response.body = mgmt::to_json_text(refusal);
  if (response.status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  if (response.status == 503) response.headers.emplace_back("Retry-After", "5");
  return response;
}

Response problem(mgmt::RefusalKind kind, std::string detail) { return problem({kind, std::move(detail), {}}); }

}  // namespace lockstep::ui_api
