#include "mgmt/control/mgmtd_config.hpp"

#include <algorithm>
#include <array>
#include <sstream>

#include <fmt/format.h>
#include <toml++/toml.h>
#include <unistd.h>

#include "mgmt/control/address.hpp"
#include "mgmt/control/pair_members.hpp"
#include "mgmt/control/validation.hpp"

namespace lockstep::mgmt {
namespace {

struct BadFile {
  std::string what;
};

constexpr std::array kKnown = {"listen",
                               "data_folder",
                               "volume_folder",
                               "configuration_copy_folder",
                               "rpc_socket",
                               "node_name",
                               "portals",
                               "link_address",
                               "management_address",
                               "log_level",
                               "web_folder",
                               "create_patience_seconds",
                               "invitation_life_seconds"};
constexpr std::array kLevels = {"trace", "debug", "info", "warning", "error"};

std::string where(const toml::node& node) { return fmt::format("line {}", node.source().begin.line); }

std::string text(const toml::table& table, const char* key, const std::string& otherwise) {
  const toml::node* node = table.get(key);
  if (!node) return otherwise;
  if (const auto value = node->value<std::string>(); value && node->is_string()) return *value;
  throw BadFile{fmt::format("{}: {} must be a string", where(*node), key)};
}

std::string address(const toml::table& table, const char* key, const std::string& otherwise) {
  const std::string value = text(table, key, otherwise);
  if (value.empty() || parse_address(value)) return value;
  throw BadFile{fmt::format("{}: {} must be a numeric address and a port, such as 10.0.0.11:8443 or [fd00::11]:8443",
                            where(*table.get(key)), key)};
}

std::chrono::seconds seconds(const toml::table& table, const char* key, std::chrono::seconds otherwise) {
  const toml::node* node = table.get(key);
  if (!node) return otherwise;
  const auto value = node->value<std::int64_t>();
  if (node->is_integer() && *value > 0 && *value <= 86'400) return std::chrono::seconds(*value);
  throw BadFile{fmt::format("{}: {} must be a number of seconds from 1 to 86400", where(*node), key)};
}

std::vector<std::string> addresses(const toml::table& table, const char* key) {
  std::vector<std::string> list;
  const toml::node* node = table.get(key);
  if (!node) return list;
  if (!node->is_array()) throw BadFile{fmt::format("{}: {} must be a list of addresses", where(*node), key)};
  for (const auto& item : *node->as_array()) {
    const auto value = item.value<std::string>();
    if (!value || !parse_address(*value))
      throw BadFile{
          fmt::format("{}: each of {} must be a numeric address and a port, such as 10.0.0.11:3260", where(item), key)};
    list.push_back(*value);
  }
  return list;
}

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "node";
  const std::string text(name.data());
  return check_node_name(text) ? "node" : text;
}

MgmtdConfig read(const toml::table& table) {
  for (const auto& [key, node] : table)
    if (std::ranges::find(kKnown, key.str()) == kKnown.end())
      throw BadFile{fmt::format("line {}: there is no setting {}", key.source().begin.line, key.str())};
  MgmtdConfig config;
  for (const auto& [key, node] : table) config.said.emplace_back(key.str());
  config.listen = address(table, "listen", "0.0.0.0:8443");
  config.log_level = text(table, "log_level", "info");
  if (std::ranges::find(kLevels, config.log_level) == kLevels.end())
    throw BadFile{
        fmt::format("{}: log_level must be trace, debug, info, warning or error", where(*table.get("log_level")))};
  config.web_folder = text(table, "web_folder", "/usr/share/lockstep/web");
  LocalSettings& local = config.local;
  local.data_folder = text(table, "data_folder", "/var/lib/lockstep/mgmt");
  local.volume_folder = text(table, "volume_folder", "/var/lib/lockstep/volumes");
  local.copy_folder = text(table, "configuration_copy_folder", local.volume_folder.string());
  local.rpc_socket = text(table, "rpc_socket", "/run/lockstep/lockstepd.sock");
  local.node_name = text(table, "node_name", host_name());
  local.portals = addresses(table, "portals");
  local.link_address = address(table, "link_address", "");
  local.management_address = address(table, "management_address", config.listen);
  local.listen = config.listen;
  local.create_patience = seconds(table, "create_patience_seconds", local.create_patience);
  local.invitation_life = seconds(table, "invitation_life_seconds", local.invitation_life);
  if (const auto complaint = check_node_name(local.node_name))
    throw BadFile{fmt::format("node_name is {}: {}", local.node_name, *complaint)};
  return config;
}

}  // namespace

engine::Result<MgmtdConfig> read_mgmtd_config(const std::filesystem::path& file) {
  const auto refused = [&](const std::string& why) {
    return engine::fail(engine::Errc::refused,
                        fmt::format("The configuration file {} cannot be used: {}.", file.string(), why));
  };
  std::error_code error;
  if (!std::filesystem::exists(file, error)) return refused("it is not there");
  try {
    return read(toml::parse_file(file.string()));
  } catch (const toml::parse_error& e) {
    return refused(fmt::format("line {}: {}", e.source().begin.line, e.description()));
  } catch (const BadFile& e) {
    return refused(e.what);
  }
}

std::vector<std::string> not_usable(const MgmtdConfig& config) {
  std::vector<std::string> sentences;
  const auto is_said = [&](std::string_view key) { return std::ranges::find(config.said, key) != config.said.end(); };
  const LocalSettings& local = config.local;
  Node node;
  node.name = local.node_name;
  node.portals = local.portals;
  node.link_address = local.link_address;
  node.management_address = local.management_address;
  for (const auto& problem : problems_of(node)) {
    const std::string_view field = std::string_view(problem.pointer).substr(std::string_view("/node/").size());
    const std::string_view key = field.substr(0, field.find('/'));
    if (is_said(key)) sentences.push_back(fmt::format("The setting {} can't be honoured: {}", key, problem.detail));
  }
  for (const auto& [key, folder] : {std::pair<const char*, std::filesystem::path>{"data_folder", local.data_folder},
                                    {"volume_folder", local.volume_folder},
                                    {"configuration_copy_folder", local.copy_folder},
                                    {"rpc_socket", local.rpc_socket},
                                    {"web_folder", config.web_folder}})
    if (is_said(key) && !folder.empty() && !folder.is_absolute())
      sentences.push_back(fmt::format("The setting {} can't be honoured: {} must begin with /.", key, folder.string()));
  return sentences;
}

std::vector<FileDifference> not_in_force(const MgmtdConfig& config, const Node& node) {
  std::vector<FileDifference> differ;
  const auto compare = [&](const char* key, const std::string& in_file, const std::string& in_force,
                           const std::string& command) {
    if (std::ranges::find(config.said, key) == config.said.end() || in_file == in_force) return;
    differ.push_back(
        {fmt::format("The configuration file says {} = {}, which is not in force: the pair has {}.", key, in_file,
                     in_force.empty() ? "none" : in_force),
         fmt::format("To have what the file says: {}. To have what is in force, write that into the file, or take the "
                     "setting out of it.",
                     command)});
  };
  const auto set = [&](const std::string& options) {
    return fmt::format("`lockstep node set {} {}`", side_name(node.side), options);
  };
  const LocalSettings& local = config.local;
  compare("node_name", local.node_name, node.name,
          fmt::format("`lockstep node rename {} {}`", side_name(node.side), local.node_name));
  if (!std::ranges::is_permutation(local.portals, node.portals))
    compare("portals", fmt::format("{}", fmt::join(local.portals, ", ")),
            fmt::format("{}", fmt::join(node.portals, ", ")),
            set(fmt::format("--portal {}", fmt::join(local.portals, " --portal "))));
  compare("link_address", local.link_address, node.link_address,
          set(fmt::format("--link-address {}", local.link_address)));
  compare("management_address", local.management_address, node.management_address,
          set(fmt::format("--management-address {}", local.management_address)));
  return differ;
}

std::vector<FileDifference> FileWatch::differences(const Node& node) {
  std::error_code error;
  const auto written = std::filesystem::last_write_time(file_, error);
  if (error || written != written_ || !config_) {
    written_ = written;
    auto read = read_mgmtd_config(file_);
    config_ = read ? std::optional(std::move(*read)) : std::nullopt;
    problem_ = read ? "" : read.error().message;
  }
  if (config_) return not_in_force(*config_, node);
  return {{problem_, "lockstep-mgmtd goes on with what it read when it started, and would not start again."}};
}

}  // namespace lockstep::mgmt
