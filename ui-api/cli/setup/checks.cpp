#include "ui-api/cli/setup/checks.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include <fmt/format.h>

#include "ui-api/cli/size.hpp"
#include "ui-api/cli/table.hpp"

namespace lockstep::cli::setup {
namespace {

using Kind = Finding::Kind;

constexpr std::int64_t kYear2025 = 1'735'689'600;
constexpr std::uint64_t kLittleSpace = std::uint64_t{1} << 30;
constexpr unsigned kEthernetMtu = 1500;
constexpr std::size_t kDescriptionHead = 2000;

struct Purpose {
  const char* option;
  const char* daemon;  ///< that listens there
};
constexpr Purpose kPortal{"--portal", "lockstepd"}, kLink{"--link-address", "lockstepd"},
    kManagement{"--management-address", "lockstep-mgmtd"};

std::string addresses_of(Host& host) {
  std::string all;
  for (const Interface& one : host.interfaces())
    for (const std::string& address : one.addresses)
      if (!one.loopback) all += (all.empty() ? "" : ", ") + address;
  return all.empty() ? "none" : all;
}

/// Whether a daemon of ours that cannot be seen may be the one that listens there: the file says this very address.
bool stands_in(const Present& present, const std::string& address) {
  return present.link == address || present.management == address ||
         std::ranges::find(present.portals, address) != present.portals.end();
}

Finding check_address(Host& host, const Purpose& purpose, const std::string& text, const Present& present) {
  const std::string what = fmt::format("{} {}", purpose.option, text);
  const auto address = mgmt::parse_address(text);
  if (!address) return {Kind::refused, what + " is no address with a port."};
  const PortState state = host.port(*address);
  switch (state.use) {
    case PortState::Use::free:
      return {Kind::good, what + " is this machine's, and its port is free."};
    case PortState::Use::not_here:
      return {Kind::refused,
              fmt::format("{} is not an address of this machine, which has {}. Give one of these, or bring "
                          "the other interface up.",
                          what, addresses_of(host))};
    case PortState::Use::unknown:
      return {Kind::warning, what + ": whether the port is free could not be seen."};
    case PortState::Use::taken:
      break;
  }
  if (state.holder == purpose.daemon)
    return {Kind::good, fmt::format("{} is this machine's, and {} has its port.", what, state.holder)};
  if (state.holder.empty() && stands_in(present, text))
    return {Kind::warning, fmt::format("{}: a program has the port that can't be seen from here; {} is to have it, and "
                                       "it is taken to be that.",
                                       what, purpose.daemon)};
  return {Kind::refused, fmt::format("{}: {} has the port. Stop that, or choose another port.", what,
                                     state.holder.empty() ? "another program" : printable(state.holder))};
}

/// Where management listens is not changed by set-up, and what the partner is told has to be that.
std::optional<Finding> check_listen(const std::string& management, const std::string& listen) {
  const auto told = mgmt::parse_address(management), bound = mgmt::parse_address(listen);
  if (!told || !bound) return std::nullopt;
  const bool every = bound->host == "0.0.0.0" || bound->host == "::";
  if (told->port == bound->port && (every || told->host == bound->host)) return std::nullopt;
  return Finding{Kind::refused,
                 fmt::format("{} {}: nothing would answer there, because mgmtd.toml has listen = \"{}\". "
                             "Change that line, or give what it says.",
                             kManagement.option, management, printable(listen))};
}

const Interface* interface_with(const std::vector<Interface>& all, const std::string& address) {
  for (const Interface& one : all)
    if (std::ranges::find(one.addresses, address) != one.addresses.end()) return &one;
  return nullptr;
}

struct Version {
  unsigned major = 0, minor = 0;
};

std::optional<Version> parsed_version(const std::string& text) {
  Version version;
  const char* end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, version.major);
  if (first.ec != std::errc() || first.ptr == end || *first.ptr != '.') return std::nullopt;
  const auto second = std::from_chars(first.ptr + 1, end, version.minor);
  if (second.ec != std::errc()) return std::nullopt;
  return version;
}

std::string first_line(const std::string& text) { return printable(text.substr(0, text.find('\n'))); }

}  // namespace

std::vector<Finding> check_addresses(Host& host, const Answers& answers, const Present& present) {
  std::vector<Finding> findings;
  std::vector<std::string> seen;
  const auto look = [&](const Purpose& purpose, const std::string& address) {
    if (std::ranges::find(seen, address) != seen.end())
      findings.push_back(
          {Kind::refused, fmt::format("{} {} is given twice. Each needs a port of its own.", purpose.option, address)});
    else
      findings.push_back(check_address(host, purpose, address, present));
    seen.push_back(address);
  };
  for (const std::string& portal : answers.portals) look(kPortal, portal);
  look(kLink, answers.link);
  look(kManagement, answers.management);
  if (auto finding = check_listen(answers.management, present.listen)) findings.push_back(std::move(*finding));
  return findings;
}

Finding check_clock(Host& host) {
  const ClockState clock = host.clock();
  if (clock.seconds < kYear2025)
    return {Kind::refused,
            "The clock is years behind, and no certificate would be valid. Set it (`timedatectl set-ntp true`)."};
  if (clock.synchronised == ClockState::Synchronised::yes) return {Kind::good, "The clock is synchronised."};
  return {Kind::warning,
          clock.synchronised == ClockState::Synchronised::no
              ? "The clock is not synchronised. Certificates and the times of events go by it: `apt install chrony`."
              : "Whether the clock is synchronised could not be seen."};
}

std::string volume_folder(Host& host, const Answers& answers, const Present& present) {
  if (!answers.volume_folder.empty()) return answers.volume_folder;
  return present.volume_folder.empty() ? host.places().state_folder + "/volumes" : present.volume_folder;
}

std::vector<Finding> check_volume_folder(Host& host, const Answers& answers, const Present& present) {
  const std::string state_folder = host.places().state_folder;
  const bool changed = !answers.volume_folder.empty() && answers.volume_folder != present.volume_folder;
  std::string folder = volume_folder(host, answers, present);
  const bool own = folder.starts_with(state_folder + "/");
  FolderState state = host.folder(folder);
  if (own && !state.there) {  // the daemons make it
    folder = state_folder;
    state = host.folder(folder);
  }
  if (!state.there)
    return {{Kind::refused, fmt::format("The folder {} is not there. {}", folder,
                                        own ? "Install the package lockstep again." : "Make it, or mount its disk.")}};
  if (state.in_memory)
    return {{Kind::refused, fmt::format("{} is kept in memory, and a restart of the machine loses it. Choose another "
                                        "folder.",
                                        folder)}};
  if (!state.why_no_writes.empty())
    return {{Kind::refused, fmt::format("Nothing can be written to {}: {}.", folder, state.why_no_writes)}};
  if (!state.why_no_direct_io.empty())
    return {{Kind::refused, fmt::format("{} does not take direct I/O: {}. Choose a folder on ext4 or XFS.", folder,
                                        state.why_no_direct_io)}};
  if (!own && !state.user_gets_there)
    return {{Kind::refused, fmt::format("The user lockstep does not get to {}: a folder above it shuts it out. `chmod "
                                        "o+x` that folder.",
                                        folder)}};
  if (!own && changed && !state.strangers.empty())
    return {
        {Kind::refused, fmt::format("{} holds what is not Lockstep's: {}. All in it would become the user lockstep's. "
                                    "Choose an empty folder.",
                                    folder, printable(fmt::format("{}", fmt::join(state.strangers, ", "))))}};
  std::vector<Finding> findings{
      {Kind::good, fmt::format("{} takes direct I/O and has {} free.", folder, format_size(state.free_bytes))}};
  if (state.free_bytes < kLittleSpace)
    findings.push_back({Kind::warning, fmt::format("{} is nearly full. Volumes need space there.", folder)});
  return findings;
}

std::vector<Finding> check_link(Host& host, const Answers& answers, const std::string& partner_link) {
  const auto address = mgmt::parse_address(answers.link);
  const auto interfaces = host.interfaces();
  const Interface* with = address ? interface_with(interfaces, address->host) : nullptr;
  if (with == nullptr) return {};  // that the address is not here was said
  std::vector<Finding> findings{
      {with->mtu >= kEthernetMtu ? Kind::good : Kind::warning,
       fmt::format("The link goes over {}, with packets of up to {} bytes.", printable(with->name), with->mtu)}};
  const auto partner = mgmt::parse_address(partner_link);
  if (!partner) return findings;
  switch (host.packets(*address, *partner, with->mtu).outcome) {
    case PacketState::Outcome::reached:
      findings.push_back({Kind::good, fmt::format("Packets of {} bytes reach the partner at {} and come back.",
                                                  with->mtu, partner->host)});
      break;
    case PacketState::Outcome::only_small:
      findings.push_back(
          {Kind::refused, fmt::format("Packets of {} bytes do not reach the partner at {}, smaller ones do. "
                                      "Set one MTU on both nodes and on all between them.",
                                      with->mtu, partner->host)});
      break;
    case PacketState::Outcome::silent:
      findings.push_back(
          {Kind::warning, fmt::format("The partner does not answer a ping at {}. Look at the cable and at "
                                      "firewalls; whether large packets reach it is not known.",
                                      partner->host)});
      break;
    case PacketState::Outcome::not_tried:
      findings.push_back({Kind::warning, "Whether large packets reach the partner could not be tried."});
  }
  return findings;
}

std::optional<std::string> version_in(const std::string& description) {
  constexpr std::string_view kKey = "\n  version: ";
  const std::string head = description.substr(0, kDescriptionHead);
  const auto at = head.find(kKey);
  if (at == std::string::npos) return std::nullopt;
  const auto begin = at + kKey.size();
  const auto end = head.find_first_not_of("0123456789.", begin);
  std::string version = head.substr(begin, end == std::string::npos ? end : end - begin);
  if (!parsed_version(version)) return std::nullopt;
  return version;
}

Finding check_partner(const std::string& address, const Outcome<std::string>& description,
                      const std::string& own_version) {
  if (!description)
    return {Kind::refused, fmt::format("The partner's management does not answer at {} ({}). Is it running, and does a "
                                       "firewall let port and machine through?",
                                       address, first_line(description.error().message))};
  const auto theirs = version_in(*description);
  if (!theirs) return {Kind::refused, fmt::format("What answers at {} is no Lockstep node.", address)};
  const auto their_parts = parsed_version(*theirs), own_parts = parsed_version(own_version);
  if (!own_parts || their_parts->major != own_parts->major)
    return {Kind::refused,
            fmt::format("The partner at {} has version {}, and this is {}: they do not fit. Install the same "
                        "on both.",
                        address, *theirs, own_version)};
  if (their_parts->minor != own_parts->minor)
    return {Kind::warning, fmt::format("The partner at {} has version {}, and this is {}. Bring both to the newer one.",
                                       address, *theirs, own_version)};
  return {Kind::good, fmt::format("The partner's management answers at {}, with version {}.", address, *theirs)};
}

}  // namespace lockstep::cli::setup
