#pragma once
// Where an HTTP server is: "http://HOST:PORT" or "https://HOST:PORT".
#include <string>
#include <string_view>

#include "engine/base/result.hpp"

namespace lockstep::replication {

struct HttpEndpoint {
  std::string host;  ///< name or address, without the brackets of IPv6
  std::string port;
  bool tls = false;
  bool operator==(const HttpEndpoint&) const = default;
  /// An error says what is wrong and what was expected.
  [[nodiscard]] static engine::Result<HttpEndpoint> parse(std::string_view url);
  /// host:port
  [[nodiscard]] std::string to_string() const;
};

}  // namespace lockstep::replication
