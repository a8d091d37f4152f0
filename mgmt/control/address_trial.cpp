#include "mgmt/control/address_trial.hpp"

#include <cerrno>
#include <cstring>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <nlohmann/json.hpp>
#include <sys/socket.h>
#include <unistd.h>

#include "mgmt/control/address.hpp"
#include "mgmt/control/node_core.hpp"

namespace lockstep::mgmt {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

constexpr auto kTrialPatience = 6s;

std::string text(const json& j, const char* key) { return j.value(key, std::string()); }

template <class T, class Read>
Outcome<T> read(std::string_view document, Read from) {
  try {
    return from(json::parse(document));
  } catch (const std::exception& e) {
    return refuse(RefusalKind::malformed, fmt::format("What is said of addresses cannot be read: {}.", e.what()));
  }
}

struct Socket {
  int descriptor = -1;
  ~Socket() {
    if (descriptor >= 0) ::close(descriptor);
  }
};

int bind_to(int descriptor, const Address& address) {
  if (address.v6) {
    sockaddr_in6 to{};
    to.sin6_family = AF_INET6;
    to.sin6_port = htons(address.port);
    if (::inet_pton(AF_INET6, address.host.c_str(), &to.sin6_addr) != 1) return EINVAL;
    return ::bind(descriptor, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0 ? 0 : errno;
  }
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(address.port);
  if (::inet_pton(AF_INET, address.host.c_str(), &to.sin_addr) != 1) return EINVAL;
  return ::bind(descriptor, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0 ? 0 : errno;
}

}  // namespace

std::string to_json_text(const AddressTrial& trial) {
  return json{{"listen", trial.listen},
              {"management", trial.management},
              {"link_from", trial.link_from},
              {"link_to", trial.link_to},
              {"partner", trial.partner}}
      .dump();
}

Outcome<AddressTrial> address_trial_from(std::string_view document) {
  return read<AddressTrial>(document, [](const json& j) {
    return AddressTrial{j.at("listen").get<std::vector<std::string>>(), text(j, "management"), text(j, "link_from"),
                        text(j, "link_to"), text(j, "partner")};
  });
}

std::string to_json_text(const AddressProblems& problems) {
  json list = json::array();
  for (const auto& p : problems) list.push_back({{"object", p.object}, {"message", p.message}});
  return json{{"problems", list}}.dump();
}

Outcome<AddressProblems> address_problems_from(std::string_view document) {
  return read<AddressProblems>(document, [](const json& j) {
    AddressProblems problems;
    for (const auto& p : j.at("problems")) problems.push_back({text(p, "object"), text(p, "message")});
    return problems;
  });
}

bool covers(const std::string& listened, const std::string& address) {
  if (listened == address) return true;
  const auto one = parse_address(listened), other = parse_address(address);
  if (!one || !other || one->port != other->port) return false;
  return one->host == "::" || (one->host == "0.0.0.0" && !other->v6);
}

std::optional<std::string> why_not_listen(const std::string& text) {
  const auto address = parse_address(text);
  if (!address) return fmt::format("{} is not an address with a port.", text);
  const Socket socket{::socket(address->v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  const int on = 1;
  ::setsockopt(socket.descriptor, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  int error = bind_to(socket.descriptor, *address);
  if (error == 0 && address->port != 0 && ::listen(socket.descriptor, 1) != 0) error = errno;
  if (error == 0) return std::nullopt;
  if (error == EADDRNOTAVAIL) return fmt::format("{} is not an address of this machine's.", address->host);
  if (error == EADDRINUSE) return fmt::format("Another program has {} already.", text);
  return fmt::format("Nobody can listen at {}: {}.", text, std::strerror(error));
}

Outcome<AddressProblems> AddressAgent::try_out(const AddressTrial& trial) const {
  AddressProblems problems;
  if (!trial.listen.empty()) {
    const auto tried = data_plane_.call("listen.try", json{{"addresses", trial.listen}}.dump(), kTrialPatience);
    if (!tried) return std::unexpected(tried.error());
    auto found = address_problems_from(*tried);
    if (!found) return std::unexpected(found.error());
    problems = std::move(*found);
  }
  if (!trial.management.empty())
    if (const auto why = core_.why_not_managed_at(trial.management)) problems.push_back({trial.management, *why});
  if (!trial.link_to.empty()) {
    const auto tried = data_plane_.call("link.try", json{{"from", trial.link_from}, {"connect", trial.link_to}}.dump(),
                                        kTrialPatience);
    if (!tried) return std::unexpected(tried.error());
    if (auto problem = text(json::parse(*tried, nullptr, false), "problem"); !problem.empty())
      problems.push_back({trial.link_to, fmt::format("No login from {}: {}", trial.link_from, problem)});
  }
  if (!trial.partner.empty())
    if (const auto why = core_.why_partner_is_not_at(trial.partner)) problems.push_back({trial.partner, *why});
  return problems;
}

}  // namespace lockstep::mgmt
