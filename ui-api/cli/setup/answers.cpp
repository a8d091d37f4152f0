#include "ui-api/cli/setup/answers.hpp"

#include <algorithm>
#include <fstream>
#include <iostream>
#include <iterator>
#include <utility>

#include <fmt/format.h>
#include <toml++/toml.h>

#include "mgmt/control/validation.hpp"
#include "ui-api/cli/table.hpp"

namespace lockstep::cli::setup {
namespace {

constexpr int kAnswersTried = 5;

/// "10.0.0.11" and "fd00::11" get the port that is used for this.
std::string with_port(const std::string& text, unsigned port) {
  if (text.empty() || mgmt::parse_address(text)) return text;
  const bool v6 = std::ranges::count(text, ':') > 1 && !text.starts_with('[');
  const std::string whole = v6 ? fmt::format("[{}]:{}", text, port) : fmt::format("{}:{}", text, port);
  return mgmt::parse_address(whole) ? whole : text;
}

std::optional<std::string> check_own_address(const std::string& text) {
  if (auto complaint = mgmt::check_address(text)) return complaint;
  const auto address = mgmt::parse_address(text);
  if (address->host == "0.0.0.0" || address->host == "::") return "Must be the one address by which it is reached.";
  return std::nullopt;
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> words;
  std::string word;
  for (const char c : text + ",") {
    if (c != ',' && c != ' ') {
      word += c;
    } else if (!word.empty()) {
      words.push_back(std::exchange(word, {}));
    }
  }
  return words;
}

std::string together(const std::vector<std::string>& texts) { return fmt::format("{}", fmt::join(texts, ", ")); }

std::vector<std::string> with_ports(std::vector<std::string> texts, unsigned port) {
  for (std::string& text : texts) text = with_port(text, port);
  return texts;
}

std::optional<std::string> check_portals(const std::string& text) {
  const auto portals = with_ports(split(text), kPortalPort);
  if (portals.empty() || portals.size() > 8) return "Must be 1 to 8 addresses.";
  for (const std::string& portal : portals)
    if (auto complaint = check_own_address(portal)) return portal + ": " + *complaint;
  return std::nullopt;
}

/// What prepare-state and systemd take as they are; below these folders the daemons see nothing.
std::optional<std::string> check_folder(const std::string& text) {
  const bool plain = std::ranges::all_of(text, [](char c) {
    return static_cast<unsigned char>(c) > ' ' && c != 0x7f &&
           std::string_view("\"'\\%$`").find(c) == std::string_view::npos;
  });
  if (!text.starts_with('/') || text == "/" || text.ends_with('/') || text.size() > 255 || !plain ||
      text.find("/../") != std::string::npos || text.ends_with("/.."))
    return "Must be a folder's whole path, such as /srv/lockstep, without spaces, quotes, $, % and backslashes.";
  for (const char* hidden : {"/home", "/root", "/run/user", "/tmp", "/var/tmp", "/proc", "/sys", "/dev"})
    if (text == hidden || text.starts_with(std::string(hidden) + "/"))
      return fmt::format("The daemons do not see what is below {}. Choose another folder, or mount the disk elsewhere.",
                         hidden);
  for (const char* system :
       {"/etc", "/usr", "/bin", "/sbin", "/lib", "/boot", "/var", "/srv", "/mnt", "/media", "/opt"})
    if (text == system)
      return fmt::format("{} is the system's. Name a folder of its own, such as /srv/lockstep.", system);
  for (const char* system : {"/etc/", "/usr/", "/bin/", "/sbin/", "/lib/", "/lib32/", "/lib64/", "/boot/"})
    if (text.starts_with(system)) return "It is the system's. Name a folder of its own, such as /srv/lockstep.";
  return std::nullopt;
}

struct Candidate {
  std::string interface, host;
};

std::vector<Candidate> candidates(const std::vector<Interface>& interfaces) {
  std::vector<Candidate> found;
  for (const bool v6 : {false, true})
    for (const Interface& one : interfaces)
      for (const std::string& address : one.addresses)
        if (!one.loopback && (address.find(':') != std::string::npos) == v6) found.push_back({one.name, address});
  return found;
}

/// What is in the file, else the machine's first address, for the link one of another interface where there is one.
struct Proposals {
  std::string portals, link, management;
};
Proposals proposals(const Present& present, const std::vector<Interface>& interfaces) {
  Proposals p{together(present.portals), present.link, present.management};
  const auto found = candidates(interfaces);
  if (found.empty()) return p;
  const Candidate& first = found.front();
  const auto other = std::ranges::find_if(found, [&](const Candidate& c) { return c.interface != first.interface; });
  if (p.portals.empty()) p.portals = with_port(first.host, kPortalPort);
  if (p.link.empty()) p.link = with_port((other == found.end() ? first : *other).host, kLinkPort);
  if (p.management.empty()) p.management = with_port(first.host, kManagementPort);
  return p;
}

}  // namespace

std::optional<std::string> Questions::ask(const std::string& question, const std::string& otherwise) {
  err_ << question << (otherwise.empty() ? "" : fmt::format(" [{}]", printable(otherwise))) << ": " << std::flush;
  std::string typed;
  if (!std::getline(in_, typed)) return std::nullopt;
  while (typed.ends_with(' ') || typed.ends_with('\r')) typed.pop_back();
  return typed.empty() ? otherwise : typed;
}

Outcome<std::string> Questions::answer(const std::string& option, const std::string& question, const std::string& given,
                                       const std::string& otherwise, const Check& check) {
  if (!given.empty()) {
    if (const auto wrong = check(given))
      return fail(Exit::usage, fmt::format("{} {}: {}", option, printable(given), *wrong));
    return given;
  }
  if (yes_ && !otherwise.empty() && !check(otherwise)) return otherwise;
  for (int i = 0; terminal_ && i < kAnswersTried; ++i) {
    const auto typed = ask(question, otherwise);
    if (!typed) break;
    const auto wrong = check(*typed);
    if (!wrong) return *typed;
    err_ << *wrong << '\n';
  }
  const std::string found =
      otherwise.empty() || yes_ ? "" : fmt::format(" Found is {}: --yes takes what is found.", printable(otherwise));
  return fail(Exit::usage, fmt::format("{}? Say it with {}.{}", question, option, found));
}

Outcome<Present> read_present(const std::string& path) {
  Present present;
  std::ifstream file(path, std::ios::binary);
  if (!file) return present;
  present.there = true;
  present.text.assign(std::istreambuf_iterator<char>(file), {});
  try {
    const toml::table table = toml::parse(present.text);
    const auto text = [&](const char* key) { return table[key].value_or(std::string()); };
    if (const std::string listen = text("listen"); !listen.empty()) present.listen = listen;
    present.link = text("link_address");
    present.management = text("management_address");
    present.node_name = text("node_name");
    present.volume_folder = text("volume_folder");
    if (const auto* list = table["portals"].as_array())
      for (const auto& item : *list)
        if (const auto portal = item.value<std::string>()) present.portals.push_back(*portal);
  } catch (const toml::parse_error& e) {
    return fail(Exit::refused, fmt::format("{} is not TOML: line {}: {}. Mend it, or move it away, and run this again.",
                                           path, e.source().begin.line, e.description()));
  }
  return present;
}

Outcome<std::string> address_given(const std::string& option, const std::string& text, unsigned port) {
  if (text.empty()) return text;
  std::string whole = with_port(text, port);
  if (const auto wrong = check_own_address(whole))
    return fail(Exit::usage, fmt::format("{} {}: {}", option, printable(text), *wrong));
  return whole;
}

Outcome<Answers> answers_for(const Options& options, const Present& present, const std::vector<Interface>& interfaces,
                             Questions& questions) {
  const Proposals otherwise = proposals(present, interfaces);
  const auto own = [](unsigned port) {
    return [port](const std::string& text) { return check_own_address(with_port(text, port)); };
  };
  const auto portals =
      questions.answer("--portal", "Where hosts reach this node (IP:PORT; several with commas between them)",
                       together(options.portals), otherwise.portals, check_portals);
  if (!portals) return std::unexpected(portals.error());
  const auto link = questions.answer("--link-address", "Where its partner reaches it for replication (IP:PORT)",
                                     options.link, otherwise.link, own(kLinkPort));
  if (!link) return std::unexpected(link.error());
  const auto management =
      questions.answer("--management-address", "Where its partner's management reaches it (IP:PORT)",
                       options.management, otherwise.management, own(kManagementPort));
  if (!management) return std::unexpected(management.error());
  Answers answers{with_ports(split(*portals), kPortalPort), with_port(*link, kLinkPort),
                  with_port(*management, kManagementPort), options.node_name, options.volume_folder};
  if (!options.node_name.empty())
    if (const auto wrong = mgmt::check_node_name(options.node_name)) return fail(Exit::usage, "--node-name: " + *wrong);
  const std::string folder = present.volume_folder.empty() ? Places().state_folder + "/volumes" : present.volume_folder;
  if (options.volume_folder.empty() && !questions.may_ask()) return answers;
  auto chosen =
      questions.answer("--volume-folder", "The folder for volumes", options.volume_folder, folder, check_folder);
  if (!chosen) return std::unexpected(chosen.error());
  answers.volume_folder = *chosen == folder ? present.volume_folder : std::move(*chosen);
  return answers;
}

}  // namespace lockstep::cli::setup
