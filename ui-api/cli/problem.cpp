#include "ui-api/cli/problem.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ui-api/cli/table.hpp"

namespace lockstep::cli {
namespace {

using nlohmann::json;

std::string text_at(const json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? printable(it->get<std::string>()) : std::string();
}

/// "/chap/secret" -> "chap.secret", "?confirm" -> "confirm".
std::string field_name(std::string pointer) {
  if (pointer.starts_with('/') || pointer.starts_with('?')) pointer.erase(0, 1);
  for (char& c : pointer) {
    if (c == '/') c = '.';
  }
  return pointer;
}

bool is_unauthorized(std::string_view type) { return type.ends_with(":unauthorized"); }

std::string_view advice_for(std::string_view type) {
  if (is_unauthorized(type))
    return "The one given is not known there, has expired or was revoked. Name a valid one with --token-file FILE or "
           "in "
           "LOCKSTEP_TOKEN.";
  if (type.ends_with(":forbidden")) return "Use a token with the role admin.";
  if (type.ends_with(":no-pair"))
    return "Make a pair with `lockstep pair create`, or join one with `lockstep pair join`.";
  return {};
}

}  // namespace

std::string render_problem(const json& problem) {
  std::string title = text_at(problem, "title");
  const std::string detail = text_at(problem, "detail");
  if (title.empty()) title = "The server refused the request";
  std::string out = title + ".";
  if (title.ends_with('.')) out.pop_back();
  // What the API says of a token tells a program which header to send.
  const bool tells = !detail.empty() && detail != title && !is_unauthorized(text_at(problem, "type"));
  if (tells) out += "\n" + detail;
  if (const auto errors = problem.find("errors"); errors != problem.end() && errors->is_array()) {
    for (const json& error : *errors) {
      if (error.is_object())
        out += fmt::format("\n  {}: {}", field_name(text_at(error, "pointer")), text_at(error, "detail"));
    }
  }
  if (const auto advice = advice_for(text_at(problem, "type")); !advice.empty()) out += fmt::format("\n{}", advice);
  return out;
}

Failure failure_of(const Response& response) {
  const json problem = json::parse(response.body, nullptr, false);
  if (problem.is_object() && problem.contains("title"))
    return {Exit::refused, render_problem(problem), text_at(problem, "type")};
  return {Exit::refused, fmt::format("The server answered with status {} and gave no reason. Is it a Lockstep node?",
                                     response.status)};
}

}  // namespace lockstep::cli
