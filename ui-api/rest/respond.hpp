#pragma once
// How resources turn outcomes into responses.
#include <string>

#include <nlohmann/json.hpp>

#include "ui-api/rest/json_views.hpp"
#include "ui-api/rest/problem.hpp"

namespace lockstep::ui_api {

[[nodiscard]] inline Response ok(const nlohmann::json& body, int status = 200) {
  Response response;
  response.status = status;
  response.body = dump(body);
  return response;
}

[[nodiscard]] inline Response created(const nlohmann::json& body, const std::string& location) {
  Response response = ok(body, 201);
  response.headers.emplace_back("Location", location);
  return response;
}

[[nodiscard]] inline Response no_content() {
  Response response;
  response.status = 204;
  response.content_type.clear();
  return response;
}

[[nodiscard]] inline Response accepted(const mgmt::Outcome<mgmt::Job>& job) {
  if (!job) return problem(job.error());
  Response response = ok(job_json(*job), 202);
  response.headers.emplace_back("Location", "/api/v1/jobs/" + job->id.to_string());
  return response;
}

/// The UUID in a path; a malformed one names nothing that exists.
[[nodiscard]] inline mgmt::Outcome<mgmt::Uuid> path_id(const std::string& text, const char* what) {
  const auto id = mgmt::Uuid::parse(text);
  if (id && id->to_string() == text) return *id;
  return mgmt::refuse(mgmt::RefusalKind::not_found, std::string("There is no ") + what + " with this id.");
}

}  // namespace lockstep::ui_api
