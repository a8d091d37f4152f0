#include "mgmt/control/replaced_nodes.hpp"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "mgmt/control/secrets.hpp"

namespace lockstep::mgmt {
namespace {

using nlohmann::json;
constexpr const char* kNodesKey = "replaced_nodes";
constexpr const char* kHereKey = "replaced_here_ms";

}  // namespace

ReplacedNodes::ReplacedNodes(NodeSettings& settings) : settings_(settings) {
  if (const auto here = settings_.get(kHereKey)) replaced_here_ms_ = std::stoll(*here);
  const auto kept = settings_.get(kNodesKey);
  if (!kept) return;
  for (const auto& j : json::parse(*kept))
    nodes_.push_back({Uuid::parse(j.at("id").get<std::string>()).value_or(Uuid{}),
                      j.at("side") == "a" ? NodeSide::a : NodeSide::b, j.at("name"), j.at("fingerprint"), j.at("at_ms"),
                      j.value("left", false)});
}

void ReplacedNodes::store() {
  json list = json::array();
  for (const auto& n : nodes_)
    list.push_back({{"id", n.id.to_string()},
                    {"side", side_name(n.side)},
                    {"name", n.name},
                    {"fingerprint", n.fingerprint},
                    {"at_ms", n.at_ms},
                    {"left", n.left}});
  settings_.set(kNodesKey, list.dump());
}

void ReplacedNodes::add(const Node& node, bool left) {
  const std::lock_guard lock(mutex_);
  std::erase_if(nodes_, [&](const ReplacedNode& n) { return n.id == node.id; });
  nodes_.push_back({node.id, node.side, node.name, node.fingerprint, wall_clock_ms(), left});
  if (nodes_.size() > kMost) nodes_.erase(nodes_.begin());
  store();
}

std::optional<ReplacedNode> ReplacedNodes::find(std::string_view id, std::string_view fingerprint) const {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(nodes_, [&](const ReplacedNode& n) {
    return id.empty() ? n.fingerprint == fingerprint : n.id.to_string() == id;
  });
  return found == nodes_.end() ? std::nullopt : std::optional(*found);
}

std::int64_t ReplacedNodes::replaced_here_ms() const {
  const std::lock_guard lock(mutex_);
  return replaced_here_ms_;
}

bool ReplacedNodes::set_replaced_here(bool replaced) {
  const std::lock_guard lock(mutex_);
  if (replaced == (replaced_here_ms_ != 0)) return false;
  replaced_here_ms_ = replaced ? wall_clock_ms() : 0;
  if (replaced)
    settings_.set(kHereKey, std::to_string(replaced_here_ms_));
  else
    settings_.erase(kHereKey);
  return true;
}

}  // namespace lockstep::mgmt
