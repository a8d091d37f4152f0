#include "replication/arbiter/http_endpoint.hpp"

#include <charconv>

namespace lockstep::replication {

engine::Result<HttpEndpoint> HttpEndpoint::parse(std::string_view url) {
  const auto refuse = [&](std::string_view why) {
    return engine::fail(engine::Errc::refused, "\"" + std::string(url) +
                                                   "\" is not an etcd endpoint: " + std::string(why) +
                                                   "; expected http://HOST:PORT or https://HOST:PORT");
  };
  constexpr std::string_view plain = "http://";
  constexpr std::string_view secure = "https://";
  const bool tls = url.starts_with(secure);
  if (!tls && !url.starts_with(plain)) return refuse("it starts neither with http:// nor with https://");
  std::string_view rest = url.substr(tls ? secure.size() : plain.size());
  while (rest.ends_with('/')) rest.remove_suffix(1);
  const auto colon = rest.rfind(':');
  if (colon == std::string_view::npos) return refuse("the port is missing");
  std::string_view host = rest.substr(0, colon);
  const std::string_view port = rest.substr(colon + 1);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (host.empty() || host.find_first_of("/@?# ") != std::string_view::npos)
    return refuse("the host is missing or wrong");
  unsigned number = 0;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  if (error != std::errc{} || end != port.data() + port.size() || number == 0 || number > 65535) {
    return refuse("the port is not a number from 1 to 65535");
  }
  return HttpEndpoint{std::string(host), std::to_string(number), tls};
}

std::string HttpEndpoint::to_string() const {
  return (host.find(':') == std::string::npos ? host : "[" + host + "]") + ":" + port;
}

}  // namespace lockstep::replication
