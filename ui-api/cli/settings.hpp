#pragma once
// Where the server is, how it is recognised and what is shown to it: options first, then the environment, then the
// configuration file, then what is found on a node itself.
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ui-api/cli/outcome.hpp"

namespace lockstep::cli {

inline constexpr const char* kConfigFile = "/etc/lockstep/cli.toml";
inline constexpr const char* kLocalServer = "https://127.0.0.1:8443";
inline constexpr const char* kMgmtdConfigFile = "/etc/lockstep/mgmtd.toml";
inline constexpr const char* kLocalCertificate = "/var/lib/lockstep/mgmt/tls.crt";
inline constexpr const char* kLocalShown = "/var/lib/lockstep/mgmt/page.crt";  ///< where it is not tls.crt
inline constexpr const char* kLocalToken = "/var/lib/lockstep/mgmt/admin.token";

/// The global options as they were given.
struct GlobalOptions {
  std::string server, token, token_file, ca, fingerprint, config;
  bool insecure = false;
  bool json = false;
};

struct Url {
  bool tls = true;
  std::string host;  ///< without brackets
  std::string port;
  bool operator==(const Url&) const = default;
};

struct Trust {
  bool insecure = false;
  std::string fingerprint;   ///< SHA-256, 64 lower-case hex digits; empty: not pinned
  std::string ca_file;       ///< PEM; its certificates are trusted, as issuers and as themselves; empty: the system's
  std::string shown_file{};  ///< PEM; its first certificate is trusted as itself; empty: none
};

struct Settings {
  Url server;
  std::string token;
  Trust trust;
};

using Getenv = std::function<std::optional<std::string>(const char*)>;

/// This machine's management as `mgmtd_config` says that it listens: at one address only, perhaps, which is not that of
/// the loopback.
[[nodiscard]] Outcome<Url> local_server(const std::string& mgmtd_config);
/// Where no server is named, it is local_server().
[[nodiscard]] Outcome<Settings> resolve_settings(const GlobalOptions& options, const Getenv& getenv,
                                                 const std::string& mgmtd_config = kMgmtdConfigFile);

/// "https://host[:port]"; http only for this machine. The port defaults to 8443 (https) or 8080.
[[nodiscard]] Outcome<Url> parse_url(const std::string& text);
/// With or without colons, any case; Exit::usage when it is not 32 bytes.
[[nodiscard]] Outcome<std::string> parse_fingerprint(const std::string& text);

}  // namespace lockstep::cli
