#pragma once
// JSON-RPC 2.0 as lockstepd speaks it: one object a line. Pure.
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "engine/base/result.hpp"

namespace lockstep::data_plane {

enum class RpcCode : int {  // JSON-RPC 2.0, 5.1
  parse_error = -32700,
  invalid_request = -32600,
  method_not_found = -32601,
  invalid_params = -32602,
  failed = -32000,  ///< understood and refused or failed; data.code says how
};

struct RpcError {
  RpcCode code = RpcCode::failed;
  std::string message;  ///< a sentence for a person
  engine::Errc errc = engine::Errc::refused;
  std::string field;  ///< invalid_params: the path of the field, "params.volumes[3].size"
};

using RpcResult = std::expected<nlohmann::json, RpcError>;

struct RpcRequest {
  nlohmann::json id;  ///< string or number; null when it could not be read
  std::string method;
  nlohmann::json params = nlohmann::json::object();
};

struct RpcRefusal {
  nlohmann::json id;
  RpcError error;
};

/// A request without an id (a notification) is refused: every request here has an answer.
[[nodiscard]] std::expected<RpcRequest, RpcRefusal> parse_request(std::string_view line);

// Each ends with a newline and has none inside.
[[nodiscard]] std::string answer_line(const nlohmann::json& id, const RpcResult& result);
[[nodiscard]] std::string notification_line(std::string_view method, const nlohmann::json& params);

/// The name of an Errc as in its enum: "io_error". Codes of other categories are "io_error" too.
[[nodiscard]] std::string_view errc_name(const std::error_code& code);
[[nodiscard]] RpcError to_rpc_error(const engine::Error& error);

}  // namespace lockstep::data_plane
