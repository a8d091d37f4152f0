#include "ui-api/cli/settings.hpp"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <toml++/toml.h>
#include <unistd.h>

namespace lockstep::cli {
namespace {

struct ConfigFile {
  std::string server, token_file, ca, fingerprint;
};

Outcome<ConfigFile> read_config(const std::string& path, bool required) {
  ConfigFile config;
  if (!required && access(path.c_str(), F_OK) != 0) return config;
  try {
    const toml::table table = toml::parse_file(path);
    for (const auto& [key, value] : table) {
      const auto text = value.value<std::string>();
      std::string* place = key == "server"        ? &config.server
                           : key == "token_file"  ? &config.token_file
                           : key == "ca"          ? &config.ca
                           : key == "fingerprint" ? &config.fingerprint
                                                  : nullptr;
      if (place == nullptr) {
        return fail(Exit::usage, fmt::format("{}: there is no setting \"{}\"; known are server, token_file, ca and "
                                             "fingerprint.",
                                             path, key.str()));
      }
      if (!text) return fail(Exit::usage, fmt::format("{}: {} must be a text in quotes.", path, key.str()));
      *place = *text;
    }
  } catch (const toml::parse_error& e) {
    return fail(Exit::usage, fmt::format("{}: line {}: {}.", path, e.source().begin.line, e.description()));
  }
  return config;
}

Outcome<std::string> read_token(const std::string& path) {
  std::ifstream file(path);
  std::string token;
  file >> token;
  if (token.empty()) return fail(Exit::usage, fmt::format("No token can be read from {}.", path));
  return token;
}

bool readable(const char* path) { return access(path, R_OK) == 0; }

bool is_this_machine(const std::string& host) {
  return host == "localhost" || host == "::1" ||
         (host.starts_with("127.") && std::count(host.begin(), host.end(), '.') == 3);
}

Outcome<std::string> resolve_token(const GlobalOptions& options, const Getenv& getenv, const ConfigFile& config) {
  if (!options.token.empty()) return options.token;
  if (!options.token_file.empty()) return read_token(options.token_file);
  if (const auto token = getenv("LOCKSTEP_TOKEN"); token && !token->empty()) return *token;
  if (!config.token_file.empty()) return read_token(config.token_file);
  if (readable(kLocalToken)) return read_token(kLocalToken);
  return fail(Exit::usage,
              fmt::format("No token. Give one with --token-file FILE or in LOCKSTEP_TOKEN. A node's first token "
                          "is in {} on that node, readable by root.",
                          kLocalToken));
}

Outcome<Trust> resolve_trust(const GlobalOptions& options, const ConfigFile& config, bool this_machine) {
  Trust trust;
  if (options.insecure) {
    trust.insecure = true;
    return trust;
  }
  const bool by_option = !options.fingerprint.empty() || !options.ca.empty();
  const std::string& fingerprint = by_option ? options.fingerprint : config.fingerprint;
  trust.ca_file = by_option ? options.ca : config.ca;
  if (!fingerprint.empty()) {
    auto parsed = parse_fingerprint(fingerprint);
    if (!parsed) return std::unexpected(parsed.error());
    trust.fingerprint = std::move(*parsed);
  }
  if (trust.fingerprint.empty() && trust.ca_file.empty() && this_machine && readable(kLocalCertificate)) {
    trust.ca_file = kLocalCertificate;
    if (readable(kLocalShown)) trust.shown_file = kLocalShown;
  }
  return trust;
}

}  // namespace

Outcome<Url> parse_url(const std::string& text) {
  const auto wrong = [&](std::string_view why) {
    return fail(Exit::usage, fmt::format("\"{}\" is not a server: {}. Write it like https://node-a:8443.", text, why));
  };
  Url url;
  std::string rest = text;
  if (rest.starts_with("https://")) {
    rest.erase(0, 8);
  } else if (rest.starts_with("http://")) {
    rest.erase(0, 7);
    url.tls = false;
  } else if (rest.find("://") != std::string::npos) {
    return wrong("only https is spoken");
  }
  if (rest.ends_with('/')) rest.pop_back();
  url.port = url.tls ? "8443" : "8080";
  std::size_t colon = rest.rfind(':');
  if (rest.starts_with('[')) {
    const std::size_t close = rest.find(']');
    if (close == std::string::npos) return wrong("a bracket is missing");
    url.host = rest.substr(1, close - 1);
    colon = close + 1 < rest.size() ? close + 1 : std::string::npos;
    if (colon != std::string::npos && rest[colon] != ':') return wrong("after the address there may only be a port");
  } else {
    url.host = rest.substr(0, colon);
  }
  if (colon != std::string::npos) {
    url.port = rest.substr(colon + 1);
    const bool digits = std::all_of(url.port.begin(), url.port.end(), [](unsigned char c) { return std::isdigit(c); });
    if (url.port.empty() || url.port.size() > 5 || !digits || std::stoul(url.port) > 65535)
      return wrong("the port makes no sense");
  }
  if (url.host.empty()) return wrong("the host is missing");
  if (url.host.find_first_of("/?#@ ") != std::string::npos) return wrong("there may only be a host and a port");
  if (!url.tls && !is_this_machine(url.host)) return wrong("http would send the token in the clear; use https");
  return url;
}

Outcome<Url> local_server(const std::string& mgmtd_config) {
  std::string listen;
  try {
    if (readable(mgmtd_config.c_str())) listen = toml::parse_file(mgmtd_config)["listen"].value_or(std::string());
  } catch (const toml::parse_error&) {  // lockstep-mgmtd complains of it
  }
  if (listen.empty()) return parse_url(kLocalServer);
  const std::string host = listen.substr(0, listen.rfind(':')), port = listen.substr(host.size());
  if (host == "0.0.0.0") return parse_url("https://127.0.0.1" + port);
  if (host == "[::]") return parse_url("https://[::1]" + port);
  return parse_url("https://" + listen);
}

Outcome<std::string> parse_fingerprint(const std::string& text) {
  std::string hex;
  for (const char c : text.starts_with("sha256:") ? text.substr(7) : text) {
    if (c == ':') continue;
    if (!std::isxdigit(static_cast<unsigned char>(c))) hex.assign(65, 'x');
    hex += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  if (hex.size() != 64) {
    return fail(
        Exit::usage,
        fmt::format("\"{}\" is not a fingerprint: it must be the 64 hexadecimal digits of a certificate's SHA-256.",
                    text));
  }
  return hex;
}

Outcome<Settings> resolve_settings(const GlobalOptions& options, const Getenv& getenv,
                                   const std::string& mgmtd_config) {
  std::string path = options.config;
  if (path.empty()) path = getenv("LOCKSTEP_CONFIG").value_or("");
  const auto config = read_config(path.empty() ? kConfigFile : path, !path.empty());
  if (!config) return std::unexpected(config.error());

  std::string server = options.server;
  if (server.empty()) server = getenv("LOCKSTEP_SERVER").value_or("");
  if (server.empty()) server = config->server;
  const bool own = server.empty();
  auto url = own ? local_server(mgmtd_config) : parse_url(server);
  if (!url) return std::unexpected(url.error());
  auto trust = resolve_trust(options, *config, own || is_this_machine(url->host));
  if (!trust) return std::unexpected(trust.error());
  auto token = resolve_token(options, getenv, *config);
  if (!token) return std::unexpected(token.error());
  return Settings{std::move(*url), std::move(*token), std::move(*trust)};
}

}  // namespace lockstep::cli
