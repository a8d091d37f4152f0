#include "mgmt/data_plane/json_rpc.hpp"

#include <array>

namespace lockstep::data_plane {
namespace {

using engine::Errc;
using nlohmann::json;

constexpr std::array<std::string_view, 15> kErrcNames = {
    "ok",    "out_of_range", "misaligned", "io_error", "no_space", "not_serving",   "unknown_outcome",   "refused",
    "stale", "aborted",      "miscompare", "corrupt",  "foreign",  "wrong_version", "resource_exhausted"};
static_assert(kErrcNames.size() == std::size_t(Errc::timed_out));

std::unexpected<RpcRefusal> refuse(json id, RpcCode code, std::string message) {
  return std::unexpected(RpcRefusal{std::move(id), {code, std::move(message), Errc::refused, {}}});
}

std::string line_of(const json& message) { return message.dump(-1, ' ', false, json::error_handler_t::replace) + "\n"; }

}  // namespace

std::expected<RpcRequest, RpcRefusal> parse_request(std::string_view line) {
  json message = json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (message.is_discarded()) return refuse(nullptr, RpcCode::parse_error, "The line is not JSON.");
  if (!message.is_object()) {
    return refuse(nullptr, RpcCode::invalid_request, "A request is one JSON object a line; batches are not supported.");
  }
  const auto id = message.find("id");
  if (id == message.end() || !(id->is_string() || id->is_number_integer())) {
    return refuse(nullptr, RpcCode::invalid_request, "\"id\" is missing, or neither a string nor a whole number.");
  }
  RpcRequest request;
  request.id = *id;
  const auto version = message.find("jsonrpc");
  if (version == message.end() || *version != "2.0") {
    return refuse(request.id, RpcCode::invalid_request, "\"jsonrpc\" is not \"2.0\".");
  }
  const auto method = message.find("method");
  if (method == message.end() || !method->is_string()) {
    return refuse(request.id, RpcCode::invalid_request, "\"method\" is missing or not a string.");
  }
  request.method = method->get<std::string>();
  const auto params = message.find("params");
  if (params != message.end()) {
    if (!params->is_object()) {
      return refuse(request.id, RpcCode::invalid_params, "\"params\" is not an object; parameters go by name.");
    }
    request.params = std::move(*params);
  }
  return request;
}

std::string answer_line(const json& id, const RpcResult& result) {
  json message = {{"jsonrpc", "2.0"}, {"id", id}};
  if (result) {
    message["result"] = *result;
    return line_of(message);
  }
  const RpcError& error = result.error();
  json data = {{"code", errc_name(make_error_code(error.errc))}};
  if (!error.field.empty()) data["field"] = error.field;
  message["error"] = {{"code", static_cast<int>(error.code)}, {"message", error.message}, {"data", data}};
  return line_of(message);
}

std::string notification_line(std::string_view method, const json& params) {
  return line_of({{"jsonrpc", "2.0"}, {"method", method}, {"params", params}});
}

std::string_view errc_name(const std::error_code& code) {
  if (code.category() != engine::error_category()) return "io_error";
  const auto value = static_cast<std::size_t>(code.value());
  if (value == static_cast<std::size_t>(Errc::timed_out)) return "timed_out";
  return value < kErrcNames.size() ? kErrcNames[value] : "io_error";
}

RpcError to_rpc_error(const engine::Error& error) {
  const bool ours = error.code.category() == engine::error_category();
  return {RpcCode::failed, error.message, ours ? static_cast<Errc>(error.code.value()) : Errc::io_error, {}};
}

}  // namespace lockstep::data_plane
