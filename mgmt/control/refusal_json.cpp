#include "mgmt/control/refusal_json.hpp"

#include <nlohmann/json.hpp>

namespace lockstep::mgmt {
namespace {

constexpr std::string_view kPrefix = "urn:lockstep:problem:";

}  // namespace

std::string to_json_text(const Refusal& refusal) {
  const auto& kind = describe(refusal.kind);
  nlohmann::json document = {{"type", std::string(kPrefix) + kind.name},
                             {"title", kind.title},
                             {"status", kind.status},
                             {"detail", refusal.detail}};
  for (const auto& field : refusal.fields)
    document["errors"].push_back({{"pointer", field.pointer}, {"detail", field.detail}});
  return document.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Refusal refusal_from(std::string_view text) {
  Refusal refusal;
  const auto document = nlohmann::json::parse(text, nullptr, false);
  if (!document.is_object()) {
    refusal.detail = "The answer was not a problem document.";
    return refusal;
  }
  const std::string type = document.value("type", "");
  if (type.starts_with(kPrefix)) refusal.kind = refusal_kind_of(std::string_view(type).substr(kPrefix.size()));
  refusal.detail = document.value("detail", "");
  for (const auto& field : document.value("errors", nlohmann::json::array()))
    refusal.fields.push_back({field.value("pointer", ""), field.value("detail", "")});
  return refusal;
}

}  // namespace lockstep::mgmt
